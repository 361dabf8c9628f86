"""What a workspace may configure, how that reaches the gates, and which folders may be workspaces."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.config import KEYS, Config, ConfigError, Loaded, dotted, load
from leeward.runtime.config.narrowing import lower_from
from leeward.runtime.policy import to_policy, workspace_question
from leeward.security.paths import secret_reason
from leeward.security.policy import Autonomy, Policy, Rule, RuleAction
from leeward.security.trust import TrustLevel
from leeward.tools.process import Limits, UpperBounds


def lay(folder: Path, person: str, workspace: str, *, trusted: bool = True, **layers: Any) -> Loaded:
    """Load a person's configuration and, below it, that of a workspace."""
    inner = folder / "ws" / ".leeward"
    inner.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(person)
    (inner / "config.toml").write_text(workspace)
    return load(config_dir=folder, workspace=folder / "ws", trusted=trusted, **{"environment": {}, **layers})


NEVER = {
    "llm": (
        'model = "offline"',
        "fallback = []",
        "retries = 4",
        "retry_seconds = 120",
        "stall_timeout = 180",
        'proxy = ""',
        'ca_file = ""',
        "providers = []",
    ),
    "cost": ("prices = []",),
    "tools": ("executors = []", "plugins = []"),
    "tools.file": ("allow_read = []",),
    "tools.sandbox": ('level = "none"', "allow_hosts = []"),
    "tools.retry": ("first_wait = 0.5", "longest_wait = 8"),
    "tools.fetch": ("allow_networks = []", "allow_http = []", 'ca_file = ""'),
    "security.pre_execution_verify.url_grounding": ("urls = []", "search_tools = []"),
    "tools.anomaly": ("window_size = 20",),
    "tools.overflow": ("retention_days = 7", "max_total_bytes = 1073741824"),
    "memory": ("retention_days = 90",),
    "hooks": ('x = { on = "after_call", command = ["x"] }',),
    "mcp": ("servers = {}",),
    "storage": ('path = ""',),
    "secrets": ('X = { env = "A", hosts = ["a.example"] }',),
    "tools.audit": ('heads = ""',),
    "terminal": ('notify = "off"', 'editing = "emacs"', 'theme = "auto"'),
    "tools.shell": ["checkpoints = true", "checkpoint_bytes = 67108864"],
}


def test_what_only_the_person_may_set_is_refused_even_at_its_default(tmp_path: Path) -> None:
    text = "\n".join("\n".join([f"[{section}]", *lines]) for section, lines in NEVER.items())
    with pytest.raises(ConfigError) as caught:
        lay(tmp_path, "", text)
    said = str(caught.value).splitlines()
    assert len(said) == sum(map(len, NEVER.values()))
    assert all(line.endswith(": a workspace may not set this key") for line in said)
    assert said[0] == ".leeward/config.toml:2: llm.model: a workspace may not set this key"
    refused = {line.split(": ")[1] for line in said}
    assert refused == {dotted(path) for path, key in KEYS.items() if key.narrowing is None}


