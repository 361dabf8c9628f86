"""`--key`: a run that was killed in a sub-agent tells its calls from those of the model that started it."""

from __future__ import annotations

import json
import time

import pytest

from chat_model import HELD, STORIES, call, say, serving
from leeward.memory.audit import event_of
from leeward.runtime.script.journal import _with_loose
from leeward.runtime.sessions import OpenCall
from leeward.security.call import ToolCall

RULES = '[[permissions.rules]]\ntool = "*"\naction = "allow"\n'
SCOUT = "---\ndescription: Does things.\ntools: '*'\nautonomy: full\n---\nYou do what you are asked for.\n"


@pytest.fixture
def killed(leeward, monkeypatch):
    """Kill a run while a sub-agent that ended a call waits; return what runs it again, and the model."""
    agents = leeward.home / ".config" / "leeward" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "scout.md").write_text(SCOUT)
    both = [call("agent", name="scout", task="sub now"), call("shell", command="echo real >> ledger")]
    monkeypatch.setitem(STORIES, "delegate", [both, [say("Done.")]])
    monkeypatch.setitem(
        STORIES, "sub", [[call("shell", command="echo sub >> log")], [HELD, say("Sub done.")]]
    )
    words = ("-p", "delegate now", "--key", "job")
    with serving() as model:
        leeward.configure(RULES + model.config())
        with leeward.start(*words) as process:
            while not any("tool" in {one["role"] for one in asked["messages"]} for asked in model.requests):
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            process.kill()
        model.release.set()
        yield lambda *more: leeward(*words, *more, "--output", "json"), model


def lines(leeward, name):
    path = leeward.workspace / name
    return path.read_text().split() if path.exists() else []


def test_what_a_sub_agent_had_done_is_named_beside_its_unknown_outcome(leeward, killed):
    again, _ = killed
    error = again().json["error"]
    assert error["code"] == "UNKNOWN_OUTCOME"
    (unknown,) = error["calls"]
    assert unknown["tool"] == "agent"
    (ended,) = unknown["ended"]
    assert (ended["tool"], ended["status"]) == ("shell", "ok") and "echo sub" in ended["arguments"]
    assert "would be done again with it: shell" in error["message"] and "echo sub" in error["message"]


@pytest.mark.parametrize(("answer", "subs"), [("skip", 1), ("repeat", 2)])
def test_a_call_that_never_ran_is_not_taken_for_one_of_a_sub_agent(leeward, killed, answer, subs):
    again, model = killed
    ran = again("--on-unknown", answer)
    assert ran.code == 0, ran.json["error"]
    assert lines(leeward, "ledger") == ["real"]
    assert len(lines(leeward, "log")) == subs, "once more only where the person wanted that"
    agent, shell = (one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool")
    assert "came to its end" not in shell
    assert ("not to be done again" in agent and "1 × shell (ok)" in agent) == (answer == "skip")


async def test_a_call_that_was_not_written_down_is_found_by_its_hash(sessions, tmp_path):
    """Two calls of one tool may both be open; which of them was decided, their arguments tell."""
    async with sessions.session(tmp_path) as runtime:
        for name in ("a", "b"):
            (runtime.places.workspace / name).write_text(name)
            await runtime.call("read", {"path": name})
        decided = [event_of(row.kind, row.body) for row in await sessions.rows(runtime, "decision")]
        known = [OpenCall(ToolCall(one.call, "read", ""), "ended", decided=one) for one in decided]

        def found(arguments, tool="read"):
            asked, loose = ToolCall("m1", tool, arguments), [*known]
            one = _with_loose(runtime, OpenCall(asked, None, has_begun=False), loose)
            assert one.call is asked and len(loose) == 2 - one.has_begun
            return one.decided and json.loads(one.decided.arguments)["path"]

        assert found('{"path": "b"}') == "b"
        assert found('{"path": "c"}') is None
        assert found('{"path": "[REDACTED:token:1234]"}') == "a", "nobody can tell what it was"
        assert found('{"path": "b"}', tool="list_directory") is None
