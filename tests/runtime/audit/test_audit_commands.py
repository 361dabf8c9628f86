"""`leeward audit list|show|why|verify`, as a person or a program runs them."""

from __future__ import annotations

import argparse
import json
import sqlite3
from contextlib import closing

import pytest

from leeward.runtime.audit.why import Explanation, remedies
from leeward.runtime.cli.main import moment
from leeward.security.call import Status
from leeward.security.pipeline import GATES
from leeward.security.session import ActionRecord, Decided, Finished, GateVerdict
from loading import rows_beside

ROWS = rows_beside(__file__)

SHELL = '{"command": "git push origin main"}'
HOSTILE = "\x1b]0;owned\x07\u202edetsurt\nDENIED by nobody"


@pytest.fixture
def lived(leeward):
    """An audit with a call that ran, one that nobody was there to allow, and one that was refused."""
    leeward.configure(
        '[[permissions.rules]]\ntool = "write"\nmatch = "*.lock"\naction = "deny"\n[agent]\nmax_turns = 9\n'
    )
    calls = [
        leeward("call", tool, arguments, "--output", "json").json["meta"]["call"]
        for tool, arguments in (
            ("read", '{"path": "notes.md"}'),
            ("shell", SHELL),
            ("write", '{"path": "a.lock", "content": ""}'),
            ("fetch", '{"url": "https://a.example/"}'),
        )
    ]
    return leeward, calls


def records(ran) -> list:
    return ran.json["data"]["records"]


# ------------------------------------------------------------------ list and show


def test_what_is_listed_is_what_was_asked_for(lived):
    leeward, (read, shell, write, fetch) = lived

    def listed(*words):
        return [(r["kind"], r["call"]) for r in records(leeward("audit", "list", "--output", "json", *words))]

    assert listed("--tool", "read") == [("decision", read), ("outcome", read)]
    assert listed("--denied") == [("decision", shell), ("decision", write), ("decision", fetch)]
    assert listed("--denied", "--tool", "write") == [("decision", write)]
    assert listed("--denied", "--limit", "1") == [("decision", fetch)]
    assert listed("--kind", "outcome", "--kind", "egress") == [("outcome", read), ("egress", fetch)]
    assert listed("--since", "1h") == listed() and listed("--since", "2999-01-01") == []
    session = records(leeward("audit", "list", "--tool", "shell", "--output", "json"))[0]["session"]
    assert {
        r["session"] for r in records(leeward("audit", "list", "--session", session, "--output", "json"))
    } == {session}
    assert listed("--egress") == [("egress", fetch)]


def test_a_kind_that_is_none_is_a_mistake_and_not_an_empty_list(lived):
    leeward, _ = lived
    ran = leeward("audit", "list", "--kind", "decisions", "--output", "json")
    assert (ran.code, ran.json["error"]["code"], ran.json["error"]["suggestion"]) == (
        2,
        "ARG_ERROR",
        "decision",
    )


@pytest.mark.parametrize(
    ("text", "at"),
    [("30s", 970), ("2m", 880), ("1h", -2600), ("1w", -603_800), ("1970-01-02T00:00:00+00:00", 86_400)],
)
def test_since_is_a_span_or_a_date(text, at):
    assert moment(text, lambda: 1000.0) == at


@pytest.mark.parametrize(
    "text", ["", "soon", "-1h", "1.5h", "1y", "nan", "99999-01-01", "2026-13-01", "1h2m"]
)
def test_what_is_no_time_is_a_usage_error(leeward, text):
    with pytest.raises(argparse.ArgumentTypeError):
        moment(text)
    assert leeward("audit", "list", f"--since={text}").code == 2


def test_show_takes_the_beginning_of_an_id_and_last(lived):
    leeward, (*_, fetch) = lived
    for name in (fetch, fetch[:14], "last"):
        assert {r["call"] for r in records(leeward("audit", "show", name, "--output", "json"))} == {fetch}
    assert leeward("audit", "show", "call_nothing").code == 5


@pytest.mark.parametrize(
    "words",
    [("show", "x"), ("why",), ("why", "last"), ("verify",), ("tail",), ("export",), ("replay",), ("stats",)],
)
def test_where_nothing_was_recorded_nothing_is_made(leeward, words):
    ran = leeward("audit", *words)
    assert (ran.code, ran.out) == (5, "") and not leeward.data.exists()
    assert leeward("audit", "list").code == 0 and not leeward.data.exists()