LOOSER = [
    ("", "agent.max_turns = 26", "26 is looser than what holds (25); a workspace may only lower it"),
    ("agent.timeout = 60", "agent.timeout = 61", "61.0 is looser than what holds (60.0)"),
    ("agent.timeout = 60", "agent.timeout = 0", "0.0 is looser than what holds (60.0)"),
    ("", 'permissions.autonomy = "full"', '"full" is looser than what holds ("supervised")'),
    ('permissions.autonomy = "readonly"', 'permissions.autonomy = "supervised"', '"supervised" is looser'),
    ("", 'permissions.rules = [{tool = "x", action = "allow"}]', '"allow" is looser than what holds; a'),
    ("", 'security.trust.mcp = "verified"', '"verified" is looser than what holds'),
    ('security.trust."plug-in x" = "blocked"', 'security.trust.y = "quarantined"', '"quarantined" is looser'),
    ('security.trust.x = "quarantined"', 'security.trust.x = "verified"', '"verified" is looser'),
    (
        "",
        f"tools.shell.memory = {8 << 30}",
        "is looser than what holds (0); a workspace may only lower it (0 is",
    ),
    ("tools.shell.memory = 1000", "tools.shell.memory = 1001", "1001 is looser than what holds (1000)"),
    ("tools.shell.memory = 1000", "tools.shell.memory = 0", "0 is looser than what holds (1000)"),
    ("", 'security.fence.web = "delimit"', '"delimit" is looser than what holds ("datamark")'),
    ("", "security.breaker.total = 21", "21 is looser than what holds (20)"),
    ("", "security.pre_execution_verify.url_grounding.enabled = false", "false is looser"),
    ("", 'security.pre_execution_verify.url_grounding.guarded_tools = ["fetch"]', "a list is looser"),
    (
        "",
        'tools.shell.allowed_paths = ["/opt"]',
        '"/opt" is looser than what holds; a workspace may only take',
    ),
    ('tools.shell.allowed_paths = ["/opt"]', 'tools.shell.allowed_paths = ["/opt/x"]', '"/opt/x" is looser'),
    (
        "",
        "tools.sandbox.network = true",
        "true is looser than what holds (false); a workspace may only switch it off",
    ),
    ("", "tools.sandbox.auto_allow = true", "true is looser than what holds (false)"),
    (
        "tools.sandbox.required = true",
        "tools.sandbox.required = false",
        "false is looser than what holds (true)",
    ),
    ('tools.sandbox.extra_read = ["/opt"]', 'tools.sandbox.extra_read = ["/opt/x"]', '"/opt/x" is looser'),
    (
        "",
        'tools.sandbox.extra_write = ["/srv"]',
        '"/srv" is looser than what holds; a workspace may only take',
    ),
    ('tools.file.deny_read = ["*.pem"]', 'tools.file.deny_read = ["*.key"]', "a list is looser"),
    ("tools.fetch.max_body_bytes = 9", "tools.fetch.max_body_bytes = 0", "102400 is looser"),
    (
        'tools.fetch.domain_allowlist = ["*.a.example"]',
        'tools.fetch.domain_allowlist = ["a.example"]',
        "is looser",
    ),
    (
        'tools.fetch.domain_allowlist = ["a.example"]',
        "tools.fetch.domain_allowlist = []",
        "an empty list is looser",
    ),
    (
        'tools.fetch.domain_denylist = ["a.example"]',
        'tools.fetch.domain_denylist = ["b.example"]',
        "a list is looser",
    ),
    ("", "tools.anomaly.auto_block = false", "false is looser than what holds (true)"),
    ("", "tools.overflow.max_overflow_bytes = 0", "1099511627776 is looser than what holds (10485760)"),
]


