"""Find the run of a key: see that it is about the same, how far it came, and that all of that is known.

What is to be done is written down before anything runs, and what comes of it by `journal.py`. Another attempt
stops here before a call of which nobody knows whether it ran, unless the person answers that beforehand.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leeward.memory.audit import Unfinished
from leeward.memory.sessions import KeyedRun, key_digest
from leeward.security.lazy import dataclass
from leeward.security.text import visible

from ..clock import SystemClock
from ..exits import CliError, Exit, Json
from ..sessions import EndedInside, LeftOff, SessionStore, lease, left_off, lock
from ..storage import audit_of, open_storage
from .recorded import OpenStep, RunOnRecord

if TYPE_CHECKING:
    from leeward.security.session import Decided

    from ..console import Startup
    from .answer_schema import AnswerSchema
    from .script import Script, ScriptStep

__all__ = [
    "FoundRun",
    "KeyedTask",
    "check_key",
    "found_run",
    "is_once_only",
    "is_over",
    "scripts_task",
    "task_of",
]

_LONGEST_KEY = 200
_LONGEST_ARGUMENTS = 160
_MOST_NAMED = 5
# They lead to another session than that of the key.
_ELSEWHERE = frozenset({"new", "resume", "fork"})
# What they did is nowhere on record before they are done, and twice is not once.
_NOT_TWICE = frozenset({"undo", "redo"})


@dataclass(frozen=True, slots=True)
class KeyedTask:
    """What is to be done under a key: the steps, and all that must be the same at another attempt.

    `about` holds the model and the workspace by name, what is read by digests. `part` tells runs apart that
    share a key.
    """

    key: str
    steps: tuple[ScriptStep, ...]
    about: Mapping[str, str]
    part: str = ""

    @property
    def digest(self) -> str:
        """What the key is stored as; no key holds the character between it and a part."""
        return key_digest(f"{self.key}\0{self.part}" if self.part else self.key)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that has a key, held by this process: where it is kept, and how far it came.

    `session` is "" where there was no attempt yet. `left` is None where nothing is to be done any more, or
    nothing was yet; `is_in_turn` tells that the session was left in the middle of a turn.
    """

    kept: SessionStore
    session: str
    record: RunOnRecord
    left: LeftOff | None = None
    is_in_turn: bool = False


def check_key(key: str) -> None:
    """See that a key is one that nobody takes for another.

    Raises:
        CliError: it is not.
    """
    if 0 < len(key) <= _LONGEST_KEY and all("!" <= char <= "~" for char in key):
        return
    why = f"--key wants 1 to {_LONGEST_KEY} visible ASCII characters, and no blanks"
    raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion="a name and a date: --key nightly-2026-03-02")


def task_of(key: str, script: Script, start: Startup, piped: str, form: AnswerSchema | None) -> KeyedTask:
    """Return what is to be done.

    Raises:
        CliError: a step leads out of the session.
    """
    for step in script.steps:
        if step.command in _ELSEWHERE:
            why = f"{step.file}:{step.line}: /{step.command} leads to another session, and a key is of one"
            raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, phase="script")
    about = {
        "prompt or script": _digest(_text(script)),
        "standard input": _digest(piped),
        "output schema": _digest(form.text if form is not None else ""),
        "model": start.loaded.config.llm.model,
        "workspace": str(start.places.workspace),
    }
    return KeyedTask(key, script.steps, about)


def scripts_task(key: str, scripts: Sequence[Script], start: Startup) -> KeyedTask:
    """Return what is to be done by several scripts together, each of which has a part of the key."""
    about = {
        "set of scripts": _digest(json.dumps([*map(_text, scripts)])),
        "model": start.loaded.config.llm.model,
        "workspace": str(start.places.workspace),
    }
    return KeyedTask(key, (), about)


async def is_over(task: KeyedTask, kept: SessionStore) -> bool:
    """Whether all of a run is on record.

    Raises:
        RecordError: the records cannot be read.
    """
    run = await kept.keys.find(task.digest)
    if run is None or not run.is_kept:
        return False
    return RunOnRecord.of(await kept.keys.steps(run.session)).is_over(len(task.steps))


@asynccontextmanager
async def found_run(
    task: KeyedTask, start: Startup, on_unknown: str | None
) -> AsyncGenerator[FoundRun, None]:
    """Take a key, and return how far its run came; it is given back at the end.

    `on_unknown` is the answer about calls whose outcome is unknown: `repeat` or `skip`.

    Raises:
        CliError: it is in use, was begun with something else, its session is gone or was resumed otherwise,
            or the outcome of a call is unknown and there is no answer.
        RecordError: the database cannot be used.
    """
    async with open_storage(start.places.database) as database:
        clock = SystemClock()
        held = lease(database.path, task.digest, f"the run of --key {visible(task.key)}")
        try:
            audit = audit_of(database, clock, start.loaded, start.places)
            kept = SessionStore.of(database, clock, audit, start.loaded.config)
            yield await _found(task, kept, on_unknown)
        finally:
            held.release()


def is_once_only(step: ScriptStep) -> bool:
    """Whether nobody could tell what came of a step that broke off."""
    return step.command in _NOT_TWICE