# ------------------------------------------------------------------ why


def test_why_without_a_call_is_about_the_last_that_was_refused_or_asked_about(lived):
    leeward, (read, _, _, fetch) = lived
    leeward("call", "read", '{"path": "notes.md"}')
    assert leeward("audit", "why", "--output", "json").json["data"]["call"] == fetch
    assert leeward("audit", "why", "last", "--output", "json").json["data"]["call"] not in {fetch, read}


def test_a_refusal_is_explained_gate_by_gate(lived):
    leeward, (_, _, write, _) = lived
    ran = leeward("audit", "why", write)
    told = ran.out.partition("DENIED")[2].partition("what would")[0].splitlines()
    gates = [line.split()[0] for line in told if line.startswith("  ") and line[2] != " "]
    assert gates == [gate.__name__ for gate in GATES]
    assert (
        "DENIED by permissions (deny write *.lock at config.toml:1): a permission rule forbids this"
        in ran.out
    )
    assert "narrow or remove that rule" in ran.out and "outcome: it was not run" in ran.out
    told = leeward("audit", "why", write, "--output", "json").json["data"]
    assert told["decision"]["gate"] == "permissions" and told["outcome"] is None
    assert [said["gate"] for said in told["decision"]["words"]] == gates
    assert (
        next(said for said in told["decision"]["words"] if said["word"] == "deny")["where"] == "config.toml:1"
    )


def test_a_question_nobody_answered_says_which_answers_in_advance_there_are(lived):
    leeward, (_, shell, _, _) = lived
    out = leeward("audit", "why", shell[:15]).out
    assert "NOT RUN, nobody was there to answer" in out
    assert "for this session: /permissions allow shell git push origin main" in out
    assert '{ tool = "shell", match = "git push origin main", action = "allow" }' in out
    assert "autonomy full (permissions.autonomy, not set)" in out
    # And what it says is true: the rule, and the autonomy, answer the question.
    leeward.configure(
        '[[permissions.rules]]\ntool = "shell"\nmatch = "git push origin main"\naction = "allow"\n'
    )
    assert leeward("check", "shell", SHELL).code == 0
    leeward.configure("")
    assert (
        leeward("check", "shell", SHELL).code == 4
        and leeward("check", "shell", SHELL, "--autonomy", "full").code == 0
    )


def test_a_call_that_ran_says_what_came_of_it(lived):
    leeward, (read, *_) = lived
    out = leeward("audit", "why", read).out
    assert "ALLOWED: nothing spoke against it" in out and "what would have allowed it" not in out
    assert "outcome: ok, 26 bytes" in out
    assert leeward("audit", "why", read, "--output", "json").json["data"]["would_allow"] == []


def test_an_ambiguous_beginning_is_not_guessed_at(lived):
    leeward, _ = lived
    ran = leeward("audit", "why", "call_", "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR") and "4 calls" in ran.json["error"][
        "message"
    ]


def test_what_a_model_wrote_is_spelled_out():
    decided = Decided(
        1.0, "c", HOSTILE, "d", False, "g", HOSTILE, "X", HOSTILE, None, HOSTILE,
        (GateVerdict("g", "deny", HOSTILE, HOSTILE, "", HOSTILE, facts=((HOSTILE, HOSTILE),)),),
        HOSTILE, model=HOSTILE, asker="model", trust_from=HOSTILE, reading=ActionRecord(hidden=(HOSTILE,)),
    )  # fmt: skip
    finished = Finished(1.0, "c", HOSTILE, "d", Status.OK, overflow=HOSTILE, detail=HOSTILE)
    for one in (decided, Decided(**{**{f: getattr(decided, f) for f in Decided.__slots__}, "allowed": True})):
        lines = list(Explanation("c", HOSTILE, None, one, (decided,), finished, {}).lines())
        assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()]
        assert not any(line.startswith("DENIED by nobody") for line in lines)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (GateVerdict("paths", "deny", "secret"), "nothing: no tool reads secret files"),
        (GateVerdict("budget", "deny", "calls_per_turn"), "agent.max_tool_calls_per_turn, set at c.toml:4"),
        (
            GateVerdict("a_gate_of_tomorrow", "deny", "x"),
            "nothing: denials cannot be pre-approved",
        ),
        (GateVerdict("known", "deny", "unknown_tool", suggestion="read"), "known suggests: read"),
        (GateVerdict("anomaly", "ask", "breaker", force=True), "needs an answer from a person"),
        (
            GateVerdict("permissions", "ask", "ask write at c.toml:9", where="c.toml:9", own_rule=True),
            "your own ask rule (c.toml:9) outweighs it",
        ),
    ],
)
def test_what_would_have_helped(said, expected):
    decided = Decided(
        1.0,
        "c",
        "write",
        "d",
        False,
        said.gate,
        said.rule,
        words=(said,),
        always=(("write", "a", None, None),),
    )
    told = remedies(decided, {"agent.max_tool_calls_per_turn": "c.toml:4"})
    assert any(expected in line for line in told), told
    # A question only somebody present may answer has no other answer, and a refusal none of the rest.
    assert any("an allow rule" in line for line in told) is (
        said.word == "ask" and not said.force and not said.own_rule
    )