@pytest.mark.parametrize(("person", "workspace", "expected"), LOOSER)
def test_what_loosens_is_refused_with_its_line(
    tmp_path: Path, person: str, workspace: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        lay(tmp_path, person, f"# mine\n{workspace}")
    assert str(caught.value).startswith(".leeward/config.toml:2: ")
    assert expected in str(caught.value)


TIGHTER = [
    ("", "agent.max_turns = 25"),
    ("", "agent.timeout = 60"),
    ("agent.timeout = 60", "agent.timeout = 59.5"),
    ('permissions.autonomy = "full"', 'permissions.autonomy = "supervised"'),
    ("", 'permissions.autonomy = "readonly"'),
    ("", 'permissions.rules = [{tool = "*", action = "deny"}, {tool = "x", action = "ask", force = true}]'),
    ("", 'security.trust.mcp = "quarantined"'),
    ('security.trust.x = "trusted"', 'security.trust.x = "verified"'),
    ('security.trust.x = "blocked"', 'security.trust.y = "blocked"'),
    (
        "security.pre_execution_verify.url_grounding.enabled = false",
        "security.pre_execution_verify.url_grounding.enabled = true",
    ),
    ("", 'security.pre_execution_verify.url_grounding.guarded_tools = ["web_scrape", "x", "fetch"]'),
    ('tools.shell.allowed_paths = ["/opt", "/srv"]', 'tools.shell.allowed_paths = ["/srv"]'),
    ('tools.file.deny_read = ["*.pem"]', 'tools.file.deny_read = ["*.key", "*.pem"]'),
    ("", 'tools.fetch.domain_allowlist = ["a.example"]'),
    (
        'tools.fetch.domain_allowlist = ["*.a.example"]',
        'tools.fetch.domain_allowlist = ["B.a.example", "*.c.a.example"]',
    ),
    ("", 'tools.fetch.domain_denylist = ["a.example"]'),
    ("tools.anomaly.enabled = false", "tools.anomaly.enabled = true"),
    ("tools.fetch.max_body_bytes = 0", "tools.fetch.max_body_bytes = 102400"),
]


@pytest.mark.parametrize(("person", "workspace"), TIGHTER)
def test_what_tightens_holds(tmp_path: Path, person: str, workspace: str) -> None:
    loaded = lay(tmp_path, person, workspace)
    assert ".leeward/config.toml:1" in loaded.sources.values()
    assert loaded.files == (tmp_path / "config.toml", tmp_path / "ws/.leeward/config.toml")


def test_an_untrusted_workspace_says_nothing(tmp_path: Path) -> None:
    loaded = lay(tmp_path, "", "this is not even TOML", trusted=False)
    assert loaded.config == Config()
    assert len(loaded.files) == 1


def test_a_file_the_person_named_is_theirs_wherever_it_lies(tmp_path: Path) -> None:
    text = 'llm.model = "offline"'
    (tmp_path / "ws/.leeward").mkdir(parents=True)
    named = tmp_path / "ws/.leeward/config.toml"
    named.write_text(text)
    loaded = load(file=named, workspace=tmp_path / "ws", trusted=True, environment={})
    assert loaded.config.llm.model == "offline"


def test_the_person_has_the_last_word(tmp_path: Path) -> None:
    loaded = lay(tmp_path, "", "agent.max_turns = 3", environment={"LEEWARD_AGENT__MAX_TURNS": "30"})
    assert loaded.config.agent.max_turns == 30


# Tightness, said a second time and independently: may `new` do no more than `old`?
_RANK = {
    "readonly": 0,
    "supervised": 1,
    "full": 2,
    "trusted": 3,
    "verified": 2,
    "quarantined": 1,
    "blocked": 0,
}
_MARKED = ("delimit", "datamark", "encode")
Order = Callable[[Any, Any], bool]


def _at_most(old: float, new: float) -> bool:
    return new <= old


def _unset_is_endless(old: float, new: float) -> bool:
    return (old == 0) or (0 < new <= old)


def _trust(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """A name that was not set may have had any level below trusted, or that of a source that was set."""
    anything = min([1, *(_RANK[level] for level in old.values())])
    return all(_RANK[level] <= _RANK.get(old.get(name, ""), anything) for name, level in new.items())


def _reach(patterns: Sequence[str]) -> set[str]:
    """The hosts of a small world that a list leaves: an empty one all of them."""
    world = {"a.example", "b.a.example", "c.b.a.example", "other.example"}
    return {
        host for host in world if any(host == p or (p[0] == "*" and host.endswith(p[1:])) for p in patterns)
    } or world


ORDERS: dict[str, Order] = {
    "tools.fetch.domain_allowlist": lambda old, new: _reach(new) <= _reach(old),
    "tools.fetch.domain_denylist": lambda old, new: {*old} <= {*new},
    "agent.timeout": _unset_is_endless,
    "tools.shell.processes": lambda old, new: (new or Limits().tasks) <= (old or Limits().tasks),
    "tools.shell.trial_bytes": lambda old, new: (new or UpperBounds().size) <= (old or UpperBounds().size),
    "tools.shell.memory": lambda old, new: (new or Limits().memory) <= (old or Limits().memory),
    "agent.context_tokens": _unset_is_endless,
    "cost.max_session": _unset_is_endless,
    "permissions.autonomy": lambda old, new: _RANK[new] <= _RANK[old],
    "permissions.rules": lambda old, new: (
        new[: len(old)] == old and "allow" not in {rule.action for rule in new[len(old) :]}
    ),
    "security.trust": _trust,
    **{
        f"security.fence.{origin}": lambda old, new: _MARKED.index(new) >= _MARKED.index(old)
        for origin in ("web", "mcp", "workspace", "tool")
    },
    "security.pre_execution_verify.url_grounding.enabled": lambda old, new: new or not old,
    "security.pre_execution_verify.url_grounding.guarded_tools": lambda old, new: {*old} <= {*new},
    "tools.shell.allowed_paths": lambda old, new: {*new} <= {*old},
    "tools.shell.trial": lambda old, new: new in {old, "ask"},
    "tools.shell.overlay": lambda old, new: new or not old,
    "tools.shell.allowed_commands": lambda old, new: {*new} <= {*old},
    "tools.shell.caches": lambda old, new: {*new} <= {*old},
    "tools.shell.blocked_commands": lambda old, new: {*old} <= {*new},
    "tools.shell.confirm_patterns": lambda old, new: {*old} <= {*new},
    "tools.sandbox.required": lambda old, new: new or not old,
    "tools.sandbox.extra_read": lambda old, new: {*new} <= {*old},
    "tools.sandbox.extra_write": lambda old, new: {*new} <= {*old},
    "tools.file.deny_read": lambda old, new: {*old} <= {*new},
    "tools.anomaly.enabled": lambda old, new: new or not old,
    "tools.anomaly.auto_block": lambda old, new: new or not old,
}

_LEVELS = st.sampled_from(["trusted", "verified", "quarantined", "blocked"])
_RULE = st.fixed_dictionaries(
    {"tool": st.sampled_from(["*", "shell"]), "action": st.sampled_from(["allow", "ask", "deny"])}
)
_SMALL = st.integers(1, 4)
_HOSTS = st.sampled_from(["a.example", "*.a.example", "b.a.example", "*.b.a.example"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{dotted(path): _SMALL for path, key in KEYS.items() if type(key.default) in {int, float}},
    "agent.timeout": st.sampled_from([0, 1, 2.5, 60]),
    "permissions.autonomy": st.sampled_from(["readonly", "supervised", "full"]),
    "permissions.rules": st.lists(_RULE, max_size=2),
    **{
        f"security.fence.{origin}": st.sampled_from(_MARKED) for origin in ("web", "mcp", "workspace", "tool")
    },
    "security.trust": st.dictionaries(st.sampled_from(["a", "plug-in b"]), _LEVELS, max_size=2),
    "security.pre_execution_verify.url_grounding.enabled": st.booleans(),
    "security.pre_execution_verify.url_grounding.guarded_tools": st.lists(st.sampled_from("abc"), max_size=3),
    "tools.file.deny_read": st.lists(st.sampled_from(["*.a", "b/**", "/c"]), max_size=3),
    **{f"tools.sandbox.{name}": st.booleans() for name in ("required", "network", "auto_allow")},
    **{
        f"tools.sandbox.{name}": st.lists(st.sampled_from(["/a", "/b"]), max_size=2)
        for name in ("extra_read", "extra_write")
    },
    "tools.shell.blocked_commands": st.lists(st.sampled_from(["a", "b *", "c d"]), max_size=2, unique=True),
    "tools.shell.allowed_commands": st.lists(st.sampled_from(["a", "b *", "c d"]), max_size=2, unique=True),
    "tools.shell.confirm_patterns": st.lists(st.sampled_from(["a", "b *", "c d"]), max_size=2, unique=True),
    "tools.shell.trial": st.sampled_from(["auto", "ask", "off"]),
    "tools.shell.overlay": st.booleans(),
    "tools.shell.caches": st.lists(st.sampled_from(["__pycache__", ".x_cache", "y"]), max_size=2),
    "tools.shell.allowed_paths": st.lists(st.sampled_from(["/a", "/a/b", "/c"]), max_size=2),
    "tools.fetch.max_body_bytes": st.sampled_from([0, 1, 102_401]),
    "tools.fetch.domain_allowlist": st.lists(_HOSTS, max_size=2),
    "tools.fetch.domain_denylist": st.lists(_HOSTS, max_size=2),
    "tools.anomaly.enabled": st.booleans(),
    "tools.anomaly.auto_block": st.booleans(),
    "tools.anomaly.window_size": st.integers(4, 8),
    "tools.anomaly.failure_threshold": st.sampled_from([0.1, 0.5, 1]),
}
NARROW = [dotted(path) for path, key in KEYS.items() if key.narrowing is not None]


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_written(item)}" for name, item in value.items()) + "}"
    return f"[{', '.join(map(_written, value))}]" if isinstance(value, list) else json.dumps(value)


@st.composite
def _layers(draw: st.DrawFn) -> tuple[str, str]:
    """Draw what the person says and what a workspace says, often about the same keys."""
    own = draw(st.lists(st.sampled_from(NARROW), min_size=1, max_size=3, unique=True))
    also = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3))
    shared = [name for name in own if draw(st.booleans())]
    texts = [
        "\n".join(f"{name} = {_written(draw(VALUES[name]))}" for name in names)
        for names in (sorted({*also, *shared}), own)
    ]
    return texts[0], texts[1]


