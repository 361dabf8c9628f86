"""Parsing and effects of slash commands."""

from __future__ import annotations

import re

import pytest

from leeward.runtime.slash import COMMANDS, dispatch, parse
from leeward.runtime.slash.commands import SUBJECTS

OFFLINE = ("--model", "offline")


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        ("/help", "help", ""),
        ("/h", "help", ""),
        ("/?", "help", ""),
        ("/QUIT", "exit", ""),
        ("/q", "exit", ""),
        ("  /browse  https://a.example/  what is new?  ", "browse", "https://a.example/  what is new?"),
        ("/trust read trusted", "trust", "read trusted"),
        ("/audit\nshow x", "audit", "show x"),
    ],
)
def test_commands_and_aliases(line, name, argument):
    found = parse(line)
    assert found is not None and found.command is not None
    assert (found.command.name, found.argument, found.problem) == (name, argument, None)


@pytest.mark.parametrize(
    "line", ["", "/", "help", "/etc/hosts", "/usr/bin/env python", "// comment", "/ help", "/1", "a /help"]
)
def test_other_lines_are_no_commands(line):
    assert parse(line) is None


@pytest.mark.parametrize(
    ("line", "near"), [("/hepl", "help"), ("/brwose x", "browse"), ("/stat", "status"), ("/quti", "exit")]
)
def test_the_near_miss_is_named(line, near):
    found = parse(line)
    assert found is not None and found.command is None
    assert f"did you mean /{near}?" in (found.problem or "")


@pytest.mark.parametrize("line", ["/nope", "/zap", "/xyzzy"])
def test_nothing_is_guessed_where_nothing_is_near(line):
    found = parse(line)
    assert found is not None and found.problem == f"there is no {line}; /help lists them"


def test_no_two_commands_share_a_name():
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
    asked = {
        "help",
        "todo",
        "config",
        "skill",
        "clear",
        "new",
        "browse",
        "tools",
        "model",
        "cost",
        "permissions",
        "trust",
        "labels",
        "audit",
        "autonomy",
        "show",
        "why",
        "overflow",
        "status",
        "exit",
        "mcp",
        "memory",
        "sessions",
        "resume",
        "fork",
        "compact",
        "undo",
        "redo",
        "diff",
        "export",
        "context",
        "init",
        "plan",
        "jobs",
        "copy",
        "editor",
        "doctor",
    }
    assert {command.name for command in COMMANDS} == asked


@pytest.fixture
def said(leeward):
    """Run lines in one session and return what each had to say; the last may be a failure."""

    def run(*lines):
        ran = leeward("--script", leeward.script("\n".join(lines)), *OFFLINE, "--output", "json")
        return [step["text"] for step in ran.json["data"]["steps"]]

    return run


def test_each_says_something_sensible(said):
    texts = dict(
        zip(
            ("help", "one", "tools", "model", "cost", "permissions", "trust", "overflow", "status", "audit"),
            said(
                "/help",
                "/help trust",
                "/tools",
                "/model",
                "/cost",
                "/permissions",
                "/trust",
                "/overflow",
                "/status",
                "/audit",
            ),
            strict=True,
        )
    )
    assert all(f"/{command.name}" in texts["help"] for command in COMMANDS)
    assert texts["one"].startswith("/trust [TOOL LEVEL | reset]") and "\n" not in texts["one"]
    shown = texts["help"].splitlines()
    assert {line.find(command.summary) for command in COMMANDS for line in shown} == {-1, 29}
    assert {line[:17].count(" ") > 0 and line[17:25] for line in texts["tools"].splitlines()} == {"trusted "}
    assert "read, create, write, execute, send, bring in" in texts["tools"]
    assert texts["model"] == "offline"
    assert texts["cost"].splitlines()[1] == "this session  0 tokens in, 0 out · cost 0.0000"
    assert texts["permissions"] == "autonomy supervised\nno rules; the defaults hold"
    assert "shell            trusted      built in" in texts["trust"]
    assert texts["overflow"] == "nothing was too long to show"
    for word in (
        "offline",
        "supervised",
        "off: none",
        "0 used, 500 left",
        "0 of 3 denials in a row",
        "labels",
    ):
        assert word in texts["status"]
    assert "session" in texts["audit"]


def test_status_tells_what_was_switched_off_and_what_has_happened(leeward, said):
    leeward.configure(
        "[security.pre_execution_verify.url_grounding]\nenabled = false\n[tools.anomaly]\nenabled = false\n"
    )
    assert "off: anomaly, grounding" in said("/status")[0]
    leeward.configure("[agent]\nmax_tool_calls_per_session = 9\n")
    text = said(
        "read notes.md",
        "guess the website of somebody",
        "/permissions allow shell ls *",
        "/trust grep blocked",
        "/status",
    )[-1]
    for word in (
        "2 used, 7 left",
        "1 of 3 denials in a row, 1 of 20 in all",
        "labels      workspace",
        "grants      allow shell ls *",
        "read 0 of 1 failed",
        "fetch 1 of 1 failed",
        "grep blocked: set by the person; /trust grep LEVEL changes it",
    ):
        assert word in text