def test_every_gate_has_something_to_be_said_about_it():
    for gate in GATES:
        decided = Decided(
            1.0,
            "c",
            "t",
            "d",
            False,
            gate.__name__,
            "any",
            words=(GateVerdict(gate.__name__, "deny", "any"),),
        )
        assert len(remedies(decided, {})) == 1


def test_in_the_chat_it_is_about_this_session(leeward):
    leeward("call", "read", '{"path": "/etc/shadow"}')
    said = leeward("--script", leeward.script("/why\n"), "--model", "offline", "--output", "json").json[
        "error"
    ]["message"]
    assert "no call was refused or asked about yet" in said
    script = "guess the website of x\nread notes.md\n/why\n/audit why last\n/why call_\n"
    *_, why, last, many = (
        e
        for e in leeward("--script", leeward.script(script), "--model", "offline", "--output", "jsonl").lines
        if e["type"] == "slash"
    )
    assert "DENIED by grounding (not_provided)" in why["text"] and "write it in a message" in why["text"]
    assert "ALLOWED" in last["text"] and "read as" in last["text"]
    assert many["failed"] and "2 calls" in many["text"]


# ------------------------------------------------------------------ verify


def test_a_whole_audit_is_verified_and_its_head_printed(lived):
    leeward, _ = lived
    told = leeward("audit", "verify", "--output", "json").json
    assert told["ok"] and told["data"]["problem"] is None and told["data"]["heads"] == 4
    head = told["data"]["head"]
    ran = leeward("audit", "verify", "--head", head)
    assert (
        (ran.code, ran.err) == (0, "") and head in ran.out and f"{told['data']['records']} records" in ran.out
    )
    kept = leeward.home / "heads.txt"
    kept.write_text(f"{head}\n", encoding="utf-8")
    assert leeward("audit", "verify", "--head", str(kept)).code == 0


TAMPERED = ROWS["tampered"]


@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_tampered_with_is_found_and_named(lived, how):
    leeward, _ = lived
    head = leeward("audit", "verify", "--output", "json").json["data"]["head"]
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as file, file:
        file.execute(TAMPERED[how])
    file.close()
    ran = leeward("audit", "verify", "--head", head, "--output", "json")
    assert ran.code == 1 and ran.json["error"]["code"] == "AUDIT_BROKEN"
    problem = ran.json["data"]["problem"]
    assert problem["seq"] > 0 and problem["kind"] in ran.json["error"]["message"]
    text = leeward("audit", "verify", "--head", head)
    assert text.code == 1 and f"record {problem['seq']}" in text.err


@pytest.mark.parametrize("head", ["leeward-head 1 3 zz", "/nonexistent/file", ""])
def test_what_is_no_head_is_a_usage_error(lived, head):
    leeward, _ = lived
    ran = leeward("audit", "verify", f"--head={head}", "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR")


def test_no_form_of_any_action_holds_an_escape(lived):
    leeward, _ = lived
    leeward("call", "read", json.dumps({"path": HOSTILE.replace("\n", "")}))
    for words in (("list",), ("show", "last"), ("why",), ("stats",), ("replay",), ("verify",)):
        for form in ("json", "jsonl", "text"):
            out = leeward("audit", *words, "--output", form).out
            assert "\x1b" not in out and "\u202e" not in out and "\x07" not in out