def _value(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


@given(_layers())
@example(("tools.anomaly.min_samples = 2", "agent.timeout = 60"))
@example(("agent.timeout = 60", "agent.timeout = 0"))
@example(("", 'permissions.autonomy = "full"'))
@example(("", 'permissions.rules = [{tool = "x", action = "allow"}]'))
@example(("", 'security.trust = {a = "verified"}'))
@example(('security.trust = {"plug-in b" = "blocked"}', 'security.trust = {a = "quarantined"}'))
@example(('tools.shell.allowed_paths = ["/a"]', 'tools.shell.allowed_paths = ["/a/b"]'))
def test_a_workspace_never_loosens_anything(said: tuple[str, str]) -> None:
    person, workspace = said
    with tempfile.TemporaryDirectory() as name:
        try:
            before = lay(Path(name), person, "").config
        except ConfigError:
            return
        try:
            after = lay(Path(name), person, workspace).config
        except ConfigError as error:
            told = str(error)  # refusing is one right answer, also of what nobody may set
            assert "is looser than what holds" in told or ", expected a whole number from 0 to 2" in told
            return
    for key in map(dotted, KEYS):
        old, new = _value(before, key), _value(after, key)
        if key in NARROW:
            assert ORDERS.get(key, _at_most)(old, new), key
        else:
            assert old == new, key


# What the gates see.


def _policy(loaded: Loaded, folder: Path, *, headless: bool = True) -> Policy:
    return to_policy(
        loaded,
        workspace=folder / "ws",
        home=folder / "home",
        headless=headless,
        data_dir=folder / "data",
        config_dir=folder,
    )


def test_the_defaults_of_the_configuration_are_those_of_the_policy(tmp_path: Path) -> None:
    made = _policy(load(config_dir=tmp_path, environment={}), tmp_path)
    plain = Policy(
        workspace=made.workspace,
        home=made.home,
        headless=True,
        secret_paths=made.secret_paths,
        protected_paths=made.protected_paths,
    )
    # Of what is to be confirmed a policy alone knows no default that trial runs do without.
    assert made == replace(plain, shell=replace(plain.shell, confirms_by_default=True))


def test_everything_said_reaches_the_policy(tmp_path: Path) -> None:
    person = f"""
        agent = {{ max_tool_calls_per_turn = 7, max_tool_calls_per_session = 70, timeout = 9 }}
        permissions.autonomy = "full"
        security.trust = {{ fetch = "verified", "plug-in x" = "blocked" }}
        security.breaker = {{ consecutive = 2, total = 4 }}
        security.pre_execution_verify.url_grounding.enabled = false
        tools.fetch.allow_networks = ["10.0.0.0/8"]
        tools.overflow = {{ threshold = 10, max_overflow_bytes = 0 }}
        tools.shell.allowed_paths = ["{tmp_path}/link/../link"]
        storage.path = "{tmp_path}/elsewhere.db"
        tools.audit.heads = "{tmp_path}/heads"
        llm.ca_file = "{tmp_path}/ca.pem"
        [tools.anomaly]
        enabled = false
        window_size = 8
        failure_threshold = 0.5
        min_samples = 2
        auto_block = false
        [[llm.providers]]
        name = "a"
        api_key_file = "{tmp_path}/key"
        [[permissions.rules]]
        tool = "shell"
        match = "git status"
        action = "allow"
    """
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    loaded = lay(tmp_path, person, '[[permissions.rules]]\ntool = "x"\naction = "ask"\nforce = true')
    policy = _policy(loaded, tmp_path, headless=False)
    assert policy.rules == (
        Rule("shell", RuleAction.ALLOW, "git status", where="config.toml:22"),
        Rule("x", RuleAction.ASK, None, force=True, where=".leeward/config.toml:1"),
    )
    assert (policy.autonomy, policy.headless, policy.url_grounding) == (Autonomy.FULL, False, False)
    assert policy.levels == {"fetch": TrustLevel.VERIFIED, "plug-in x": TrustLevel.BLOCKED}
    assert (policy.calls.per_turn, policy.calls.per_session) == (7, 70)
    assert (policy.breaker.consecutive, policy.breaker.total) == (2, 4)
    anomaly = policy.anomaly
    assert (anomaly.enabled, anomaly.window_size, anomaly.min_samples) == (False, 8, 2)
    assert (anomaly.failure_threshold, anomaly.auto_block) == (0.5, False)
    assert policy.allow_networks == ("10.0.0.0/8",)
    assert (policy.threshold, policy.max_bytes) == (10, 1 << 40)
    assert policy.allowed_paths == (f"{tmp_path}/link", f"{tmp_path}/real")
    database = [f"elsewhere.db{side}" for side in ("", "-wal", "-kept", "-locks", "-journals")]
    assert {str(tmp_path / name) for name in ("data", "key", *database)} <= {*policy.secret_paths}
    assert secret_reason(str(tmp_path / "data" / "audit.key"), policy) is not None
    assert secret_reason(str(tmp_path / "data" / "leeward.db-kept" / "version-1.db"), policy) is not None
    protected = ("", "data", "key", "elsewhere.db", "config.toml", "ws/.leeward", "ca.pem", "heads")
    assert {str(tmp_path / name) for name in protected} <= {*policy.protected_paths}
    assert all(Path(path).is_absolute() for path in (*policy.secret_paths, *policy.protected_paths))


# Where one may work.


@pytest.mark.parametrize(
    ("workspace", "expected"),
    [
        ("/", "is the root of the file system"),
        ("home", "is your home"),
        ("home/.", "is your home"),
        ("link", "is your home"),
        (".", "contains your home"),
        ("home/.config", "contains Leeward's own configuration"),
        ("home/.config/leeward", "contains Leeward's own configuration"),
        ("home/.config/leeward/x", "lies in the folder of Leeward's own configuration"),
        ("home/.local", "contains Leeward's own data"),
        ("home/.local/share/leeward/x", "lies in the folder of Leeward's own data"),
        ("home/project", None),
        ("home/.config/leeward-theme", None),
        ("home/.config/other", None),
        ("elsewhere", None),
        ("home/gone", None),
    ],
)
def test_some_folders_need_a_yes(tmp_path: Path, workspace: str, expected: str | None) -> None:
    home = tmp_path / "home"
    for folder in (".config/leeward/x", ".local/share/leeward/x", "project", ".config/leeward-theme"):
        (home / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("home")
    asked = workspace_question(
        tmp_path / workspace, home, home / ".config/leeward", home / ".local/share/leeward"
    )
    assert (asked is None) is (expected is None)
    if asked is not None and expected is not None:
        assert expected in asked
        assert asked.endswith("Go on?")


def test_the_question_shows_a_path_without_its_tricks(tmp_path: Path) -> None:
    home = tmp_path / "a\x1b[2J\u202eb"
    home.mkdir()
    asked = workspace_question(home, home, home / "c", home / "d")
    assert asked is not None
    assert asked.isprintable()


def test_the_default_of_a_machine_is_asked_for_when_values_are_compared_and_stands_in_no_document() -> None:
    asked = []
    rule = lower_from(lambda: asked.append(1) or 100)
    assert (rule.words, asked) == ("lower it (0 is the default)", [])
    assert rule.looser(0, 101)
    assert not rule.looser(0, 100)
    assert rule.looser(50, 0)
