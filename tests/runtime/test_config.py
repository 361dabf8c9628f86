"""Layers of configuration: what is refused and how it is said, and what holds in the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.runtime.config import Config, ConfigError, Loaded, config_folder, data_folder, load
from leeward.runtime.config_keys import KEYS, dotted
from leeward.runtime.exits import Exit

SECRET = "sk-test-" + "0" * 32


def read(folder: Path, text: str | bytes, **layers: Any) -> Loaded:
    """Load a text as the person's config.toml."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    (folder / "config.toml").write_bytes(raw)
    return load(config_dir=folder, **{"environment": {}, **layers})


def complaint(folder: Path, text: str | bytes, **layers: Any) -> str:
    """Return what is said about a text that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text, **layers)
    assert caught.value.exit is Exit.ARG_ERROR
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert SECRET not in str(caught.value)
    return str(caught.value)


BAD = {
    # Names.
    "[agent]\nmax_turn = 3": "2: agent.max_turn: unknown key; did you mean max_turns?",
    "agent.max_turn = 3": "1: agent.max_turn: unknown key; did you mean max_turns?",
    "agent = { max_turn = 3 }": "1: agent.max_turn: unknown key; did you mean max_turns?",
    "[agnet]\nmax_turns = 3": "1: agnet: unknown key; did you mean agent?",
    "\n\nmax_turns = 3": "3: max_turns: unknown key; did you mean agent.max_turns?",
    "[tools.agent]": "1: tools.agent: unknown key; did you mean agent?",
    "[tools.shell]\nzzz = 1": "2: tools.shell.zzz: unknown key",
    '[[permissions.rules]]\ntool = "x"\naction = "ask"\nmach = "y"': (
        "4: permissions.rules.0.mach: unknown key; did you mean match?"
    ),
    '"a\\u001b[2J" = 1': '1: "a\\u001b[2J": unknown key',
    # Types.
    '[agent]\nmax_turns = "5"': '2: agent.max_turns: found "5", expected a whole number from 1 to 1000',
    "[agent]\nmax_turns = true": "2: agent.max_turns: found true, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = 2.5": "2: agent.max_turns: found 2.5, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = [\n 1 ]": "2: agent.max_turns: found a list, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = 1979-05-27": "2: agent.max_turns: found a date, expected a whole number from 1 to 1000",
    "agent = 5": "1: agent: found 5, expected a table",
    "[[agent]]\nmax_turns = 1": "1: agent: found a list, expected a table",
    "[storage]\npath = 5": "2: storage.path: found 5, expected an absolute path or one that begins with ~/",
    "[permissions.rules]": "1: permissions.rules: found a table, expected a list of tables",
    "[security]\ntrust = []": (
        "2: security.trust: found an empty list, expected a table of names, "
        'each with "trusted", "verified", "quarantined" or "blocked"'
    ),
    '[tools.anomaly]\nenabled = "yes"': '2: tools.anomaly.enabled: found "yes", expected true or false',
    '[tools]\nplugins = "x"': (
        '2: tools.plugins: found "x", expected a list of strings, each the name of an installed plug-in'
    ),
    # Values.
    "[agent]\nmax_turns = 0": "2: agent.max_turns: found 0, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = 99999999999999999999": (
        "2: agent.max_turns: found a very large number, expected a whole number from 1 to 1000"
    ),
    "[agent]\ntimeout = nan": "2: agent.timeout: found nan, expected a number from 0 to 604800",
    "[agent]\ntimeout = -1": "2: agent.timeout: found -1, expected a number from 0 to 604800",
    "[tools.shell]\ntimeout = 0": "2: tools.shell.timeout: found 0, expected a number above 0 and up to 604800",
    "[tools.anomaly]\nfailure_threshold = 0.0": (
        "2: tools.anomaly.failure_threshold: found 0.0, expected a number above 0 and up to 1"
    ),
    "[tools.anomaly]\nmin_samples = 21": (
        "2: tools.anomaly.min_samples: found 21, expected no more than window_size, which is 20"
    ),
    "[tools.anomaly]\nwindow_size = 4": (
        "2: tools.anomaly.min_samples: found 5, expected no more than window_size, which is 4"
    ),
    '[permissions]\nautonomy = "supervise"': (
        '2: permissions.autonomy: found "supervise", expected "readonly", "supervised" or "full"; '
        'did you mean "supervised"?'
    ),
    '[security.trust]\nfetch = "block"': (
        '2: security.trust.fetch: found "block", expected "trusted", "verified", "quarantined" or "blocked"; '
        'did you mean "blocked"?'
    ),
    '[tools.fetch]\nallow_networks = [\n  "10.0.0.0/8",\n  "10.1.2.3/8",\n]': (
        '4: tools.fetch.allow_networks.1: found "10.1.2.3/8", expected a network such as 10.0.0.0/8; '
        "did you mean 10.0.0.0/8?"
    ),
    '[tools.fetch]\nallow_networks = ["example.com"]': (
        '2: tools.fetch.allow_networks.0: found "example.com", expected a network such as 10.0.0.0/8'
    ),
    '[tools.shell]\nallowed_paths = ["../x"]': (
        '2: tools.shell.allowed_paths.0: found "../x", expected an absolute path or one that begins with ~/'
    ),
    '[tools]\nexecutors = ["mine"]': '2: tools.executors.0: found "mine", expected "package.module:factory"',
    '[llm]\nmodel = "openai: "': '2: llm.model: found "openai: ", expected "PROVIDER:NAME", "offline" or ""',
    f'[storage]\npath = "{"x" * 100}"': (
        f'2: storage.path: found "{"x" * 60}" and more, expected an absolute path or one that begins with ~/'
    ),
    # Rules.
    '[[permissions.rules]]\ntool = "x"': (
        '1: permissions.rules.0.action: found nothing, expected "allow", "ask" or "deny"'
    ),
    '[[permissions.rules]]\ntool = "x"\naction = "ask"\n[[permissions.rules]]\ntool = "shell"\n'
    "match = \"git 'x\"\naction = \"deny\"": (
        "6: permissions.rules.1.match: found \"git 'x\", "
        "expected a pattern that can match something: a quotation in the pattern is not closed"
    ),
    '[[permissions.rules]]\ntool = "x"\nmatch = "a\\u001bb"\naction = "deny"': (
        '3: permissions.rules.0.match: found "a\\u001bb", '
        "expected a pattern that can match something: the pattern holds control characters"
    ),
    '[[permissions.rules]]\ntool = "x"\naction = "deny"\nforce = true': (
        "4: permissions.rules.0.force: found true, "
        'expected no force here: only a rule that says "ask" can force it'
    ),
    '[[permissions.rules]]\ntool = "Shell Tool"\naction = "deny"': (
        '2: permissions.rules.0.tool: found "Shell Tool", '
        "expected the name of a tool, or a pattern such as * or git_*"
    ),
    # Keys of providers, and values that may hold one.
    f'[llm]\napi_key = "{SECRET}"': (
        "2: llm.api_key: a key or password never stands in the configuration; "
        "name its variable in api_key_env or its file in api_key_file"
    ),
    f'[[llm.providers]]\nname = "a"\napi-key = "{SECRET}"': (
        "3: llm.providers.0.api-key: a key or password never stands in the configuration; "
        "name its variable in api_key_env or its file in api_key_file"
    ),
    f'[[llm.providers]]\nname = "a"\napi_key_evn = "{SECRET}"': (
        "3: llm.providers.0.api_key_evn: unknown key; did you mean api_key_env?"
    ),
    f'[[llm.providers]]\nname = "a"\napi_key_env = "{SECRET}"': (
        "3: llm.providers.0.api_key_env: found a string (not shown), "
        "expected the name of a variable, not its value"
    ),
    f'[[llm.providers]]\nname = "a"\napi_key_file = "{SECRET}"': (
        "3: llm.providers.0.api_key_file: found a string (not shown), "
        "expected an absolute path or one that begins with ~/"
    ),
    f'[[llm.providers]]\nname = "a"\nbase_url = "https://me:{SECRET}@host/v1"': (
        "3: llm.providers.0.base_url: found a string (not shown), "
        "expected an http or https URL such as https://host/v1; a user or password does not belong into it"
    ),
    '[[llm.providers]]\nname = "a"\nbase_url = "http://gpu.example.com/v1"\napi_key_env = "K"': (
        "3: llm.providers.0.base_url: found a string (not shown), "
        "expected an https URL, for the key would travel in the clear"
    ),
    f'[llm]\nproxy = "socks://me:{SECRET}@host"': (
        "2: llm.proxy: found a string (not shown), expected a URL such as http://host:3128"
    ),
    '[[llm.providers]]\nname = "offline"': (
        '2: llm.providers.0.name: found "offline", expected another name: this one is built in'
    ),
    '[[llm.providers]]\nname = "a"\n[[llm.providers]]\nname = "a"': (
        '1: llm.providers: found a list, expected one provider named "a", not two'
    ),
    # What is not TOML.
    "[agent]\nmax_turns = ": "2: not TOML: Invalid value",
    "a = 1\na = 2": "2: not TOML: Cannot overwrite a value",
    "a = [1,\n2": "2: not TOML: Unclosed array",
    "a = 'x\n": "1: not TOML: Illegal character '\\n'",
    f"a = {'[' * 100_000}": " not TOML: tables or lists are nested too deep",
    f"a = {'1' * 5000}": " not TOML: a number is too long",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    expected = f"config.toml:{BAD[text]}"
    found = complaint(tmp_path, text)
    # Wordings of the TOML parser differ a little from one Python to the next; the line does not.
    assert found == expected or ("not TOML" in expected and found.startswith(expected.split("TOML")[0]))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a = 1\nb = '\xff'", "config.toml:2: byte 0xff is not UTF-8"),
        (b"\x7fELF\0\0", "config.toml: it is binary, not text"),
        (b"#" * (1024 * 1024 + 1), "config.toml: it is larger than 1 MiB"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, raw: bytes, expected: str) -> None:
    assert complaint(tmp_path, raw) == expected


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^gone\.toml: there is no such file$"):
        load(file=Path("gone.toml"), environment={})
    with pytest.raises(ConfigError, match=r"^gone\.toml: there is no such file$"):
        load(environment={"LEEWARD_CONFIG": "gone.toml"})
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe"):
        with pytest.raises(ConfigError, match="it cannot be read: "):
            load(file=tmp_path / name, environment={})
    (tmp_path / "config.toml").symlink_to("gone.toml")
    with pytest.raises(ConfigError, match="there is no such file"):
        load(config_dir=tmp_path, environment={})


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    loaded = load(config_dir=tmp_path / "none", environment={"HOME": "/x", "LEEWARDX": "1"})
    assert loaded.config == Config()
    assert loaded.files == ()
    assert set(loaded.sources) == {dotted(path) for path in KEYS}
    assert set(loaded.sources.values()) == {"default"}


def test_all_problems_of_all_layers_are_told_together_in_order(tmp_path: Path) -> None:
    text = "[agent]\nmax_turn = 1\nmax_turns = 0\n[tools.shell]\ntimeout = -1\n[agent.x]\n"
    said = complaint(tmp_path, text, environment={"LEEWARD_X": "1"}, flags={"agent.max_turns": "many"})
    assert said.splitlines() == [
        "config.toml:2: agent.max_turn: unknown key; did you mean max_turns?",
        "config.toml:3: agent.max_turns: found 0, expected a whole number from 1 to 1000",
        "config.toml:5: tools.shell.timeout: found -1, expected a number above 0 and up to 604800",
        "config.toml:6: agent.x: unknown key",
        "environment LEEWARD_X: unknown variable",
        'flag: agent.max_turns: found "many", expected a whole number from 1 to 1000',
    ]


def test_a_flood_of_problems_is_cut_short(tmp_path: Path) -> None:
    said = complaint(tmp_path, "\n".join(f"k{index} = 1" for index in range(5000))).splitlines()
    assert said[0] == "config.toml:1: k0: unknown key"
    assert said[-1] == "config.toml: 4950 more problems"
    assert len(said) == 51


def test_the_error_is_there_for_machines_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, '[agent]\nmax_turns = "5"')
    error = caught.value.error()
    assert (error["code"], error["phase"]) == ("CONFIG_ERROR", "configuration")
    expected = "a whole number from 1 to 1000"
    listed = {"file": "config.toml", "line": 2, "key": "agent.max_turns", "found": '"5"', "expected": expected}
    assert error["errors"] == [{**listed, "hint": ""}]


def test_later_layers_go_before_earlier_ones(tmp_path: Path) -> None:
    text = "[agent]\nmax_turns = 2\nmax_tool_calls_per_turn = 2\nmax_tool_calls_per_session = 2"
    environment = {"LEEWARD_AGENT__MAX_TOOL_CALLS_PER_TURN": "3", "LEEWARD_AGENT__MAX_TOOL_CALLS_PER_SESSION": "3"}
    flags = {"agent.max_tool_calls_per_session": 4, "agent.timeout": None}
    loaded = read(tmp_path, text, environment=environment, flags=flags)
    agent = loaded.config.agent
    assert (agent.max_turns, agent.max_tool_calls_per_turn, agent.max_tool_calls_per_session) == (2, 3, 4)
    assert loaded.sources["agent.max_turns"] == "config.toml:2"
    assert loaded.sources["agent.max_tool_calls_per_turn"] == "environment LEEWARD_AGENT__MAX_TOOL_CALLS_PER_TURN"
    assert loaded.sources["agent.max_tool_calls_per_session"] == "flag"
    assert loaded.sources["agent.timeout"] == "default"
    assert loaded.files == (tmp_path / "config.toml",)


def test_rules_and_levels_of_all_layers_hold_together(tmp_path: Path) -> None:
    text = (
        '[security.trust]\nfetch = "verified"\n"plug-in x" = "blocked"\n'
        '[[permissions.rules]]\ntool = "a"\naction = "allow"\n\n[[permissions.rules]]\ntool = "b"\naction = "deny"'
    )
    environment = {
        "LEEWARD_PERMISSIONS__RULES": '[{tool = "c", action = "ask", force = true}]',
        "LEEWARD_SECURITY__TRUST__FETCH": "blocked",
        "LEEWARD_SECURITY__TRUST": '{shell = "verified"}',
    }
    loaded = read(tmp_path, text, environment=environment)
    assert [rule.tool for rule in loaded.config.permissions.rules] == ["a", "b", "c"]
    assert dict(loaded.config.security.trust) == {
        "fetch": "blocked",
        "plug-in x": "blocked",
        "shell": "verified",
    }
    said = {name: place for name, place in loaded.sources.items() if place != "default"}
    assert said == {
        "security.trust": "environment LEEWARD_SECURITY__TRUST",
        "security.trust.fetch": "environment LEEWARD_SECURITY__TRUST__FETCH",
        'security.trust."plug-in x"': "config.toml:3",
        "security.trust.shell": "environment LEEWARD_SECURITY__TRUST",
        "permissions.rules": "environment LEEWARD_PERMISSIONS__RULES",
        "permissions.rules.0": "config.toml:4",
        "permissions.rules.1": "config.toml:8",
        "permissions.rules.2": "environment LEEWARD_PERMISSIONS__RULES",
    }


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("AGENT__MAX_TURNS", "7", "agent.max_turns", 7),
        ("AGENT__MAX_TURNS", " 7 # seven", "agent.max_turns", 7),
        ("AGENT__TIMEOUT", "2.5", "agent.timeout", 2.5),
        ("AGENT__TIMEOUT", "2", "agent.timeout", 2.0),
        ("TOOLS__ANOMALY__ENABLED", "false", "tools.anomaly.enabled", False),
        ("TOOLS__PLUGINS", '["a", "b"]', "tools.plugins", ("a", "b")),
        ("PERMISSIONS__AUTONOMY", "full", "permissions.autonomy", "full"),
        ("PERMISSIONS__AUTONOMY", '"full"', "permissions.autonomy", "full"),
        ("LLM__MODEL", "openai:1.5", "llm.model", "openai:1.5"),
        ("LLM__MODEL", "offline", "llm.model", "offline"),
        ("LLM__PROXY", "", "llm.proxy", ""),
        ("STORAGE__PATH", "/tmp/a b.db", "storage.path", "/tmp/a b.db"),
        ("STORAGE__PATH", "/1979-05-27", "storage.path", "/1979-05-27"),
        ("TOOLS__FETCH__MAX_BODY_BYTES", "0", "tools.fetch.max_body_bytes", 102_400),
        ("TOOLS__OVERFLOW__MAX_OVERFLOW_BYTES", "0", "tools.overflow.max_overflow_bytes", 64 * 1024 * 1024),
    ],
)
def test_the_environment_is_read_as_toml_or_words(tmp_path: Path, name: str, value: str, key: str, expected: Any) -> None:
    by_name = load(config_dir=tmp_path, environment={f"LEEWARD_{name}": value})
    by_flag = load(config_dir=tmp_path, environment={}, flags={key: value})
    for loaded in (by_name, by_flag):
        found: Any = loaded.config
        for part in key.split("."):
            found = getattr(found, part)
        assert found == expected
        assert type(found) is type(expected)
    assert by_name.digest == by_flag.digest


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("LEEWARD_AGENT__MAX_TURN", "1", "unknown variable; did you mean LEEWARD_AGENT__MAX_TURNS?"),
        ("LEEWARD_AGENT_MAX_TURNS", "1", "unknown variable; did you mean LEEWARD_AGENT__MAX_TURNS?"),
        ("LEEWARD_agent__max_turns", "1", "unknown variable; did you mean LEEWARD_AGENT__MAX_TURNS?"),
        ("LEEWARD_CONFIGS", "1", "unknown variable; did you mean LEEWARD_CONFIG?"),
        ("LEEWARD_AGENT", "{max_turns = 1}", "unknown variable"),
        ("LEEWARD_OPENAI_KEY", SECRET, "unknown variable"),
        ("LEEWARD_SECURITY__TRUST__", "blocked", "unknown variable; did you mean LEEWARD_SECURITY__TRUST?"),
        ("LEEWARD_", "1", "unknown variable"),
        (
            "LEEWARD_AGENT__MAX_TURNS",
            "1\n[permissions]\nautonomy = 'full'",
            'agent.max_turns: found "1\\n[permissions]\\nautonomy = \'full\'", expected a whole number from 1 to 1000',
        ),
        ("LEEWARD_AGENT__MAX_TURNS", "", 'agent.max_turns: found "", expected a whole number from 1 to 1000'),
        ("LEEWARD_TOOLS__ANOMALY__ENABLED", "TRUE", 'tools.anomaly.enabled: found "TRUE", expected true or false'),
        (
            "LEEWARD_TOOLS__PLUGINS",
            "a,b",
            'tools.plugins: found "a,b", expected a list of strings, each the name of an installed plug-in',
        ),
    ],
)
def test_bad_variables_are_refused(tmp_path: Path, name: str, value: str, expected: str) -> None:
    said = complaint(tmp_path, "", environment={name: value})
    assert said.startswith(f"environment {name}: {expected.split(';')[0]}")
    assert said.endswith(expected.split(";")[-1])


def test_a_variable_that_holds_a_providers_key_is_no_key_of_ours(tmp_path: Path) -> None:
    text = '[[llm.providers]]\nname = "a"\napi_key_env = "LEEWARD_A_KEY"'
    loaded = read(tmp_path, text, environment={"LEEWARD_A_KEY": SECRET, "LEEWARD_CONFIG": ""})
    assert SECRET not in repr(loaded)


def test_unknown_flags_are_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, "", flags={"agent.max_turn": 1}) == (
        "flag: agent.max_turn: unknown key; did you mean max_turns?"
    )


def test_keys_that_must_fit_may_come_from_two_layers(tmp_path: Path) -> None:
    loaded = read(tmp_path, "[tools.anomaly]\nwindow_size = 4", environment={"LEEWARD_TOOLS__ANOMALY__MIN_SAMPLES": "3"})
    assert (loaded.config.tools.anomaly.window_size, loaded.config.tools.anomaly.min_samples) == (4, 3)


def test_a_byte_order_mark_and_crlf_are_no_obstacle(tmp_path: Path) -> None:
    loaded = read(tmp_path, b"\xef\xbb\xbf[agent]\r\nmax_turns = 3\r\n")
    assert loaded.sources["agent.max_turns"] == "config.toml:2"


def test_ordinary_providers_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = """
        [llm]
        model = "local:qwen3:8b"
        proxy = "http://me:word@proxy.example.com:3128"
        [[llm.providers]]
        name = "local"
        base_url = "http://localhost:11434/v1"
        api_key_env = "LOCAL_KEY"
        [[llm.providers]]
        name = "lan"
        base_url = "http://10.0.0.7:8000/v1"
        [[llm.providers]]
        name = "hosted"
        base_url = "https://api.example.com/v1"
        api_key_file = "~/keys/hosted"
    """
    providers = read(tmp_path, text).config.llm.providers
    assert [provider.name for provider in providers] == ["local", "lan", "hosted"]
    assert providers[2].api_key_file == str(tmp_path / "keys/hosted")


def test_the_digest_is_of_the_values_alone(tmp_path: Path) -> None:
    plain = read(tmp_path, "").digest
    assert read(tmp_path, "# nothing\n[agent]\nmax_turns = 25").digest == plain
    assert load(config_dir=tmp_path, environment={}, flags={"agent.max_turns": 25}).digest == plain
    assert read(tmp_path, "[agent]\nmax_turns = 24").digest != plain
    assert len(plain) == 64


def test_the_folders_follow_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "d"))
    assert (config_folder(), data_folder()) == (tmp_path / "c/leeward", tmp_path / "d/leeward")


def test_a_folder_relative_to_wherever_one_is_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    try:
        folder = config_folder()
    except ConfigError as error:
        assert "environment XDG_CONFIG_HOME" in str(error)  # noqa: PT017 - depends on the library's version
    else:
        assert folder.is_absolute()
        assert not folder.is_relative_to(Path.cwd())


def test_the_configuration_is_frozen(tmp_path: Path) -> None:
    loaded = read(tmp_path, "")
    with pytest.raises(ValueError, match="frozen"):
        loaded.config.agent.max_turns = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        loaded.digest = ""  # type: ignore[misc]


@given(st.text(max_size=60) | st.sampled_from(["[agent]\n", "a.", "x = "]).flatmap(lambda head: st.text().map(head.__add__)))
def test_whatever_the_text_says_the_answer_is_a_config_or_a_config_error(text: str) -> None:
    try:
        loaded = load(flags={}, environment={"LEEWARD_TOOLS__PLUGINS": text, "LEEWARD_LLM__MODEL": text}, config_dir=Path("/x"))
    except ConfigError as error:
        assert all(line.isprintable() for line in str(error).splitlines())  # noqa: PT017 - both ways are right
    else:
        assert isinstance(loaded.config, Config)
