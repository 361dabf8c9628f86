"""`--key`: what an attempt that resumes a run is allowed, and what of its session may not have changed."""

from __future__ import annotations

import time

import pytest

from chat_model import HELD, STORIES, call, say, serving
from leeward.memory.sessions import key_digest
from leeward.runtime.sessions import lease

PLANTED = "#!/bin/sh\necho planted > planted.txt\n"
OTHER = "[tools.shell]\nmax_jobs = 3\n"


@pytest.fixture
def model(leeward, monkeypatch):
    """A model that writes over `build.sh`, runs it, or waits for `release`."""
    monkeypatch.setitem(
        STORIES, "plant", [[call("write", path="build.sh", content=PLANTED)], [say("Written.")]]
    )
    monkeypatch.setitem(STORIES, "build", [[call("shell", command="sh build.sh")], [say("Built.")]])
    monkeypatch.setitem(STORIES, "hold", [[say("Waiting, "), HELD, say("done.")]])
    (leeward.workspace / "build.sh").write_text("#!/bin/sh\necho built >> built.txt\n")
    with serving() as server:
        leeward.configure(server.config())
        yield server


@pytest.fixture
def broken_off(leeward, model):
    """Kill a script with a key when the model is asked to hold; what runs it again returns the envelope."""

    def broken_off(text):
        words = ("--script", leeward.script(text), "--key", "job")
        with leeward.start(*words) as process:
            while not any("hold now" in str(request["messages"][-1]) for request in model.requests):
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            process.kill()
        model.release.set()
        return lambda: leeward(*words, "--output", "json")

    return broken_off


def gates(ran):
    """The gate that refused each call of each step, None where it ran."""
    return [[one["gate"] for one in step["calls"]] for step in ran.json["data"]["steps"]]


def test_a_grant_that_lapsed_covers_what_it_covered_when_it_was_given(leeward, model, broken_off):
    """Of what the model wrote meanwhile, the person allowed nothing."""
    text = (
        "!approve shell sh build.sh\n!approve write *\nbuild now\nplant now\nbuild now\nhold now\nbuild now\n"
    )
    again = broken_off(text)
    leeward.configure(model.config() + OTHER)
    ran = again()
    assert gates(ran) == [[], [], [None], [None], ["commands"], [], ["commands"]], ran.json["error"]
    assert not (leeward.workspace / "planted.txt").exists()


def test_a_grant_that_lapsed_still_allows_what_nobody_changed(leeward, model, broken_off):
    again = broken_off("!approve shell sh build.sh\nhold now\nbuild now\n")
    leeward.configure(model.config() + OTHER)
    assert gates(again()) == [[], [], [None]]
    assert (leeward.workspace / "built.txt").exists()


@pytest.mark.parametrize("takes_back", ["/clear", "/permissions revoke g_"])
def test_what_was_forgotten_or_taken_back_is_not_given_again(leeward, model, broken_off, takes_back):
    text = f"!approve write *\n{takes_back}\n/plan look at https://docs.example.com/a\n/clear\n/plan drop\n"
    again = broken_off(f"{text}hold now\nplant now\n/permissions\n/browse\n")
    leeward.configure(model.config() + OTHER)
    ran = again()
    assert gates(ran)[6] == ["permissions"], ran.json["error"]
    assert "planted" not in (leeward.workspace / "build.sh").read_text()
    assert "docs.example.com" not in ran.json["data"]["steps"][8]["text"]


def test_a_session_that_was_resumed_without_a_turn_is_not_mixed(leeward, broken_off):
    """What was allowed there was not allowed to the run."""
    again = broken_off("hold now\nplant now\n")
    session = leeward("sessions", "list", "--output", "json").json["data"]["sessions"][0]["id"]
    other = leeward.home / "other.leeward"
    other.write_text("/permissions allow write *\n")
    words = ("--script", str(other), "--resume", session)
    held = lease(leeward.data / "leeward.db", key_digest("job"), "the run of --key job")
    assert leeward(*words).code == 4, "the run is at work, and has not opened its session yet"
    held.release()
    assert leeward(*words).code == 0
    ran = again()
    assert (ran.code, ran.json["error"]["code"]) == (4, "KEY_SESSION_MOVED")
    assert "planted" not in (leeward.workspace / "build.sh").read_text()


def test_a_run_that_is_over_gives_its_answer_though_its_session_was_resumed(leeward, broken_off):
    again = broken_off("hold now\n")
    first = again()
    assert leeward("-p", "ferry", "--resume", first.json["data"]["session"]).code == 0
    (step,) = first.json["data"]["steps"]
    assert again().json["data"]["steps"] == [step | {"recorded": True}]