def test_permissions_lists_rules_and_grants(leeward, said):
    leeward.configure('[[permissions.rules]]\ntool = "read"\nmatch = "x/**"\naction = "deny"\n')
    listed = said("/permissions allow shell seq *", "/perms", "/clear", "/permissions")
    granted = re.fullmatch(r"allowed for this session: shell seq \* \((g_[0-9a-f]{8})\)", listed[0])
    assert granted
    assert listed[1] == (
        f"autonomy supervised\ndeny read x/**  (config.toml:1)\n{granted[1]}  allow shell seq *  for "
        f"this session"
    )
    assert "seq" not in listed[3]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/permissions deny shell", "usage"),
        ("/permissions allow", "usage"),
        ("/permissions allow Shell", "usage"),
        ("/permissions allow shell 'open", "not closed"),
        ("/permissions allow shell [x", "bracket"),
        (
            "/permissions allow shell push ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "the pattern contains a secret",
        ),
        ("/permissions revoke", "usage"),
        ("/permissions revoke g_1", "there is no grant g_1"),
        ("/memory n_1", "there is no note of that id here"),
        ("/memory delete n_1", "there is no note of that id here"),
        ("/memory forget n_1", "there is no note of that id here"),
        ("/trust read", "usage"),
        ("/trust read very", "there is no such level; levels are trusted, verified, quarantined, blocked"),
        ("/trust raed trusted", "did you mean read"),
        ("/audit some", "usage"),
        ("/audit show", "usage"),
        ("/audit show call_0", "no record of that call"),
        ("/browse --forget", "usage"),
        ("/model nonsense:x", "there is no model"),
        ("/help nothing", "no /nothing"),
        ("/trust nothing trusted", "there is no tool nothing; /tools lists them"),
        ("/autonomy very", "there is no such level; levels are readonly, "),
        ("/export", "this session has no message yet"),
        ("/fork", "this session has no message yet"),
    ],
)
def test_mistakes_are_told(leeward, line, why):
    ran = leeward("--script", leeward.script(line), *OFFLINE, "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "SLASH_FAILED")
    assert why in ran.json["error"]["message"]


def test_trust_blocks_and_lifts(leeward):
    path = leeward.script(
        "/trust read blocked\nread notes.md\n!expect denied read anomaly\n"
        "/trust read trusted\nread notes.md\n!expect allowed read\n"
    )
    assert leeward("--script", path, *OFFLINE).code == 0


def test_trust_reset_lifts_the_breaker(leeward):
    leeward.configure("[tools.retry]\nretries = 0\n")
    guess = "guess the website of {}\n!expect denied fetch grounding\n"
    path = leeward.script(
        "fetch https://www.a.example/\n"
        + "".join(guess.format(name) for name in ("xx", "yy", "zz"))
        + "/status\n!expect text tripped\n"
        "guess the website of a\n!expect asked fetch\n"
        "/trust reset\nguess the website of a\n!expect allowed fetch\n"
    )
    ran = leeward("--script", path, *OFFLINE)
    assert ran.code == 0, ran.err


def test_browse_goes_through_the_gates_as_the_person(leeward, said):
    path = leeward.script(
        "/browse www.a.example\n!expect allowed fetch\n!expect error network_error\n"
        "/browse http://www.a.example/ what?\n!expect denied fetch hosts\n"
        "/browse https://localhost/ what?\n!expect denied fetch hosts\n"
    )
    ran = leeward("--script", path, *OFFLINE, "--output", "json")
    assert ran.code == 0, ran.json["error"]
    assert leeward("--script", leeward.script("/browse https://u:p@a.example/"), *OFFLINE).code == 1


def test_audit_shows_one_call_of_this_session_only(leeward):
    leeward("call", "read", '{"path": "notes.md"}')
    before = leeward("audit", "list", "--output", "json").json["data"]["records"][1]["call"]
    ran = leeward("--script", leeward.script(f"/audit show {before}\n"), *OFFLINE, "--output", "json")
    assert ran.json["error"]["code"] == "SLASH_FAILED"


async def test_config_shows_what_is_set_and_where(sessions, tmp_path) -> None:
    text = '[agent]\nmax_turns = 7\n[[llm.providers]]\nname = "a"\nbase_url = "http://127.0.0.1:1/v1"\n'
    async with sessions.session(tmp_path, text) as runtime:
        shown = (await dispatch(runtime, parse("/config"))).text
        assert "agent.max_turns = 7  (config.toml:2)" in shown and "agent.timeout" not in shown
        below = (await dispatch(runtime, parse("/config agent."))).text
        assert "agent.timeout = 0  (default)" in below and "llm" not in below
        assert (await dispatch(runtime, parse("/config nothing"))).failed


async def test_help_is_by_subject(sessions, tmp_path):
    async with sessions.session(tmp_path, "", []) as runtime:
        heads = {f"{subject}:" for subject in SUBJECTS}
        told = (await dispatch(runtime, parse("/help"))).text.splitlines()
        assert [line for line in told if line in heads] == [f"{subject}:" for subject in SUBJECTS]
        for subject, commands in SUBJECTS.items():
            lines = (await dispatch(runtime, parse(f"/help {subject}"))).text.splitlines()
            assert lines[0] == f"{subject}:" and not heads.intersection(lines[1:])
            names = [line[1:].split()[0] for line in lines if line.startswith("/")]
            assert names == [command.name for command in commands]
        wrong = await dispatch(runtime, parse("/help nothing"))
        assert wrong.failed and "no such subject" in wrong.text
    # A subject that is also a command's name would hide one of the two.
    assert not set(SUBJECTS) & {name for one in COMMANDS for name in (one.name, *one.aliases)}
