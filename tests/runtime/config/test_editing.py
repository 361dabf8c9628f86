"""One value of a configuration file is changed, and every other character stays."""

from __future__ import annotations

import stat
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.config import KEYS, CannotChange, ConfigError, as_written, dotted, with_value
from leeward.runtime.config.reference import toml_value

TEXT = """# mine
[agent]  # how much
max_turns = 7 # seven
  timeout   =   60

[permissions]
autonomy = "full" # a "#" in it: no
# last

[[permissions.rules]]
tool = "shell"
action = "deny"

[tools.shell]
caches = [
  "a",
  "b",
]
[security]
trust = { fetch = "verified" }
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("agent.max_turns", 9, "max_turns = 7 # seven", "max_turns = 9 # seven"),
        ("agent.timeout", 5, "  timeout   =   60", "  timeout   = 5"),
        ("permissions.autonomy", "readonly", 'autonomy = "full" # a', 'autonomy = "readonly" # a'),
        ("tools.shell.caches", ["c"], 'caches = [\n  "a",\n  "b",\n]', 'caches = ["c"]'),
        ("agent.max", 3, "timeout   =   60\n", "timeout   =   60\nmax = 3\n"),
        ("security.trust", {"read": "blocked"}, '{ fetch = "verified" }', '{ read = "blocked" }'),
        ("tools.fetch.timeout", 4, '"verified" }\n', '"verified" }\n\n[tools.fetch]\ntimeout = 4\n'),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_value_is_changed_in_its_place(path, value, old, new, ending):
    assert old in TEXT
    found = with_value(TEXT.replace("\n", ending), tuple(path.split(".")), value)
    assert found == TEXT.replace(old, new).replace("\n", ending)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (TEXT, "security.trust.fetch"),
        (TEXT, "agent.max_turns.x"),
        ("agent = { max_turns = 3 }", "agent.max_turns"),
        ("x = [", "agent.max_turns"),
        ("[[agent]]\nx = 1", "agent.max_turns"),
    ],
)
def test_what_cannot_be_changed_by_lines_is_refused(text, path):
    with pytest.raises(CannotChange):
        with_value(text, tuple(path.split(".")), 1)


def test_an_empty_file_gets_its_first_table():
    assert with_value("", ("agent", "max_turns"), 3) == "[agent]\nmax_turns = 3\n"


NAMES = st.sampled_from(["a", "b", "c d", "#x"])
VALUES = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.text("a#\"'\\[]=\n ", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
LINES = st.lists(
    st.one_of(
        st.tuples(NAMES, VALUES).map(lambda one: f"{toml_value(one[0])} = {toml_value(one[1])}"),
        st.tuples(NAMES, NAMES, VALUES).map(
            lambda one: f"{toml_value(one[0])} . {toml_value(one[1])} = {toml_value(one[2])} # {one[0]}"
        ),
        st.lists(NAMES, min_size=1, max_size=3).map(lambda names: f"[{'.'.join(map(toml_value, names))}]"),
        st.just("# [a]"),
        st.just(""),
    ),
    max_size=8,
)


@given(LINES, st.lists(NAMES, min_size=1, max_size=3).map(tuple), VALUES)
def test_it_says_what_was_meant_and_nothing_else_or_is_refused(lines, path, value):
    text = "\n".join(lines)
    try:
        before = tomllib.loads(text)
    except ValueError:
        return
    try:
        after = tomllib.loads(with_value(text, path, value))
    except CannotChange:
        return
    tree, wanted = after, before
    for name in path[:-1]:
        tree, wanted = tree[name], wanted.setdefault(name, {})
    assert tree.pop(path[-1]) == tomllib.loads(f"x = {toml_value(value)}")["x"]
    wanted.pop(path[-1], None)
    assert after == before


def test_config_set_writes_the_file_and_refuses_what_does_not_fit(leeward):
    file = leeward.config
    file.unlink(missing_ok=True)
    done = leeward("config", "set", "agent.max_turns", "9")
    assert done.code == 0 and file.read_text() == "[agent]\nmax_turns = 9\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and f"agent.max_turns = 9, in {file}" in done.out
    assert leeward("config", "set", "llm.model", "offline").code == 0
    assert leeward("--profile", "careful", "config", "set", "permissions.autonomy", "readonly").code == 0
    before = file.read_text()
    assert '[profiles.careful.permissions]\nautonomy = "readonly"' in before
    for words, why in (
        (("agent.max_turn", "9"), "did you mean"),
        (("agent.max_turns", "many"), "found"),
        (("permissions.autonomy", "high"), "expected"),
        (("agent.max_turns",), "required: VALUE"),
        (("agent", "9"), "unknown key"),
    ):
        refused = leeward("config", "set", *words)
        assert (refused.code, why in refused.err) == (2, True), refused
    assert file.read_text() == before
    shown = leeward("--profile", "careful", "config", "show").out
    assert 'permissions.autonomy = "readonly"' in shown and f"({file.name}:" in shown


def test_line_ends_and_the_mark_of_a_file_stay(leeward) -> None:
    file = leeward.home / ".config/leeward/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\xef\xbb\xbf# mine\r\n[agent]\r\nmax_turns = 7 # seven\r\n")
    assert leeward("config", "set", "agent.max_turns", "9").code == 0
    assert file.read_bytes() == b"\xef\xbb\xbf# mine\r\n[agent]\r\nmax_turns = 9 # seven\r\n"
    assert leeward("config", "set", "cost.max_session", "2").code == 0
    assert file.read_bytes().endswith(b"# seven\r\n\r\n[cost]\r\nmax_session = 2\r\n")


def test_comments_within_a_value_are_not_lost() -> None:
    text = "[tools.sandbox]\nallow_hosts = [\n  'a.example', # first\n]\n"
    with pytest.raises(CannotChange, match="comments"):
        with_value(text, ("tools", "sandbox", "allow_hosts"), ["b.example"])


_WORDS = st.text(max_size=30) | st.sampled_from(
    ['"', "'''", "# no", "]", "= 5", '"\n[agent]\nx = 1', "1 # c"]
)
_BEFORE = '# mine\n[llm]\nmodel = "a:b"  # old\n\n[agent] # how far\nmax_turns = 7 # seven\n'


@given(words=_WORDS, key=st.sampled_from([*map(dotted, KEYS)]))
@example(words='x"\n[permissions]\nautonomy = "full"\n#', key="llm.model")
@example(words='1\n[permissions]\nautonomy = "full"', key="agent.max_turns")
@example(words="2026-01-01", key="agent.max_turns")
@example(words="inf", key="cost.max_session")
def test_no_words_change_another_value(words, key) -> None:
    try:
        path, value = as_written(key, words)
        changed = tomllib.loads(with_value(_BEFORE, path, value))
    except (ConfigError, CannotChange):
        return
    before = tomllib.loads(_BEFORE)
    left, right = before, changed
    for part in path[:-1]:
        left, right = left.setdefault(part, {}), right[part]
    left.pop(path[-1], None)
    del right[path[-1]]
    assert before == changed
