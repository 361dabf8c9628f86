"""The command line as a whole: parsing, streams, and questions before the start."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib

import pytest

from leeward.runtime.cli import main as cli
from leeward.runtime.cli.main import read_command_line
from leeward.runtime.config import trust as trusted
from leeward.runtime.console import startup
from leeward.runtime.exits import CliError, Exit
from leeward.runtime.options import Options
from leeward.runtime.script import stdin as stdin_of_runs
from loading import rows_beside

ROWS = rows_beside(__file__)

OFFLINE = ("--model", "offline")
FERRY = "the ferry leaves at seven"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--bogus"], "--bogus"),
        (["nonsense"], "nonsense"),
        (["--output", "xml"], "--output"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "soon"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--max-turns", "0"], "--max-turns"),
        (["--max-turns", "٣"], "--max-turns"),
        (["-p", "a", "--script", "b"], "--script"),
        (["-p", "a", "call", "read"], "call"),
        (["call"], "TOOL"),
        (["check"], "TOOL"),
        (["check", "read", "{}", "--batch", "-"], "--batch"),
        (["check", "read", "--seen", "moon"], "--seen"),
        (["audit"], "list|show"),
        (["audit", "show"], "CALL"),
        (["config", "burn"], "burn"),
        (["--mod=offline", "-p", "a"], "--mod"),
    ],
)
def test_what_cannot_be_read_is_a_usage_error(words, named):
    with pytest.raises(CliError, match=named.replace("|", r"\|")) as caught:
        read_command_line(words)
    assert caught.value.exit is Exit.ARG_ERROR


@pytest.mark.parametrize(
    ("words", "message"),
    ROWS["a_slip_is_named_with_what_was_meant"],
)
def test_a_slip_is_named_with_what_was_meant(words, message):
    with pytest.raises(CliError) as caught:
        read_command_line(words)
    assert message in caught.value.message and "choose from" not in caught.value.message


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Options()),
        (["-p", "two words"], Options(prompt="two words")),
        (
            ["--model", "a:b", "call", "read", "{}"],
            Options(command="call", model="a:b", tool="read", arguments="{}"),
        ),
        (
            ["call", "read", "{}", "--model", "a:b"],
            Options(command="call", model="a:b", tool="read", arguments="{}"),
        ),
        (["call", "read"], Options(command="call", tool="read", arguments="{}")),
        (
            ["--output", "json", "check", "f", "{}", "--url", "u", "--url", "v", "--seen", "web"],
            Options(command="check", output="json", tool="f", arguments="{}", urls=("u", "v"), seen=("web",)),
        ),
        (["audit", "list", "--limit", "3"], Options(command="audit", action="list", limit=3)),
        (["audit", "list", "--output", "json"], Options(command="audit", action="list", output="json")),
        (["config"], Options(command="config", action="show")),
    ],
)
def test_flags_mean_the_same_before_and_after_the_command(words, expected):
    options = read_command_line(words)
    assert options is not None
    fields = set(Options.__dataclass_fields__) - {"request"}
    assert {name: getattr(options, name) for name in fields} == {
        name: getattr(expected, name) for name in fields
    }


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("spelling", [("--output", "{}"), ("--output={}",)])
def test_usage_errors_come_in_the_form_that_was_asked_for(leeward, form, spelling):
    ran = leeward(*(word.format(form) for word in spelling), "--bogus")
    error = ran.lines[-1]["error"]
    assert (ran.code, error["code"], error["phase"], error["retryable"]) == (2, "ARG_ERROR", "usage", False)
    assert ran.err == ""


def test_without_a_terminal_there_is_no_chat(leeward):
    ran = leeward.process(stdin=subprocess.DEVNULL)
    assert (ran.code, ran.out) == (Exit.PRECONDITION, "")
    assert "-p PROMPT" in ran.err


def test_text_that_is_piped_in_without_a_prompt_is_a_usage_error(leeward):
    ran = leeward.process(input=b"fix it\n")
    assert (ran.code, ran.out) == (Exit.ARG_ERROR, "")
    assert "leeward -p PROMPT" in ran.err and "leeward -p -" in ran.err


def test_standard_input_as_the_words_of_the_person(leeward):
    words = b"\xef\xbb\xbffetch https://127.0.0.1:1/given\n"
    leeward.configure("[tools.retry]\nretries = 0\n")
    ran = leeward.process("-p", "-", *OFFLINE, "--output", "json", input=words)
    # Grounded by the words; that a private address is refused is for another gate.
    assert [call["gate"] for call in ran.json["data"]["calls"]] == ["hosts"]
    for unusable in (b"", b" \n", b"a\xff", b"a" * (1024 * 1024 + 1)):
        assert leeward.process("-p", "-", *OFFLINE, input=unusable).code == Exit.ARG_ERROR


def test_a_run_takes_up_a_session_only_when_told_to(leeward):
    first, second, third = (
        leeward("-p", "read notes.md", *OFFLINE, "--output", "json", *more).json["data"]["session"]
        for more in ((), (), ("--continue",))
    )
    assert first != second == third
    assert leeward("-p", "hi", *OFFLINE, "--continue", "--resume", first).code == Exit.ARG_ERROR


def test_a_run_tells_its_denials_and_the_head_of_the_audit(leeward):
    words = ("-p", "guess the website of somebody", *OFFLINE)
    data = leeward(*words, "--output", "json").json["data"]
    (denial,) = data["denials"]
    assert (denial["tool"], denial["gate"], denial["rule"]) == ("fetch", "grounding", "not_provided")
    assert denial["way_out"]
    assert leeward("audit", "verify", "--head", data["audit_head"]).code == 0
    *_, summary, ended = leeward(*words, "--output", "jsonl").lines
    assert (summary["type"], ended["type"], ended["code"]) == ("run", "exit", Exit.PARTIAL_FAILURE)
    assert [one["gate"] for one in summary["denials"]] == ["grounding"]


def test_stdout_carries_the_answer_only(leeward):
    ran = leeward("-p", "read notes.md", *OFFLINE)
    assert ran.code == 0
    assert FERRY in ran.out and "→ read" not in ran.out
    assert "→ read" in ran.err and FERRY not in ran.err
    quiet = leeward("-p", "read notes.md", *OFFLINE, "--quiet")
    assert (quiet.out, quiet.err) == (ran.out, "")
    assert f"│ {FERRY}" in leeward("-p", "read notes.md", *OFFLINE, "--verbose").err


def test_json_is_one_envelope_and_jsonl_is_events(leeward):
    told = leeward("-p", "read notes.md", *OFFLINE, "--output", "json").json
    assert set(told) == {"ok", "data", "error", "warnings", "meta"}
    assert (told["ok"], told["error"], told["data"]["reason"]) == (True, None, "done")
    assert FERRY in told["data"]["text"]
    assert [call["tool"] for call in told["data"]["calls"]] == ["read"]
    events = leeward("-p", "read notes.md", *OFFLINE, "--output", "jsonl").lines
    assert {event["schema"] for event in events} == {1}
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-3:]) == ("text", ["end", "run", "exit"])
    assert kinds.index("call") + 1 == kinds.index("result")
    assert (events[-1]["code"], events[-1]["error"]) == (0, None)


def test_no_escape_sequence_gets_out_in_any_form(leeward):
    (leeward.workspace / "evil.md").write_text(
        "a\x1b]0;title\x07b\x1b[31mred\x9b5m\u202e\n", encoding="utf-8"
    )
    (leeward.home / "evil.toml").write_text('[[reply]]\ntext = "\\u001b[2Jsays\\u202e"\n')
    model = f"scripted:{leeward.home}/evil.toml"
    for form in ("text", "json", "jsonl"):
        for words in (("call", "read", '{"path": "evil.md"}'), ("-p", "\x1b[1mx", "--model", model)):
            ran = leeward(*words, "--output", form)
            assert not set("\x1b\x9b\x07\u202e") & set(ran.out + ran.err), (form, words)
            assert ran.code == 0


def test_what_is_piped_in_goes_along_as_data(leeward):
    words = b"read notes.md\nfetch https://piped.example/\n"
    ran = leeward.process("-p", "help", *OFFLINE, "--output", "json", input=words)
    assert (ran.code, ran.json["data"]["calls"]) == (0, [])
    grounded = leeward.process("-p", "guess the website of piped", *OFFLINE, "--output", "json", input=words)
    assert (grounded.code, grounded.json["data"]["calls"][0]["gate"]) == (3, "grounding")
    kinds = {
        r["kind"]: r["body"] for r in leeward("audit", "list", "--output", "json").json["data"]["records"]
    }
    assert kinds["read"]["labels"] == ["web"]


def test_a_pipe_that_says_nothing_does_not_hang_the_start(leeward, monkeypatch):
    silent, held_open = os.pipe()
    monkeypatch.setattr(stdin_of_runs, "_FIRST_BYTE_SECONDS", 0.01)
    with os.fdopen(silent) as stdin, os.fdopen(held_open, "w"):
        monkeypatch.setattr("sys.stdin", stdin)
        ran = leeward("-p", "help", *OFFLINE)
    assert ran.code == 0
    assert "sends nothing" in ran.err


def test_a_prompt_is_never_a_command(leeward):
    ran = leeward("-p", "/status", *OFFLINE)
    assert ran.code == 0
    assert "I do not understand" in ran.out


def test_a_reader_who_goes_away_is_no_noise(leeward):
    lines = json.dumps({"tool": "read", "args": {"path": "notes.md"}}) + "\n"
    (leeward.workspace / "calls.jsonl").write_text(lines * 5000)
    running = leeward.start("check", "--batch", "calls.jsonl")
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait(timeout=60) == 1


@pytest.mark.parametrize(
    "words", [("-p", "read notes.md", *OFFLINE), ("call", "read", '{"path": "work/notes.md"}')]
)
def test_a_home_is_no_workspace_unless_it_is_named(leeward, monkeypatch, words):
    monkeypatch.chdir(leeward.home.parent)
    ran = leeward(*words, "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "INPUT_REQUIRED")
    assert "--workspace" in ran.json["error"]["suggestion"]
    assert not leeward.data.exists()
    named = leeward("call", "read", '{"path": "work/notes.md"}', "--workspace", ".", "--output", "json")
    assert named.code == 0


def test_a_workspace_must_be_a_folder(leeward):
    for name in ("notes.md", "nowhere"):
        ran = leeward("call", "read", "{}", "--workspace", name, "--output", "json")
        assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR")


def test_the_configuration_of_a_workspace_is_read_only_where_the_person_said_so(leeward):
    (leeward.workspace / ".leeward").mkdir()
    (leeward.workspace / ".leeward/config.toml").write_text('[permissions]\nautonomy = "readonly"\n')
    words = ("check", "write", '{"path": "a", "content": "b"}', "--output", "json")
    ran = leeward(*words)
    assert (ran.code, ran.json["error"]["code"]) == (4, "INPUT_REQUIRED")
    assert "config trust" in ran.json["error"]["suggestion"]
    assert leeward("config", "trust").code == 0
    assert leeward(*words).json["data"]["rule"] == "readonly"
    assert leeward("config", "distrust").code == 0
    assert leeward(*words).json["data"]["rule"] == "default"
    file = leeward.data / trusted.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    leeward("config", "trust")
    file.chmod(0o622)
    assert leeward(*words).json["error"]["code"] == "INPUT_REQUIRED"


def test_what_trusted_workspaces_are_survives_nonsense(tmp_path):
    assert trusted.trust_of(tmp_path, tmp_path).answer is None
    for text in ("", "[]", "{", '{"x": 1}', "[" * 100_000, json.dumps({str(tmp_path): "yes"})):
        (tmp_path / trusted.FILE).write_text(text)
        (tmp_path / trusted.FILE).chmod(0o600)
        assert trusted.trust_of(tmp_path, tmp_path).answer is None
    trusted.set_trusted(tmp_path, tmp_path, False)
    trusted.set_trusted(tmp_path, tmp_path / "other", True)
    assert trusted.trust_of(tmp_path, tmp_path).answer is False
    assert trusted.trust_of(tmp_path, tmp_path / "other").answer is True
    assert [path.name for path in tmp_path.iterdir()] == [trusted.FILE]


def test_config_tells_values_and_where_they_were_said(leeward):
    leeward.configure('[agent]\nmax_turns = 7\n[[llm.providers]]\nname = "work"\napi_key_env = "WORK_KEY"\n')
    values = leeward("config", "--autonomy", "readonly", "--output", "json").json["data"]["values"]
    assert values["agent.max_turns"] == {"value": 7, "source": "config.toml:2"}
    assert values["permissions.autonomy"] == {"value": "readonly", "source": "flag"}
    assert values["llm.providers"]["value"][0]["api_key_env"] == "(not shown)"
    shown = leeward("config").out.splitlines()
    assert "agent.max_turns = 7  (config.toml:2)" in shown
    told = tomllib.loads("\n".join(line.rpartition("  (")[0] for line in shown))
    assert (
        told["tools"]["shell"]["confirm_patterns"][0] == "$(" and told["tools"]["anomaly"]["enabled"] is True
    )
    assert told["llm"]["providers"][0]["name"] == "work"
    assert leeward("config", "path", "--output", "json").json["data"]["read"] == [str(leeward.config)]


def test_a_broken_configuration_is_told_with_its_place(leeward):
    leeward.configure("[agent]\nmax_turn = 7\n")
    for words in (("-p", "hi", *OFFLINE), ("call", "read", "{}"), ("check", "--batch", "-"), ("tools",)):
        ran = leeward(*words, "--output", "json")
        assert (ran.code, ran.json["error"]["code"]) == (2, "CONFIG_ERROR")
        assert "config.toml:2" in ran.json["error"]["message"]
    assert not leeward.data.exists()


def test_tools_are_listed_with_their_trust(leeward):
    leeward.configure('[security.trust]\nfetch = "quarantined"\n')
    told = {tool["name"]: tool for tool in leeward("tools", "--output", "json").json["data"]["tools"]}
    assert told["read"]["effects"] == ["read"] and told["read"]["level"] == "trusted"
    assert (told["fetch"]["level"], told["fetch"]["level_from"]) == ("quarantined", "the configuration")
    assert "quarantined" in leeward("tools").out
    assert not leeward.data.exists()


def test_the_audit_is_listed_and_shown(leeward):
    assert leeward("audit", "list", "--output", "json").json["data"] == {"records": []}
    assert not leeward.data.exists()
    done = leeward("call", "read", '{"path": "notes.md"}', "--output", "json").json["meta"]
    leeward("call", "fetch", '{"url": "https://example.com/"}')
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    assert [r["tool"] for r in records if r["kind"] == "decision"] == ["read", "fetch"]
    own = leeward("audit", "list", "--session", done["session"], "--output", "json").json["data"]["records"]
    assert {record["session"] for record in own} == {done["session"]}
    assert len(leeward("audit", "list", "--limit", "2", "--output", "json").json["data"]["records"]) == 2
    shown = leeward("audit", "show", done["call"][:13], "--output", "json").json["data"]["records"]
    assert [record["kind"] for record in shown] == ["decision", "outcome"]
    assert "denied by grounding (not_provided)" in leeward("audit", "list").out
    assert "digest" in leeward("audit", "show", done["call"]).out


def test_a_database_that_cannot_be_used_is_told(leeward):
    leeward.data.mkdir(parents=True)
    (leeward.data / "leeward.db").write_text("this is no database, and it is nobody's business " * 100)
    ran = leeward("call", "read", '{"path": "notes.md"}', "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "STORAGE_ERROR")


def test_a_bug_still_answers_in_json(leeward, monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(startup, "find_places", broken)
    with pytest.raises(BaseExceptionGroup) as caught:
        cli.run(["call", "read", "{}", "--output", "json"])
    assert caught.group_contains(ZeroDivisionError)
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "INTERNAL_ERROR"
