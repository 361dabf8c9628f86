"""The runtime for scripts and threads without a loop: the same sessions, with methods that block.

    with leeward.sync.open() as runtime:
        print(runtime.turn("read notes.txt").text)

Everything runs in the trio thread of `portal.py`. Ctrl-C while a method blocks cancels what it waits for, and
is raised once that has ended.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, Unpack

import trio

from leeward.security.call import Asker, ToolResult
from leeward.security.kinds import Json
from leeward.security.outcome import Picture
from leeward.security.ports import Question, Reply
from leeward.security.trust import TrustLevel
from leeward.security.url import Provenance

from ..app import Runtime, RuntimeSession, RuntimeSettings, SessionSettings
from ..events import RunEvent, TurnEnded
from ..sessions import ResumedSession
from .portal import Held, Job, Portal, acquire, pump, release

__all__ = [
    "BlockingApprover",
    "BlockingRuntime",
    "BlockingRuntimeOptions",
    "BlockingSession",
    "BlockingSessionOptions",
    "open_blocking",
]

T = TypeVar("T")


class BlockingApprover(Protocol):
    """Puts questions to a person, in a thread of its own."""

    def ask(self, question: Question) -> Reply:
        """Return the person's answer, or `Answer.NOBODY` where nobody can be asked."""
        ...


class BlockingSessionOptions(SessionSettings, total=False):
    """The options of `leeward.Runtime.session`, with an approver that blocks."""

    approver: BlockingApprover | None


class BlockingRuntimeOptions(RuntimeSettings, total=False):
    """The options of `leeward.Runtime.open`, with an approver that blocks."""

    approver: BlockingApprover | None


class BlockingSession:
    """One session; what each method does and raises is described at `leeward.RuntimeSession`."""

    def __init__(self, portal: Portal, session: RuntimeSession) -> None:
        self._portal = portal
        self._session = session

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._session.session_id

    def new_session(self) -> None:
        """End this session and begin a new one, which knows nothing of it."""
        self._do(self._session.new_session)

    def turn(
        self, text: str, attached: str = "", pictures: tuple[Picture, ...] = (), *, continues: bool = False
    ) -> TurnEnded:
        """Run one turn on the person's words."""
        turn = self._session.turn
        return self._do(partial(turn, text, attached, pictures, continues=continues))

    def call(self, tool: str, arguments: Mapping[str, Json] | str, asker: Asker = Asker.MODEL) -> ToolResult:
        """Run one call through the pipeline."""
        return self._do(partial(self._session.call, tool, arguments, asker))

    def give(self, text: str, provenance: Provenance) -> tuple[str, ...]:
        """Add the URLs in a text of the person's to the ledger; return them in canonical form."""
        return self._do(partial(self._session.give, text, provenance))

    def set_trust(self, tool: str, level: TrustLevel) -> None:
        """Set a tool's trust level for this session."""
        self._do(partial(self._session.set_trust, tool, level))

    def admit(self, text: str, kind: str, name: str = "") -> str:
        """Return text that is nobody's words fenced, to go along with a turn."""
        return self._do(partial(self._session.admit, text, kind, name))

    def resume(self, name: str = "", answers: Mapping[str, str] | None = None) -> ResumedSession:
        """Resume the session whose id begins so, or else the latest of this workspace."""
        return self._do(partial(self._session.resume, name, answers))

    def clear(self) -> None:
        """Forget conversation, URLs, labels and grants."""
        self._do(self._session.clear)

    def compact(self) -> bool:
        """Have the conversation summed up; return whether there was anything to sum up."""
        return self._do(self._session.compact)

    def switch_model(self, spec: str) -> None:
        """Have another model answer from the next turn on."""
        self._do(partial(self._session.switch_model, spec))

    @contextmanager
    def run(self, text: str, attached: str = "") -> Iterator[Iterator[RunEvent]]:
        """Run one turn and iterate over its events; leaving the block cancels it and waits for its end."""
        events: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        job = self._portal.start(partial(pump, self._session, text, attached, events.put))
        try:
            yield _events(events, job)
        finally:
            job.cancel()
            wait([job.future])

    def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        job = self._portal.start(work)
        return _result(job.future, job)


class BlockingRuntime(BlockingSession):
    """What all sessions of a program share, and the first of them; see `leeward.Runtime`."""

    def __init__(self, portal: Portal, runtime: Runtime) -> None:
        super().__init__(portal, runtime)
        self._runtime = runtime

    @classmethod
    @contextmanager
    def open(cls, **options: Unpack[BlockingRuntimeOptions]) -> Iterator[BlockingRuntime]:
        """Open a runtime, and close it at the end; the options are those of `leeward.Runtime.open`.

        `approver.ask` is called in a thread of its own, `listener` in the trio thread; tools run on trio.
        """
        portal = acquire()
        try:
            with _held(portal, partial(Runtime.open, **_from_thread(options))) as runtime:
                yield cls(portal, runtime)
        finally:
            release(portal)

    @contextmanager
    def session(self, **options: Unpack[BlockingSessionOptions]) -> Iterator[BlockingSession]:
        """Begin another session beside the first; the options are those of `leeward.Runtime.session`."""
        with _held(self._portal, partial(self._runtime.session, **_from_thread(options))) as session:
            yield BlockingSession(self._portal, session)

    def note_refused_answer(
        self, why: str, *, session: str = "", call: str | None = None, digest: str = "", how: str = ""
    ) -> None:
        """Put on record that an answer to a question did not count; see `leeward.Runtime`."""
        note = self._runtime.note_refused_answer
        self._do(partial(note, why, session=session, call=call, digest=digest, how=how))


def open_blocking(
    **options: Unpack[BlockingRuntimeOptions],
) -> AbstractContextManager[BlockingRuntime]:
    """Open a runtime, and close it at the end: a shorter name for `Runtime.open`."""
    return BlockingRuntime.open(**options)


# Trio's own limit is for work: questions that wait for a person must not hold up everything else.
_PERSONS = trio.CapacityLimiter(math.inf)


class _ThreadApprover:
    """Asks an approver that blocks, from trio."""

    def __init__(self, approver: BlockingApprover) -> None:
        self._approver = approver

    async def ask(self, question: Question) -> Reply:
        """Return the answer; if the call is cancelled meanwhile, the thread is abandoned."""
        ask = self._approver.ask
        return await trio.to_thread.run_sync(ask, question, abandon_on_cancel=True, limiter=_PERSONS)


def _from_thread(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose approver may block."""
    given = dict(options)
    if given.get("approver") is not None:
        given["approver"] = _ThreadApprover(given["approver"])
    return given


def _events(events: queue.SimpleQueue[RunEvent | None], job: Job[None]) -> Iterator[RunEvent]:
    while (event := events.get()) is not None:
        yield event
    _result(job.future, job)


@contextmanager
def _held(portal: Portal, manager: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Keep a context of trio's open as long as the block lasts."""
    held = Held(portal, manager)
    value = _result(held.entered, held.job)
    try:
        yield value
    finally:
        _result(held.leave(), held.job)


def _result(future: Future[T], job: Job[Any]) -> T:
    """Return what a future of a job holds; an interrupted caller cancels the job and waits for its end."""
    try:
        wait([future])
    except BaseException:
        job.cancel()
        wait([job.future])
        raise
    return future.result()
