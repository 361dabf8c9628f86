"""`leeward check`: the decision and its reason, with nothing written."""

from __future__ import annotations

import pytest

RULES = """
[[permissions.rules]]
tool = "shell"
match = "git pull"
action = "allow"

[[permissions.rules]]
tool = "write"
match = "drafts/**"
action = "allow"

[[permissions.rules]]
tool = "read"
match = "private/**"
action = "deny"

[[permissions.rules]]
tool = "grep"
action = "ask"
force = true
"""


@pytest.mark.parametrize(
    ("tool", "arguments", "extra", "decision", "gate", "rule", "code"),
    [
        ("read", '{"path": "notes.md"}', (), "allow", None, None, 0),
        ("shell", '{"command": "ls -la"}', (), "allow", None, None, 0),
        ("shell", '{"command": "git status"}', (), "ask", "commands", "unlisted", 4),
        ("shell", '{"command": "git pull"}', (), "allow", None, "allow shell git pull at config.toml:2", 0),
        ("shell", '{"command": "git push"}', (), "ask", "commands", "unlisted", 4),
        ("shell", '{"command": "git pull; rm -r x"}', (), "ask", "commands", "unlisted", 4),
        ("shell", '{"command": "sudo ls"}', ("--autonomy", "full"), "ask", "commands", "privilege", 4),
        ("shell", '{"command": "rm -rf ~"}', ("--autonomy", "full"), "deny", "commands", "destructive", 7),
        ("shell", '{"command": "git push"}', ("--autonomy", "full"), "allow", None, "autonomy full", 0),
        (
            "write",
            '{"path": "drafts/a.md", "content": ""}',
            (),
            "allow",
            None,
            "allow write drafts/** at config.toml:7",
            0,
        ),
        ("write", '{"path": "a.md", "content": ""}', (), "ask", "permissions", "default", 4),
        (
            "write",
            '{"path": "a.md", "content": ""}',
            ("--autonomy", "readonly"),
            "deny",
            "permissions",
            "readonly",
            7,
        ),
        (
            "read",
            '{"path": "private/x"}',
            (),
            "deny",
            "permissions",
            "deny read private/** at config.toml:12",
            7,
        ),
        (
            "grep",
            '{"pattern": "x", "path": "."}',
            ("--autonomy", "full"),
            "ask",
            "permissions",
            "ask grep (force) at config.toml:17",
            4,
        ),
        ("read", '{"path": "/etc/hostname"}', (), "ask", "paths", "outside", 4),
        ("read", '{"path": "a/../../../x"}', (), "deny", "arguments", "path_traversal", 2),
        ("nothing", "{}", (), "deny", "known", "unknown_tool", 5),
        ("read", "[1]", (), "deny", "known", "schema", 2),
        ("fetch", '{"url": "https://a.example/b"}', ("--url", "https://a.example/"), "allow", None, None, 0),
        (
            "fetch",
            '{"url": "https://a.example/?b"}',
            ("--url", "https://a.example/"),
            "ask",
            "grounding",
            "added_query",
            4,
        ),
        ("fetch", '{"url": "https://a.example/"}', (), "deny", "grounding", "not_provided", 7),
        ("fetch", '{"url": "http://a.example/"}', ("--url", "http://a.example/"), "deny", "hosts", None, 7),
        ("fetch", '{"url": "https://localhost/"}', ("--url", "https://localhost/"), "deny", "hosts", None, 7),
    ],
)
def test_check_tells_the_decision_its_gate_and_its_rule(
    leeward, tool, arguments, extra, decision, gate, rule, code
):
    leeward.configure(RULES)
    ran = leeward("check", tool, arguments, *extra, "--output", "json")
    told = ran.json["data"]
    assert (told["decision"], told["gate"], ran.code) == (decision, gate, code)
    if rule is not None or decision == "allow":
        assert told["rule"] == rule
    assert [ask["gate"] for ask in told["asks"]] == ([gate] if decision == "ask" else [])
    assert (ran.json["error"] is None) == (decision == "allow")
    text = leeward("check", tool, arguments, *extra)
    assert text.code == code
    assert text.out.startswith(decision) and text.err == ""
    assert not leeward.data.exists()


def test_nothing_is_written_and_nothing_runs(leeward):
    leeward.configure('[permissions]\nautonomy = "full"\n')
    before = sorted(leeward.home.rglob("*")), sorted(leeward.workspace.rglob("*"))
    for tool, arguments in (
        ("write", '{"path": "made.md", "content": "x"}'),
        ("shell", '{"command": "touch made.md"}'),
        ("read", '{"path": "notes.md"}'),
    ):
        assert leeward("check", tool, arguments).code == 0
    assert (sorted(leeward.home.rglob("*")), sorted(leeward.workspace.rglob("*"))) == before


def test_check_and_call_say_the_same(leeward):
    for tool, arguments in (
        ("read", '{"path": "../x"}'),
        ("read_overflow", '{"id": "../etc/passwd"}'),
        ("fetch", '{"url": "https://a.example/"}'),
        ("nothing", "{}"),
        ("read", "{"),
    ):
        checked = leeward("check", tool, arguments, "--output", "json")
        called = leeward("call", tool, arguments, "--output", "json")
        assert (checked.code, checked.json["error"]) == (called.code, called.json["error"])


def test_each_bad_argument_is_named_with_its_pattern_or_error_and_a_suggestion(leeward):
    ran = leeward("check", "read_overflow", '{"id": "a41f?offset=200"}')
    assert ran.out.splitlines() == [
        "deny arguments (embedded_query): Argument 'id' contains a rejected pattern",
        "  id: embedded_query; suggestion: a41f",
    ]
    ran = leeward("check", "read_overflow", '{"id": "o%2fx", "offset": "2"}')
    assert ran.code == 2 and ran.out.splitlines()[0].startswith("deny known (schema): ")
    assert [line.split(":")[0] for line in ran.out.splitlines()[1:]] == ["  /offset", "  id"]


def test_a_suggestion_is_told(leeward):
    ran = leeward(
        "check",
        "fetch",
        '{"url": "https://a.example/y"}',
        "--url",
        "https://a.example/x/",
        "--output",
        "json",
    )
    assert ran.json["data"]["suggestion"] == "https://a.example/x/"
    assert (
        "suggestion: https://a.example/x/\n"
        in leeward("check", "fetch", '{"url": "https://a.example/y"}', "--url", "https://a.example/x/").out
    )


def test_a_line_made_for_a_long_name_of_a_file_is_judged_all_the_same(leeward):
    """The process would be ended here if it hung: a pattern's stars are held against a name of 200
    letters.
    """
    (leeward.workspace / ("a" * 200)).touch()
    ran = leeward.process("check", "shell", '{"command": "ls *a*a*a*a*a*ab"}')
    assert (ran.code, ran.out[:3], ran.err) == (4, "ask", "")


def test_a_question_and_a_refusal_name_what_they_are_about(leeward):
    line = '{"command": "make test; rm -rf %s"}'
    asked = leeward("check", "shell", line % "build", "--rung", "real")
    assert asked.out.splitlines() == [
        "ask commands: Run it? a program is not known to only read",
        "  namely: make",
        "  namely: rm",
    ]
    assert leeward("check", "shell", line % "/", "--rung", "real").out.endswith("\n  namely: /\n")
    asked = leeward("check", "shell", '{"command": "curl https://a\\u202eb.example/"}', "--rung", "real")
    assert "\u202e" not in asked.out
