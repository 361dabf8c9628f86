"""A grant is bound to the files its line executes: a call that changes one ends the grant."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from leeward.memory import changes
from leeward.runtime.app import Runtime
from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker
from leeward.security.permissions import Always
from leeward.security.ports import Answer
from leeward.security.session import Grant, Granted, Scope
from loading import rows_beside

CASES = rows_beside(__file__)
BOUND, FREE = CASES["bound"], CASES["free"]
NAMES = [case["name"] for case in BOUND]

CONFIG = "[tools.sandbox]\nauto_allow = false\n"
OTHER = "#!/bin/sh\necho two\n"
SCRIPT = "#!/bin/sh\necho one\n"
SINCE = "changed since you allowed it"


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "ws"
    made.mkdir()
    return made


def lay_out(ws: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = ws / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
        else:
            path.write_text(text.removeprefix("+x"))
            path.chmod(0o755 if text.startswith("+x") else 0o644)


async def writes(runtime: Runtime, path: str, text: str = OTHER) -> None:
    """A call of the model writes a file."""
    result = await runtime.call("write", {"path": path, "content": text}, asker=Asker.MODEL)
    assert result.error is None, result.shown


async def runs(runtime: Runtime, line: str):
    return await runtime.call("shell", {"command": line}, asker=Asker.MODEL)


class Person:
    """Says "always" to the first question about a line and no to those behind it; yes to all else."""

    def __init__(self, *replies: object) -> None:
        self.replies = list(replies) or [Answer.ALWAYS, Answer.NO]
        self.lines = []

    async def ask(self, question):
        if question.action.call.tool != "shell":
            return Answer.YES
        self.lines.append(question)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    @property
    def told(self) -> str:
        """What the last question said beside itself."""
        return "; ".join(f"{name}: {value}" for _, ask in self.lines[-1].asks for name, value in ask.facts)


@pytest.mark.parametrize("case", BOUND, ids=NAMES)
async def test_a_call_that_changes_what_a_line_runs_ends_its_grant(sessions, tmp_path, ws, case) -> None:
    """A person who changes it does not."""
    lay_out(ws, case["files"])
    person, changed = Person(), ws / case["changed"]
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, case["line"])
        before = changed.read_text() if changed.exists() else None
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text("the person's\n")
        await runs(runtime, case["line"])
        assert len(person.lines) == 1, "an answer that lasts is asked for once"
        changed.unlink() if before is None else changed.write_text(before)
        await writes(runtime, case["changed"])
        result = await runs(runtime, case["line"])
        assert len(person.lines) == 2 and result.error is not None
        told = case.get("told", case["changed"].rpartition("/")[2])
        assert SINCE in person.told and told in person.told


@pytest.mark.parametrize("case", FREE, ids=lambda case: case["name"])
async def test_what_a_line_does_not_run_by_name_may_change(sessions, tmp_path, ws, case) -> None:
    lay_out(ws, case["files"])
    person = Person()
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, case["line"])
        await writes(runtime, case["changed"], "other\n")
        await runs(runtime, case["line"])
        assert len(person.lines) == 1


async def test_a_link_that_leads_elsewhere_ends_the_grant(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x": "-> one.sh", "one.sh": "+x" + SCRIPT, "two.sh": "+x" + OTHER})
    person = Person(Answer.ALWAYS, Answer.YES, Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "./x")
        await runs(runtime, "ln -sfn two.sh x")
        assert (ws / "x").readlink() == Path("two.sh")
        await runs(runtime, "./x")
        assert len(person.lines) == 3 and SINCE in person.told


async def test_what_holds_again_what_was_allowed_is_allowed_again(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    person = Person()
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        await writes(runtime, "x.sh")
        await dispatch(runtime, parse("/undo"))
        assert (ws / "x.sh").read_text() == SCRIPT
        await runs(runtime, "sh x.sh")
        assert len(person.lines) == 1


async def test_what_a_formatter_makes_of_it_is_no_word_of_the_persons(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    person = Person()
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        await writes(runtime, "x.sh", "echo two")
        (ws / "x.sh").write_text("echo two\n")
        await runs(runtime, "sh x.sh")
        assert len(person.lines) == 2


async def test_a_new_answer_is_bound_to_what_it_was_given_for(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    person = Person(Answer.ALWAYS)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        await writes(runtime, "x.sh")
        await runs(runtime, "sh x.sh")
        await runs(runtime, "sh x.sh")
        (ws / "x.sh").write_text("echo the person's\n")
        await runs(runtime, "sh x.sh")
        assert len(person.lines) == 2


async def test_a_line_the_person_types_changes_what_is_theirs(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    person = Person()
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        await runtime.call("shell", {"command": "echo echo three > x.sh"}, asker=Asker.PERSON)
        assert "three" in (ws / "x.sh").read_text()
        await runs(runtime, "sh x.sh")
        assert len(person.lines) == 1


async def test_a_line_that_changes_its_own_script_is_asked_about_again(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": "echo '#' >> x.sh\n"})
    person = Person()
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        await runs(runtime, "sh x.sh")
        assert len(person.lines) == 2 and SINCE in person.told


@pytest.mark.parametrize("checkpoints", ["true", "false"])
async def test_what_nobody_looked_at_may_have_changed_too(sessions, tmp_path, ws, checkpoints) -> None:
    """What checkpoints leave out, and all where there are none, counts as changed by any line that ran."""
    lay_out(ws, {"node_modules/x.sh": SCRIPT})
    config = f"{CONFIG}[tools.shell]\ncheckpoints = {checkpoints}\n"
    person = Person(Answer.ALWAYS, Answer.YES, Answer.NO)
    async with sessions.session(tmp_path, config, approver=person) as runtime:
        await runs(runtime, "sh node_modules/x.sh")
        await runs(runtime, "cp /etc/hostname node_modules/x.sh")
        assert (ws / "node_modules" / "x.sh").read_text() != SCRIPT
        await runs(runtime, "sh node_modules/x.sh")
        assert len(person.lines) == 3 and SINCE in person.told


async def test_a_yes_is_to_what_the_script_held_when_it_was_asked(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})

    class Swapped(Person):
        async def ask(self, question):
            (ws / "x.sh").write_text("echo swapped\n")
            return await super().ask(question)

    async with sessions.session(tmp_path, CONFIG, approver=Swapped(Answer.YES)) as runtime:
        result = await runs(runtime, "sh x.sh")
        assert result.error is not None and result.error["rule"] == "changed"
        assert "swapped" not in result.shown


async def test_an_answer_without_files_is_bound_to_none(sessions, tmp_path, ws) -> None:
    """As those on record from before: they hold for the workspace's root."""
    lay_out(ws, {"x.sh": SCRIPT, "sub/x.sh": SCRIPT})
    person = Person(Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runtime.pipeline.note(Granted(1.0, Grant("g_1", "shell", "sh x.sh", Scope.SESSION)))
        await writes(runtime, "x.sh")
        assert (await runs(runtime, "sh x.sh")).error is None
        assert (await runs(runtime, "cd sub && sh x.sh")).error is not None


async def test_rules_of_the_configuration_are_bound_to_nothing(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    rule = "[[permissions.rules]]\ntool = 'shell'\nmatch = 'sh x.sh'\naction = 'allow'\n"
    person = Person(Answer.NO)
    async with sessions.session(tmp_path, CONFIG + rule, approver=person) as runtime:
        await writes(runtime, "x.sh")
        assert (await runs(runtime, "sh x.sh")).error is None and not person.lines


async def test_a_wide_answer_is_bound_to_what_it_lets_run(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"a.sh": SCRIPT, "b.sh": SCRIPT})
    person = Person(Always((("shell", "sh *.sh"),)), Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh a.sh")
        assert (await runs(runtime, "sh b.sh")).error is None
        await writes(runtime, "c.sh")
        assert (await runs(runtime, "sh c.sh")).error is not None and SINCE in person.told
        assert (await runs(runtime, "sh b.sh")).error is None


async def test_what_the_person_allows_by_a_command_is_what_lies_there_then(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    person = Person(Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await writes(runtime, "x.sh")
        await dispatch(runtime, parse("/permissions allow shell sh x.sh"))
        assert (await runs(runtime, "sh x.sh")).error is None
        await writes(runtime, "x.sh", "echo three\n")
        assert (await runs(runtime, "sh x.sh")).error is not None


# ------------------------------------------------------------------------------ sessions and processes

LASTING = Always((("shell", "sh x.sh"),), Scope.WORKSPACE)


async def test_another_session_and_another_process_know_who_changed_it(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    async with sessions.session(tmp_path, CONFIG, says=["hi"], approver=Person(LASTING)) as runtime:
        await runs(runtime, "sh x.sh")
        async with runtime.run("hello") as events:
            [event async for event in events]
        first = runtime.session_id
    async with sessions.session(tmp_path, CONFIG, approver=Person(Answer.NO)) as runtime:
        assert (await runs(runtime, "sh x.sh")).error is None
        await writes(runtime, "x.sh")
    person = Person(Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        assert (await runs(runtime, "sh x.sh")).error is not None and SINCE in person.told
        await runtime.resume(first)
        assert (await runs(runtime, "sh x.sh")).error is not None
        assert (await runtime.audit.verify()).problem is None


async def test_check_tells_that_a_grant_has_lapsed(sessions, tmp_path, ws, preloaded) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    async with sessions.session(tmp_path, CONFIG, approver=Person(LASTING)) as runtime:
        await runs(runtime, "sh x.sh")

    def check(rung: str):
        home = tmp_path.resolve() / "home"
        return preloaded.run(
            ["check", "shell", json.dumps({"command": "sh x.sh"}), "--rung", rung, "--output", "json"],
            cwd=ws,
            text=True,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
        )

    assert json.loads(check("real").stdout)["data"]["decision"] == "allow"
    async with sessions.session(tmp_path, CONFIG, approver=Person(Answer.NO)) as runtime:
        await writes(runtime, "x.sh")
    asked = json.loads(check("real").stdout)["data"]
    assert asked["decision"] == "ask" and SINCE in asked["lapsed"][0] and "x.sh" in asked["lapsed"][0]
    tried = json.loads(check("trial").stdout)["data"]
    assert (tried["decision"], tried["runs"]) == ("allow", "trial") and "x.sh" in tried["lapsed"][0]


_KILLED = """
import os, signal, sys, trio
sys.path.insert(0, sys.argv[1])
import sessions
from pathlib import Path
from leeward.security.call import Asker
from leeward.security.ports import Answer

async def main():
    folder = Path(sys.argv[2])
    person = sessions.Answers(Answer.YES)
    async with sessions.session(folder, sys.argv[3], approver=person) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.call, "shell", {"command": sys.argv[4]})
            while not (folder / "ws" / "written").exists():
                await trio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


async def test_what_a_killed_process_had_a_call_write_is_not_the_persons(sessions, tmp_path, ws) -> None:
    """It is killed when the file is written, and before anybody wrote down that it is."""
    lay_out(ws, {"x.sh": SCRIPT})
    async with sessions.session(tmp_path, CONFIG, approver=Person(LASTING)) as runtime:
        await runs(runtime, "sh x.sh")
    line = "echo echo two > x.sh; touch written; sleep 60"
    words = [sys.executable, "-c", _KILLED, str(Path(__file__).parent), str(tmp_path), CONFIG, line]
    ended = await run_child(words)
    assert ended == -signal.SIGKILL and "two" in (ws / "x.sh").read_text()
    person = Person(Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        assert (await runs(runtime, "sh x.sh")).error is not None and SINCE in person.told
    database = tmp_path / "home" / ".local" / "share" / "leeward" / "leeward.db"
    with closing(sqlite3.connect(database)) as connection:
        left = connection.execute("SELECT count(*) FROM call_change WHERE session IS NOT NULL")
        assert left.fetchone() == (0,), "that it may change anything ends with the process"


async def run_child(words: list[str]) -> int:
    finished = await trio.run_process(words, check=False, capture_stderr=True)
    assert finished.returncode < 0, finished.stderr.decode()
    return finished.returncode


async def test_a_full_memory_is_the_stricter_answer(sessions, tmp_path, ws, monkeypatch) -> None:
    monkeypatch.setattr(changes, "MOST_PATHS", 5)
    lay_out(ws, {"x.sh": SCRIPT, "y.sh": SCRIPT})
    person = Person(Answer.ALWAYS, Answer.ALWAYS, Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        await runs(runtime, "sh y.sh")
        await writes(runtime, "x.sh")
        for number in range(8):
            await writes(runtime, f"new{number}.txt", "x\n")
        assert (await runs(runtime, "sh x.sh")).error is not None, "forgotten is not unchanged"
        assert (await runs(runtime, "sh y.sh")).error is None, "what holds the same is the same"
        (ws / "y.sh").write_text(OTHER)
        assert (await runs(runtime, "sh y.sh")).error is not None


async def test_while_a_job_runs_what_differs_may_be_its_doing(sessions, tmp_path, ws) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    person = Person(Answer.ALWAYS, Answer.YES, Answer.NO)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        await runs(runtime, "sh x.sh")
        command = {"command": "sleep 600; touch z", "background": True}
        started = await runtime.call("shell", command, asker=Asker.MODEL)
        assert started.error is None, started.shown
        assert (await runs(runtime, "sh x.sh")).error is None
        (ws / "x.sh").write_text(OTHER)
        assert (await runs(runtime, "sh x.sh")).error is not None and SINCE in person.told


async def test_the_record_is_judged_again_as_it_was(sessions, tmp_path, ws, preloaded) -> None:
    lay_out(ws, {"x.sh": SCRIPT})
    async with sessions.session(tmp_path, CONFIG, approver=Person()) as runtime:
        await runs(runtime, "sh x.sh")
        await runs(runtime, "sh x.sh")
        await writes(runtime, "x.sh")
        await runs(runtime, "sh x.sh")
    home = tmp_path.resolve() / "home"
    env = {"HOME": str(home), "PATH": os.environ["PATH"], sessions.NO_TRIALS: "off"}
    ran = preloaded.run(["audit", "replay", "--output", "json"], cwd=ws, env=env, text=True)
    told = json.loads(ran.stdout)["data"]
    assert (told["decisions"], told["changed"], told["untold"]) == (4, 0, 0), ran.stdout