async def _found(task: KeyedTask, kept: SessionStore, on_unknown: str | None) -> FoundRun:
    run = await kept.keys.find(task.digest)
    if run is None:
        return FoundRun(kept, "", RunOnRecord())
    _see_same(task, run)
    record = RunOnRecord.of(await kept.keys.steps(run.session))
    if record.is_over(len(task.steps)):
        return FoundRun(kept, run.session, record)
    held = lock(kept.database, run.session)
    try:
        await kept.audit.settle(run.session)
    finally:
        held.release()
    begun = record.open
    left = await left_off(kept, run.session, tuple(begun.calls.values()) if begun is not None else ())
    unknown: list[Decided | Unfinished] = [*left.unknown]
    if begun is not None:
        unknown += _unknown_of_slash(task.steps[begun.number - 1], begun, run.session, left)
    is_in_turn = _is_in_turn(task, run.session, record, left)
    if unknown and on_unknown is None:
        raise _unknown(task, run.session, unknown, left.inside)
    return FoundRun(kept, run.session, record, left, is_in_turn)


def _see_same(task: KeyedTask, run: KeyedRun) -> None:
    """See that a run is about the same.

    Raises:
        CliError: it is not, or its session was deleted.
    """
    other = [name for name, value in task.about.items() if run.task.get(name) != value]
    if other:
        names = {name: run.task.get(name) for name in other if name in {"model", "workspace"}}
        was = "".join(f"; its {name} is {visible(str(value))}" for name, value in names.items())
        raise CliError(
            Exit.ARG_ERROR,
            "KEY_MISMATCH",
            f"--key {task.key} was begun with another {', '.join(other)}{was}",
            session=run.session,
            differs=other,
            suggestion="the same as then, or another key",
        )
    if not run.is_kept:
        raise CliError(
            Exit.PRECONDITION,
            "KEY_SPENT",
            f"the session of --key {task.key} was deleted, and with it what is on record of its steps",
            session=run.session,
            suggestion=f"use another key; leeward audit list --session {run.session} shows what it did",
        )


def _is_in_turn(task: KeyedTask, session: str, record: RunOnRecord, left: LeftOff) -> bool:
    """Return whether a session was left in the middle of a turn, by the turns on record.

    Raises:
        CliError: it was resumed otherwise meanwhile.
    """
    begun = record.open
    last = record.done[max(record.done)].turn if record.done else 0
    last = begun.outcome.turn if begun is not None else last
    is_in_turn = begun is not None and left.turn == last + 1
    if record.moved or (left.turn != last and not is_in_turn):
        raise CliError(
            Exit.PRECONDITION,
            "KEY_SESSION_MOVED",
            f"session {session} of --key {task.key} was resumed outside of its run",
            session=session,
            suggestion="use another key",
        )
    return is_in_turn


def _unknown_of_slash(
    step: ScriptStep, begun: OpenStep, session: str, left: LeftOff
) -> Iterator[Decided | Unfinished]:
    """Yield what nobody knows of a slash command that has no answer on record."""
    if step.slash is None or begun.outcome.slash is not None:
        return
    if is_once_only(step):
        yield Unfinished(session, "", step.text, begun.outcome.at, "", "")
    for one in left.written:
        if one.decided is not None and one.answer is None and one.decided not in left.unknown:
            yield one.decided


def _unknown(
    task: KeyedTask,
    session: str,
    unknown: Sequence[Decided | Unfinished],
    inside: Mapping[str, Sequence[EndedInside]],
) -> CliError:
    lines = [_unknown_line(one, inside.get(one.call, ())) for one in unknown[:_MOST_NAMED]]
    more = len(unknown) - len(lines)
    lines += [f"and {more} more"] if more else []
    return CliError(
        Exit.UNKNOWN_OUTCOME,
        "UNKNOWN_OUTCOME",
        f"--key {task.key}: the run broke off, and nobody knows what came of: {'; '.join(lines)}",
        session=session,
        calls=[_unknown_json(one, inside.get(one.call, ())) for one in unknown],
        suggestion="look whether it was done, then: --on-unknown skip (not again), or repeat (once more)",
    )


def _text(script: Script) -> str:
    """Return the steps so that two scripts have the same text only if they do the same."""
    return json.dumps(
        [
            [step.text, step.slash is not None, [[one.word, one.value, one.detail] for one in step.expected]]
            for step in script.steps
        ]
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unknown_line(unknown: Decided | Unfinished, ended: Sequence[EndedInside]) -> str:
    """Name a call or a step, when it began, and what of it had ended."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unknown.at))
    line = f"{_what(unknown)}, begun {at}"
    if not ended:
        return line
    done = [f"{_what(one.decided)} ({one.status.value})" for one in ended[:_MOST_NAMED]]
    done += [f"{len(ended) - len(done)} more"] if len(ended) > len(done) else []
    return f"{line}, in which these ended, and would be done again with it: {', '.join(done)}"


def _what(unknown: Decided | Unfinished) -> str:
    arguments = visible(unknown.arguments)
    shown = arguments if len(arguments) <= _LONGEST_ARGUMENTS else f"{arguments[:_LONGEST_ARGUMENTS]}…"
    return " ".join(filter(None, (visible(unknown.tool), shown)))


def _unknown_json(unknown: Decided | Unfinished, ended: Sequence[EndedInside]) -> dict[str, Json]:
    inside: list[Json] = [{**_call_json(one.decided), "status": one.status.value} for one in ended]
    return {**_call_json(unknown), **({"ended": inside} if inside else {})}


def _call_json(call: Decided | Unfinished) -> dict[str, Json]:
    return {name: getattr(call, name) for name in ("call", "tool", "arguments", "at")}
