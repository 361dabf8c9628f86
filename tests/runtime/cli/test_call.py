"""`leeward call`: one call through the whole pipeline, and its exit code."""

from __future__ import annotations

import pytest

REJECTED = [
    ("../etc/passwd", "path_traversal"),
    ("a%252e%252e", "double_encoding"),
    ("..%2fetc", "encoded_traversal"),
    ("files%2fetc%2fpasswd", "percent_encoded_separator"),
    ("a%3bls", "encoded_shell_metachar"),
    ("me%40home", "percent_encoded_segment"),
    ("of_1?foo=bar", "embedded_query"),
    ("of_1#top", "fragment_identifier"),
    ("<id>", "placeholder"),
    ("of\n1", "control_character"),
    ("of\u202e1", "invisible_character"),
]


@pytest.mark.parametrize(("value", "pattern"), REJECTED)
def test_a_rejected_identifier_ends_with_2_and_the_whole_refusal(leeward, value, pattern):
    ran = leeward("call", "read_overflow", f'{{"id": {json_text(value)}}}', "--output", "json")
    error = ran.json["error"]
    assert ran.code == 2
    assert {name: error[name] for name in ("code", "phase", "retryable", "argument", "input_value")} == {
        "code": "INVALID_AGENT_INPUT",
        "phase": "validation",
        "retryable": False,
        "argument": "id",
        "input_value": value,
    }
    assert error["rejected_pattern"] == pattern
    assert error["message"] == "Argument 'id' contains a rejected pattern"


def json_text(value: str) -> str:
    return '"' + "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in value) + '"'


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "exit_code", "gate"),
    [
        ("read", "{", "ARG_ERROR", 2, "known"),
        ("read", "[]", "ARG_ERROR", 2, "known"),
        ("read", "{}", "ARG_ERROR", 2, "known"),
        ("read", '{"path": 5, "limit": "x"}', "ARG_ERROR", 2, "known"),
        ("read", '{"path": "notes.md", "path": "a"}', "ARG_ERROR", 2, "known"),
        ("Not a name", "{}", "TOOL_NOT_FOUND", 5, "known"),
        ("raed", '{"path": "notes.md"}', "TOOL_NOT_FOUND", 5, "known"),
        ("fetch", '{"url": "https://a.example/"}', "PERMISSION_DENIED", 7, "grounding"),
        ("read", '{"path": "../.ssh/id_rsa"}', "INVALID_AGENT_INPUT", 2, "arguments"),
        ("shell", '{"command": "make"}', "INPUT_REQUIRED", 4, "commands"),
        ("write", '{"path": "a.md", "content": "b"}', "INPUT_REQUIRED", 4, "permissions"),
    ],
)
def test_refusals_end_with_the_code_of_their_kind(leeward, tool, arguments, code, exit_code, gate):
    ran = leeward("call", tool, arguments, "--output", "json")
    told = ran.json
    assert (ran.code, told["error"]["code"], told["error"]["gate"]) == (exit_code, code, gate)
    assert (told["ok"], told["data"]) == (False, None)
    assert told["error"]["message"] and "rule" in told["error"]
    assert not (leeward.workspace / "a.md").exists()
    text = leeward("call", tool, arguments)
    assert (text.code, text.out) == (exit_code, "")
    assert told["error"]["message"] in text.err
    assert "\n  suggestion: " in text.err, "what to do is named, by the gate or by leeward audit why"


def test_secret_files_are_denied_with_the_rule(leeward):
    (leeward.workspace / ".env").write_text("KEY=" + "0" * 20)
    ran = leeward("call", "read", '{"path": ".env"}', "--output", "json")
    assert (ran.code, ran.json["error"]["gate"], ran.json["error"]["rule"]) == (7, "paths", "secret")


def test_all_schema_errors_come_in_one_answer(leeward):
    error = leeward("call", "read", '{"path": 5, "limit": "x", "extra": 1}', "--output", "json").json["error"]
    assert {problem["pointer"] for problem in error["errors"]} >= {"/path", "/limit"}


def test_a_good_read(leeward):
    ran = leeward("call", "read", '{"path": "notes.md"}', "--output", "json")
    assert ran.code == 0
    assert ran.json["data"]["text"] == "the ferry leaves at seven\n"
    text = leeward("call", "read", '{"path": "notes.md"}')
    assert (text.code, text.out, text.err) == (0, "the ferry leaves at seven\n", "")


