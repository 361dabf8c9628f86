"""`--key`: a slash command that broke off is not carried out again where it may have been, or was."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from chat_model import STORIES, say, serving
from leeward.memory.audit import AuditLogger
from leeward.memory.sessions import KeyedRuns
from leeward.security.ports import RecordError
from leeward.security.session import Decided, Finished

LINE = "/browse https://docs.example.com/deploy?run=1"


@pytest.fixture
def fetches(monkeypatch):
    """The decisions about calls, as they are written."""
    found = []
    append = AuditLogger.append

    async def counted(self, session, *events):
        found.extend(event for event in events if isinstance(event, Decided) and not event.hop)
        await append(self, session, *events)

    monkeypatch.setattr(AuditLogger, "append", counted)
    return found


@pytest.fixture
def broken_off(leeward, monkeypatch, fetches):
    """Run a script of one line with what a kill leaves: without some rows, and without outcomes."""
    monkeypatch.setitem(STORIES, "what", [[say("Nothing.")]])

    @contextmanager
    def lost(kinds, *, outcomes):
        row, append = KeyedRuns._row, AuditLogger.append

        def full(self, session, step, kind, content):
            if kind in kinds:
                raise RecordError("database or disk is full")
            return row(self, session, step, kind, content)

        async def without(self, session, *events):
            await append(self, session, *(one for one in events if not isinstance(one, Finished)))

        with monkeypatch.context() as patched:
            patched.setattr(KeyedRuns, "_row", full)
            if outcomes:
                patched.setattr(AuditLogger, "append", without)
            yield

    def broken_off(line, kinds, *, outcomes=False):
        words = ("--script", leeward.script(f"{line}\n!expect text e\n"), "--key", "job", "--output", "json")
        with lost({"slash", "done", *kinds}, outcomes=outcomes):
            assert leeward(*words).json["error"]["code"] == "STORAGE_ERROR"
        assert len(fetches) == 1
        return lambda *more: leeward(*words, *more)

    with serving() as model:
        leeward.configure(model.config())
        yield broken_off


@pytest.mark.parametrize(("answer", "calls"), [("skip", 1), ("repeat", 2)])
def test_a_page_that_may_have_been_opened_waits_for_an_answer(broken_off, fetches, answer, calls):
    again = broken_off(LINE, {"result"}, outcomes=True)
    for _ in range(2):
        error = again().json["error"]
        assert (error["code"], [one["tool"] for one in error["calls"]]) == ("UNKNOWN_OUTCOME", ["fetch"])
    ran = again("--on-unknown", answer)
    assert (ran.code, len(fetches)) == (0, calls), ran.json["error"]
    (step,) = ran.json["data"]["steps"]
    if answer == "skip":
        assert "it was not done again" in step["text"]
        assert [one["status"] for one in step["calls"]] == ["unknown"]
    assert (again().code, len(fetches)) == (0, calls), "and it is over"


def test_an_attempt_that_ended_before_the_answer_was_kept_asks_again(broken_off, fetches, monkeypatch):
    again = broken_off(LINE, {"result"}, outcomes=True)
    row = KeyedRuns._row

    def full(self, session, step, kind, content):
        if kind == "slash":
            raise RecordError("database or disk is full")
        return row(self, session, step, kind, content)

    with monkeypatch.context() as patched:
        patched.setattr(KeyedRuns, "_row", full)
        assert again("--on-unknown", "skip").json["error"]["code"] == "STORAGE_ERROR"
    assert (again().code, len(fetches)) == (6, 1)
    assert (again("--on-unknown", "skip").code, len(fetches)) == (0, 1)


@pytest.mark.parametrize(("kinds", "said"), [((), "fetch failed"), ({"result"}, "came to its end")])
def test_a_page_that_was_opened_is_not_opened_again(broken_off, fetches, kinds, said):
    ran = broken_off(LINE, kinds)()
    assert (ran.code, len(fetches)) == (0, 1), ran.json["error"]
    assert said in ran.json["data"]["steps"][0]["text"], ran.json["data"]
