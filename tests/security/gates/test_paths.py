"""The gate `paths`: inside by both the written and the resolved path; secret and protected files denied."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.gates import paths
from leeward.security.kinds import EFFECT_KEY, KIND_KEY, Effect, Kind
from leeward.security.paths import is_inside
from leeward.security.verdict import Allow, Ask, Deny
from loading import rows_beside

ROWS = rows_beside(__file__)

READ, WRITE, RUN = Effect.READ, Effect.READ | Effect.WRITE, Effect.EXECUTE
HELD = {"allowed_paths": ("/data",), "secret_paths": ("/ws/private",), "protected_paths": ("/ws/locked",)}

LINKS = ROWS["links"]

ALLOWED = [
    (READ, "a.txt"), (WRITE, "a.txt"), (READ, "."), (READ, "./src/../a.txt"), (WRITE, "/ws/a"), (READ, "/ws"),
    (READ, "/data/x"), (WRITE, "/data/x"), (READ, "in"), (WRITE, "in"),
    (READ, ".git/config"), (READ, ".git/hooks/pre-commit"), (READ, ".leeward/config.toml"),
    (READ, "locked/x"), (READ, "hook"), (READ, "naïve 日本.txt"), (READ, ".env.example"),
    (WRITE, ".gitignore"), (READ, ".github/workflows/x.yml"), (WRITE, ".github/ISSUE_TEMPLATE.md"),
    (WRITE, "src/makefile.md"), (READ, "Makefile"), (RUN, "Makefile"), (READ, "a..b"), (READ, "..."),
    (WRITE, "a~x"), (READ, "src/id_rsa.pub"), (RUN, "run.sh"), (READ, "%2e%2e/x"),
]  # fmt: skip
ASKED = [
    (READ, "../x"), (READ, "/ws-evil/x"), (READ, "../ws-evil/x"), (READ, "/srv/x"), (WRITE, "/srv/x"),
    (READ, "~/notes.md"), (WRITE, "~/notes.md"), (READ, "/etc/hosts"), (READ, "//etc/hosts"),
    (READ, "/ws/../etc/hosts"), (READ, "/"), (READ, ".."), (READ, "~"), (READ, "out"), (WRITE, "out"),
    (READ, "/data/out"), (READ, "evil"), (READ, "/data-evil/x"), (READ, "~/.bashrc"),
    (READ, "rc"), (READ, "~/ws"), (READ, "/datax"), (READ, "/proc/cpuinfo"),
    (WRITE, "Makefile"), (WRITE, "sub/MAKEFILE"), (WRITE, ".github/workflows/x.yml"), (WRITE, "AGENTS.md"),
    (WRITE, "ordinary"), (WRITE, "/data/conftest.py"), (WRITE, "/srv/x.service"), (WRITE, ".vscode"),
]  # fmt: skip
DENIED = [
    (READ, "~/.ssh/id_rsa"), (READ, "~/.ssh"), (READ, "/home/ada/.aws/credentials"),
    (READ, "../home/ada/.ssh/x"), (READ, ".env"), (WRITE, ".env"), (READ, "sub/.env.local"), (READ, "id_rsa"),
    (READ, "key"), (READ, "env"), (READ, "proc"), (READ, "/proc/self/environ"), (READ, "/etc/shadow"),
    (READ, "private"), (READ, "private/x"), (READ, "/dev/sda"), (READ, "~root/x"),
    (READ, "~bob/x"), (READ, ""), (READ, "a\0b"), (WRITE, ".git/hooks/pre-commit"), (WRITE, ".git/config"),
    (WRITE, ".git"), (WRITE, "lib/.git/hooks/x"), (WRITE, ".leeward/config.toml"),
    (WRITE, "locked/x"), (WRITE, "hook"), (WRITE, "rc"), (WRITE, "~/.bashrc"), (WRITE, "~/.profile"),
    (WRITE, "/etc/hosts"), (WRITE, "//etc/hosts"), (WRITE, "/usr/bin/ls"), (RUN, ".git/hooks/x"),
    (Effect.ALL, "/bin/sh"),
]  # fmt: skip
TABLE = [
    (effects, raw, word)
    for word, rows in ((Allow, ALLOWED), (Ask, ASKED), (Deny, DENIED))
    for effects, raw in rows
]


def judge(make, gate, effects, raw):
    tool = make.spec(effects=effects, kinds={"path": Kind.PATH})
    action = make.action(tool, {"path": raw}, held=make.policy(**HELD), resolved=LINKS)
    return gate(action, make.session(**HELD))


def failures(make, gate):
    return {raw for effects, raw, word in TABLE if not isinstance(judge(make, gate, effects, raw), word)}


@pytest.mark.parametrize(
    ("effects", "raw", "word"), TABLE, ids=[f"{word.__name__} {raw!r}" for _, raw, word in TABLE]
)
def test_the_word_about_a_path_follows_where_it_leads_and_what_is_done_there(
    make, effects, raw, word
) -> None:
    assert isinstance(judge(make, paths, effects, raw), word)


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    caught = failures(make, planted("paths").paths)
    assert {"/ws-evil/x", "../x", "out", "key", ".env", ".git/hooks/pre-commit", "//etc/hosts"} <= caught


def copied(make, gate, source):
    """What the gate says of a call that reads one path and writes another."""
    path = {"type": "string", KIND_KEY: Kind.PATH}
    schema = {"type": "object", "properties": {"from": {**path, EFFECT_KEY: "read"}, "to": path}}
    tool = make.spec(effects=WRITE, schema=schema)
    action = make.action(tool, {"from": source, "to": "new"}, held=make.policy(**HELD), resolved=LINKS)
    return gate(action, make.session(**HELD))


@pytest.mark.parametrize(("effects", "raw", "word"), [row for row in TABLE if row[0] is READ])
def test_what_a_changing_call_only_reads_is_judged_as_read(make, effects, raw, word) -> None:
    assert isinstance(copied(make, paths, raw), word)


def test_a_source_that_is_judged_by_what_happens_to_the_target_is_caught(make, planted) -> None:
    sources, wrong = ("/usr/share/x", "/etc/hosts", ".git/config", "locked/x"), planted("paths").by_the_call
    assert all(isinstance(copied(make, wrong, raw), Deny) for raw in sources)
    assert isinstance(copied(make, paths, "/usr/share/x"), Ask)


def test_all_paths_outside_are_asked_about_at_once_and_one_secret_denies_them(make) -> None:
    tool = make.spec(kinds={"a": Kind.PATH, "b": Kind.PATH, "c": Kind.PATH})
    asked = paths(make.action(tool, {"a": "/srv/a", "b": "in", "c": "out"}, resolved=LINKS), make.session())
    assert [atom.pointer for atom in asked.about] == ["/a", "/c"] and asked.facts == (
        ("path", "/srv/a"),
        ("path", "/srv/x"),
    )
    denied = paths(make.action(tool, {"a": "/srv/a", "b": "key"}, resolved=LINKS), make.session())
    assert isinstance(denied, Deny) and denied.facts == (("path", "/home/ada/.ssh/id_rsa"),)


def test_an_undeclared_string_that_is_a_path_is_confined(make) -> None:
    tool = make.spec(kinds={"q": None})
    words = {
        raw: type(paths(make.action(tool, {"q": raw}), make.session()))
        for raw in ("../../x", "/srv/x", "~/.ssh/x", ".env", "a.txt", "what is new? (a & b)")
    }
    assert words == {
        "../../x": Ask,
        "/srv/x": Ask,
        "~/.ssh/x": Deny,
        ".env": Deny,
        "a.txt": Allow,
        "what is new? (a & b)": Allow,
    }


def test_what_runs_later_is_asked_about_with_the_reason_and_what_lies_outside_with_it(make) -> None:
    tool = make.spec(effects=WRITE, kinds={"a": Kind.PATH, "b": Kind.PATH, "c": Kind.PATH})
    asked = paths(
        make.action(tool, {"a": "x.py", "b": "Makefile", "c": "/srv/x"}, resolved=LINKS), make.session()
    )
    assert (asked.rule, [atom.pointer for atom in asked.about], asked.by_name) == (
        "runs_later",
        ["/b", "/c"],
        True,
    )
    assert "leaves the workspace" in asked.question and "a build, a test run" in asked.question
    assert isinstance(
        paths(make.action(tool, {"a": "Makefile", "b": ".env", "c": "x"}), make.session()), Deny
    )


NAMES = st.text(st.sampled_from("./~ab"), min_size=1, max_size=12)


@given(NAMES, NAMES, st.sampled_from([READ, WRITE]))
def test_nothing_is_allowed_whose_text_or_real_path_lies_outside(make, raw: str, real: str, effects) -> None:
    tool = make.spec(effects=effects, kinds={"path": Kind.PATH})
    real = "/" + real.lstrip("/")
    action = make.action(tool, {"path": raw}, resolved={f"/ws/{raw}": real})
    place = action.atoms[0].canonical
    if isinstance(paths(action, make.session()), Allow):
        assert is_inside(place.text, "/ws") and is_inside(place.real, "/ws")
