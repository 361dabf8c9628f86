"""`leeward check --batch`: one line out for each line in, in order, whatever the line holds."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.cli import check_batch as batch_module
from leeward.runtime.cli.batch_lines import BadLine
from leeward.runtime.cli.check_batch import read_line
from leeward.runtime.dry_run import Judged
from leeward.security.trust import Origin


@pytest.fixture
def batch(leeward):
    """Answer lines, given as text or objects."""

    def answer(*lines, code=0):
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        (leeward.home / "in.jsonl").write_text(text, encoding="utf-8")
        ran = leeward("check", "--batch", str(leeward.home / "in.jsonl"))
        assert (ran.code, ran.err) == (code, "")
        assert len(ran.lines) == len(lines)
        assert not leeward.data.exists()
        return ran.lines

    return answer


def call(tool, said="", **more):
    arguments = more.pop("args")
    return {"tool": tool, "args": arguments, "said": said, **more}


def test_lines_are_answered_in_order(batch):
    answers = batch(
        call("read", args={"path": "notes.md"}),
        call("shell", args={"command": "make"}),
        call("fetch", args={"url": "https://a.example/"}),
        call("fetch", "see https://a.example/", args={"url": "https://a.example/deep"}),
        call("fetch", args={"url": "https://a.example/"}, urls=["https://a.example/"]),
        call("read_overflow", args={"id": "../etc/passwd"}),
        call("nothing", args={}),
        call("read", args='{"path": "notes.md"}'),
        call("read", args='{"path": 5}'),
        call("read", args="{"),
    )
    assert [(a["decision"], a["gate"], a["code"]) for a in answers] == [
        ("allow", None, None),
        ("ask", "commands", "INPUT_REQUIRED"),
        ("deny", "grounding", "PERMISSION_DENIED"),
        ("allow", None, None),
        ("allow", None, None),
        ("deny", "arguments", "INVALID_AGENT_INPUT"),
        ("deny", "known", "TOOL_NOT_FOUND"),
        ("allow", None, None),
        ("deny", "known", "ARG_ERROR"),
        ("deny", "known", "ARG_ERROR"),
    ]
    assert all(set(a) >= {"decision", "gate", "rule", "code", "reason", "asks"} for a in answers)
    assert answers[1]["asks"] == [{"gate": "commands", "question": answers[1]["reason"]}]
    assert answers[5]["detail"]["rejected_pattern"] == "path_traversal"


def test_each_line_is_a_session_of_its_own(batch):
    fetch = call("fetch", args={"url": "https://a.example/"})
    answers = batch({**fetch, "said": "https://a.example/"}, fetch, *[fetch] * 30)
    assert [a["decision"] for a in answers] == ["allow", *["deny"] * 31]
    assert {a["gate"] for a in answers[1:]} == {"grounding"}


def test_a_line_may_have_a_workspace_of_its_own(batch, leeward):
    other = leeward.home / "other"
    other.mkdir()
    (other / "link").symlink_to("/etc")
    inside = {"path": str(other / "a.md")}
    answers = batch(
        call("read", args=inside),
        call("read", args=inside, workspace=str(other)),
        call("read", args={"path": "notes.md"}, workspace=str(other)),
        call("read", args={"path": "link/hostname"}, workspace=str(other)),
    )
    assert [(a["decision"], a["gate"]) for a in answers] == [
        ("ask", "paths"),
        ("allow", None),
        ("allow", None),
        ("ask", "paths"),
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", 2),
        ("x", 2),
        ("[]", 2),
        ("null", 2),
        ('"read"', 2),
        ('{"tool": "read"', 2),
        ("[" * 100_000, 2),
        ("{}", 0),
        ('{"tool": "read"}', 0),
        ('{"args": {}}', 0),
        ('{"tool": 5, "args": {}}', 0),
        ('{"tool": "read", "args": {}, "said": 5}', 0),
        ('{"tool": "read", "args": {}, "urls": "https://a.example/"}', 0),
        ('{"tool": "read", "args": {}, "urls": [5]}', 0),
        ('{"tool": "read", "args": {}, "seen": ["moon"]}', 0),
        ('{"tool": "read", "args": {}, "seen": ["person"]}', 0),
        ('{"tool": "read", "args": {}, "seeen": ["web"]}', 0),
        ('{"tool": "read", "args": {}, "workspace": 5}', 0),
        ('{"tool": "read", "args": {}, "workspace": "a\\u0000b"}', 0),
        ('{"tool": "read", "tool": "shell", "args": {}}', 0),
    ],
)
def test_a_bad_line_is_answered_with_an_error_and_the_others_go_on(batch, line, code):
    good = call("read", args={"path": "notes.md"})
    before, answer, after = batch(good, line, good, code=code)
    assert before["decision"] == after["decision"] == "allow"
    assert set(answer) == {"error"}
    assert (answer["error"]["code"], answer["error"]["line"]) == ("ARG_ERROR", 2)
    assert answer["error"]["message"]


def test_arguments_are_judged_as_they_were_written(batch):
    deep = '{"path": ' + "[" * 5000 + "]" * 5000 + "}"
    lines = [
        f'{{"tool": "read", "args": {written}, "said": "hi"}}'
        for written in (
            deep,
            '{"path": "a", "path": "b"}',
            '{"path": NaN}',
            '{"path": "\\ud800"}',
            "5",
            "[]",
            '"5"',
            "null",
        )
    ]
    for answer in batch(*lines):
        assert (answer["decision"], answer["gate"]) == ("deny", "known")


def test_unknown_fields_are_passed_over_aloud(batch):
    (answer,) = batch({"tool": "read", "args": {"path": "notes.md"}, "id": 7})
    assert answer["decision"] == "allow"
    assert "id" in answer["warnings"][0]


def test_a_line_without_its_end_counts_and_bytes_may_be_anything(leeward):
    (leeward.workspace / "in.jsonl").write_bytes(b'\xff\xfe\n{"tool": "read", "args": {"path": "notes.md"}}')
    ran = leeward("check", "--batch", "in.jsonl")
    assert (ran.code, [line.get("decision") for line in ran.lines]) == (2, [None, "allow"])
    assert leeward("check", "--batch", "nowhere.jsonl").code == leeward("check", "--batch", ".").code == 2


def test_answers_come_while_the_input_is_open(leeward):
    running = leeward.start("check", "--batch", "-", stdin=-1)
    for _ in range(2):
        running.stdin.write(b'{"tool": "read", "args": {"path": "notes.md"}}\n')
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["decision"] == "allow"
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (0, b"", b"")


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.fixed_dictionaries({"tool": TEXTS, "args": st.dictionaries(TEXTS, TEXTS | st.integers() | st.none())})
)
@example({"tool": "read", "args": {"args": '"args": {'}})
@example({"tool": '"args":', "args": {"\\": "}"}})
def test_what_is_read_is_what_was_written(fields):
    asked, notes = read_line(json.dumps(fields).encode())
    assert (asked.tool, json.loads(asked.arguments), notes) == (fields["tool"], fields["args"], ())


@given(st.text(max_size=200) | st.binary(max_size=200))
@example('{"args": {"a": 1, "a": 2}, "tool": "x"}')
@example('{"x": [1, {"args": 2, "args": 3}], "args": {}, "tool": "x"}')
@example('[{"args": 1, "args": 2}]')
def test_no_line_breaks_the_reader(line):
    try:
        asked, _ = read_line(line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass"))
    except BadLine:
        return
    assert isinstance(asked.tool, str) and isinstance(asked.arguments, str)


def test_every_field_is_read():
    line = {"tool": "a", "args": {}, "said": "b", "urls": ["c"], "seen": ["web", "secret"], "workspace": "/d"}
    asked, _ = read_line(json.dumps(line).encode())
    assert (asked.person_words, asked.urls, asked.workspace) == ("b", ("c",), "/d")
    assert asked.seen == {Origin.WEB, Origin.SECRET}
    nothing, _ = read_line(
        json.dumps({**line, "said": None, "urls": None, "seen": None, "workspace": None}).encode()
    )
    assert (nothing.person_words, nothing.urls, nothing.seen, nothing.workspace) == (
        "",
        (),
        frozenset(),
        None,
    )


def test_a_long_line_is_refused_without_being_kept(leeward):
    wide = b'{"tool": "read", "args": {"path": "' + b"a" * (17 * 1024 * 1024) + b'"}}\n'
    good = b'{"tool": "read", "args": {"path": "notes.md"}}\n'
    (leeward.workspace / "in.jsonl").write_bytes(good + wide + good)
    ran = leeward("check", "--batch", "in.jsonl")
    assert ran.code == 2
    assert [line.get("decision", line.get("error", {}).get("line")) for line in ran.lines] == [
        "allow",
        2,
        "allow",
    ]


async def test_whatever_one_line_runs_into_the_others_are_answered(monkeypatch, tmp_path):
    class Breaking:
        def __init__(self, start, _rung):
            self.start = start

        async def judge(self, asked):
            if asked.tool != "good":
                raise {"io": OSError, "deep": RecursionError, "bug": AttributeError}[asked.tool](
                    "s3cret detail"
                )
            return Judged("allow")

    said = []
    monkeypatch.setattr(batch_module, "DryRun", Breaking)
    monkeypatch.setattr(batch_module, "begin", lambda *_, **__: None)
    lines = "".join(f'{{"tool": "{tool}", "args": {{}}}}\n' for tool in ("good", "io", "deep", "bug", "good"))
    (tmp_path / "in").write_text(lines, encoding="utf-8")
    code = await batch_module.run_batch(
        SimpleNamespace(batch=str(tmp_path / "in"), rung=None), SimpleNamespace(lines=said.append)
    )
    answers = [json.loads(line) for line in "".join(said).splitlines()]
    assert (code, [answer.get("decision") for answer in answers]) == (0, ["allow", None, None, None, "allow"])
    assert [answer["error"]["line"] for answer in answers[1:4]] == [2, 3, 4]
    assert "s3cret" not in "".join(said)


def test_a_path_nobody_can_follow_is_denied_like_any_other(batch, leeward):
    (leeward.workspace / "loop").symlink_to("loop")
    before, loop, after = batch(
        *(call("read", args={"path": path}) for path in ("notes.md", "loop/x", "notes.md"))
    )
    assert before["decision"] == after["decision"] == "allow"
    assert (loop["decision"], loop["gate"], loop["rule"]) == ("deny", "paths", "unreadable")


def test_words_of_the_person_ground_no_name_of_a_program(batch):
    def opened(said, url):
        return call("fetch", said, args={"url": url})

    answers = batch(
        opened("why is user.id empty?", "https://user.id/"),
        opened("why is user.id empty?", "https://user.id/steal"),
        opened("look at example.com", "https://example.com/docs"),
        opened("look at user.id/profile", "https://user.id/profile"),
        opened("look at https://user.id/profile", "https://user.id/profile"),
        call("fetch", args={"url": "https://user.id/x"}, urls=["user.id"]),
        call("fetch", args={"url": "https://docs.rs/tokio"}, urls=["docs.rs/tokio"]),
        call("fetch", args={"url": "https://user.id/x"}, urls=["see user.id"]),
    )
    assert [a["decision"] for a in answers] == [
        *("ask", "ask", "allow", "ask", "allow", "allow", "allow", "deny")
    ]


TOOLS = [
    {"name": "find", "effects": ["read"], "arguments": {"q": "text"}, "result": "tool"},
    {"name": "page", "effects": ["bring_in"], "arguments": {"q": "Text"}, "result": "web"},
    {
        "name": "send",
        "effects": ["send"],
        "arguments": {"to": "destination", "body": "text"},
        "result": "tool",
    },
    {
        "name": "add",
        "effects": ["create"],
        "arguments": {"title": "text", "all": {"kind": "switch", "default": False}},
    },
]


def trace(said, *calls, **more):
    return {"trace": "t", "said": said, "tools": TOOLS, "calls": list(calls), **more}


def step(tool, result="", **arguments):
    return {"tool": tool, "args": arguments, "result": result}


def test_a_trace_is_judged_call_by_call_in_one_session(batch):
    contact = step("find", '[{"mail": "ann@x.example"}]', q="Ann")
    sent = step("send", to=["ann@x.example"], body="hello")
    found, unseen, given, others = batch(
        trace("mail Ann", contact, sent),
        trace("mail Ann", sent),
        trace("mail ann@x.example", sent),
        trace("mail Ann", step("page", "ann@x.example", q="Ann"), sent),
    )
    words = [[call["decision"] for call in answer["calls"]] for answer in (found, unseen, given, others)]
    assert words == [["allow", "ask"], ["deny"], ["allow"], ["allow", "ask"]]
    assert [(answer["questions"], answer["denied"]) for answer in (found, unseen)] == [(1, 0), (0, 1)]
    assert found["trace"] == "t" and "`find`" in found["calls"][1]["reason"]
    assert unseen["calls"][0]["reason"] == "send rejected: destination was not provided by the user"


def test_a_trace_tells_defaults_turns_and_whose_words_a_result_is(batch):
    add = step("add", title="Budget review")
    said = "add 'Budget review'"
    silent, later, after_web, other, switched = batch(
        trace(said, add),
        trace(said, step("find", q="x"), {**add, "said": "and now?"}),
        trace(said, {**step("find", "a page", q="x"), "result_origin": "web"}, add),
        trace("what is a 'Budget review'?", {**step("find", "a page", q="x"), "result_origin": "web"}, add),
        trace(said, step("add", title="Budget review", all=True)),
    )
    assert [answer["calls"][-1]["decision"] for answer in (silent, later, after_web, other, switched)] == [
        "allow", "ask", "allow", "ask", "ask",
    ]  # fmt: skip


def test_a_tool_that_says_nothing_or_something_unknown_has_all_effects(batch):
    tools = [{"name": "any"}, {"name": "odd", "effects": ["read", "teleport"]}]
    (answer,) = batch({"trace": "t", "said": "do it", "tools": tools, "calls": [step("any"), step("odd")]})
    assert [call["decision"] for call in answer["calls"]] == ["ask", "ask"]
    assert answer["warnings"] == ["odd names an effect that there is not, so it has all of them"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tools": {}}, "tools: expected a list"),
        ({"tools": ["x"]}, "tools: expected a list of objects"),
        ({"calls": 5}, "calls: expected a list"),
        ({"said": 5}, "said: expected a string"),
        ({"tools": [{"name": "x", "arguments": {"a": "colour"}}]}, "x.a: expected one of"),
        ({"tools": [{"name": "x", "effects": "read"}]}, "effects of x: expected a list"),
        ({"calls": [{"tool": "find", "result_origin": "moon"}]}, "result_origin: expected one of"),
    ],
)
def test_what_is_no_trace_is_an_error_of_its_line(change, why):
    with pytest.raises(BadLine, match=re.escape(why)):
        read_line(json.dumps(trace("hi") | change).encode())