def test_a_programs_own_exit_code_is_a_result(leeward):
    leeward.configure('[permissions]\nautonomy = "full"\n')
    ran = leeward("call", "shell", '{"command": "exit 3"}', "--output", "json")
    assert (ran.code, ran.json["data"]["exit_code"]) == (0, 3)
    missing = leeward("call", "shell", '{"command": "no-such-program-here"}', "--output", "json")
    assert (missing.code, missing.json["error"]["code"]) == (1, "PERMANENT_FAILURE")
    assert "no-such-program-here: " in missing.json["error"]["output"], "what the shell had to say about it"
    text = leeward("call", "shell", '{"command": "echo before; no-such-program-here"}')
    assert text.out.startswith("before\n") and "exit code 127: the program was not found" in text.err


def test_urls_that_were_given_are_grounded_and_only_these(leeward):
    def fetched(url, *given):
        words = [word for text in given for word in ("--url", text)]
        ran = leeward("call", "fetch", f'{{"url": "{url}"}}', *words, "--output", "json")
        return ran.code, ran.json["error"]["code"], ran.json["warnings"]

    assert fetched("https://a.example/x", "https://a.example/") == (1, "NETWORK_ERROR", [])
    assert fetched("https://a.example/x", "https://b.example/", "https://a.example")[:2] == (
        1,
        "NETWORK_ERROR",
    )
    assert fetched("https://a.example.evil.example/", "https://a.example/")[:2] == (7, "PERMISSION_DENIED")
    code, name, warnings = fetched("https://a.example/", "not a url")
    assert (code, name, len(warnings)) == (7, "PERMISSION_DENIED", 1)
    assert fetched("https://u:p@a.example/", "https://u:p@a.example/")[1] == "INVALID_AGENT_INPUT"


def test_what_was_seen_is_on_record(leeward):
    leeward("call", "read", '{"path": "notes.md"}', "--seen", "web", "--seen", "secret")
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    assert [r["body"]["labels"] for r in records if r["kind"] == "read"][0] == ["web", "secret"]


def test_every_decision_is_on_record_before_the_outcome(leeward):
    done = leeward("call", "read", '{"path": "notes.md"}', "--output", "json").json["meta"]
    refused = leeward("call", "fetch", '{"url": "https://a.example/"}', "--output", "json").json["meta"]
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    assert [r["kind"] for r in records if r["call"] == done["call"]] == ["decision", "outcome"]
    decision = next(r["body"] for r in records if r["call"] == refused["call"])
    assert (decision["allowed"], decision["gate"]) == (False, "grounding")
    assert decision["words"][0]["gate"] == "known"


def test_jsonl_tells_the_call_and_its_result(leeward):
    events = leeward("call", "read", '{"path": "notes.md"}', "--output", "jsonl").lines
    assert [event["type"] for event in events] == ["call", "result", "exit"]
    assert events[1]["text"] == "the ferry leaves at seven\n"


@pytest.mark.parametrize("level", ["auto", "none"])
def test_programs_and_name_are_the_persons_and_what_is_judged_is_what_runs(leeward, monkeypatch, level):
    tool, own = leeward.home / "tools" / "bin", leeward.workspace / ".venv" / "bin"
    for file in (tool / "mine", own / "ls", own / "python3", own / "pip", leeward.workspace / "bin" / "ls"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {file.name} of {file.parent.parent.name}\n")
        file.chmod(0o755)
    (own.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (leeward.home / ".gitconfig").write_text(
        "[user]\nname = Ada\nemail = ada@example.com\n[core]\npager = evil\n"
    )
    monkeypatch.setenv("PATH", f"{own}:{leeward.workspace}/bin:{tool}:/usr/bin:/bin")
    commit = "git init -qb main r && git -C r commit -q --allow-empty -m x && git -C r log -1 --format=%ae"
    line = f"{commit}; mine; command -v ls; pip"
    leeward.configure(f'[permissions]\nautonomy = "full"\n[tools.sandbox]\nlevel = "{level}"\n')
    ran = leeward("call", "shell", f'{{"command": {json_text(line)}}}', "--output", "json")
    assert ran.code == 0, ran.json
    email, mine, ls, pip, _ = ran.json["data"]["text"].splitlines()
    assert (email, mine, pip) == ("ada@example.com", "mine of tools", "pip of .venv")
    assert ls in {"/usr/bin/ls", "/bin/ls"}
    # The gates are told of the program that would run: the system's is known, the workspace's is not.
    leeward.configure("")
    answers = {
        name: leeward("check", "shell", f'{{"command": "{name}"}}').code
        for name in ("ls", "python3 --version")
    }
    assert answers == {"ls": 0, "python3 --version": 4}
