"""The runtime for asyncio programs: FastAPI, Jupyter and their like.

Everything runs in the trio thread of `portal.py`; the caller's loop only waits. Cancelling a wait (a
time-out, a client that disconnects) cancels the work, and returns once trio is done with it: no process and
no task is left behind, and each call that had begun has an outcome on record.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from typing import Any, Protocol, TypeVar, Unpack

import trio

from leeward.security.call import Asker, ToolResult
from leeward.security.kinds import Json
from leeward.security.outcome import Picture
from leeward.security.ports import Question, Reply
from leeward.security.trust import TrustLevel
from leeward.security.url import Provenance

from ..app import Runtime, RuntimeOptions, RuntimeSession, SessionOptions
from ..events import RunEvent, TurnEnded
from ..sessions import ResumedSession
from .pending import PendingQuestions, hand_to, take_back
from .portal import Held, Job, Portal, acquire, pump, release

__all__ = ["AsyncioApprover", "AsyncioRuntime", "AsyncioSession"]

T = TypeVar("T")


class AsyncioApprover(Protocol):
    """Puts questions to a person, as a coroutine of the caller's loop."""

    async def ask(self, question: Question) -> Reply:
        """Return the person's answer, or `Answer.NOBODY` where nobody can be asked."""
        ...


class AsyncioSession:
    """One session; what each method does and raises is described at `leeward.RuntimeSession`."""

    def __init__(self, portal: Portal, session: RuntimeSession) -> None:
        self._portal = portal
        self._session = session

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._session.session_id

    async def new_session(self) -> None:
        """End this session and begin a new one, which knows nothing of it."""
        await self._do(self._session.new_session)

    async def turn(
        self, text: str, attached: str = "", pictures: tuple[Picture, ...] = (), *, continues: bool = False
    ) -> TurnEnded:
        """Run one turn on the person's words."""
        turn = self._session.turn
        return await self._do(partial(turn, text, attached, pictures, continues=continues))

    async def call(
        self, tool: str, arguments: Mapping[str, Json] | str, asker: Asker = Asker.MODEL
    ) -> ToolResult:
        """Run one call through the pipeline."""
        return await self._do(partial(self._session.call, tool, arguments, asker))

    async def give(self, text: str, provenance: Provenance) -> tuple[str, ...]:
        """Add the URLs in a text of the person's to the ledger; return them in canonical form."""
        return await self._do(partial(self._session.give, text, provenance))

    async def set_trust(self, tool: str, level: TrustLevel) -> None:
        """Set a tool's trust level for this session."""
        await self._do(partial(self._session.set_trust, tool, level))

    async def admit(self, text: str, kind: str, name: str = "") -> str:
        """Return text that is nobody's words fenced, to go along with a turn."""
        return await self._do(partial(self._session.admit, text, kind, name))

    async def resume(self, name: str = "", answers: Mapping[str, str] | None = None) -> ResumedSession:
        """Resume the session whose id begins so, or else the latest of this workspace."""
        return await self._do(partial(self._session.resume, name, answers))

    async def clear(self) -> None:
        """Forget conversation, URLs, labels and grants."""
        await self._do(self._session.clear)

    async def compact(self) -> bool:
        """Have the conversation summed up; return whether there was anything to sum up."""
        return await self._do(self._session.compact)

    async def switch_model(self, spec: str) -> None:
        """Have another model answer from the next turn on."""
        await self._do(partial(self._session.switch_model, spec))

    @asynccontextmanager
    async def run(self, text: str, attached: str = "") -> AsyncGenerator[AsyncIterator[RunEvent], None]:
        """Run one turn and iterate over its events; leaving the block cancels it and waits for its end."""
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        job = self._portal.start(partial(pump, self._session, text, attached, _in_loop(queue.put_nowait)))
        try:
            yield _events(queue, job)
        finally:
            job.cancel()
            await _settled(job.future)

    async def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        job = self._portal.start(work)
        return await _result(job.future, job)


class AsyncioRuntime(AsyncioSession):
    """What all sessions of a program share, and the first of them; see `leeward.Runtime`."""

    def __init__(self, portal: Portal, runtime: Runtime) -> None:
        super().__init__(portal, runtime)
        self._runtime = runtime
        self._questions: set[PendingQuestions] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, **options: Unpack[RuntimeOptions]) -> AsyncGenerator[AsyncioRuntime, None]:
        """Open a runtime, and close it at the end; the options are those of `leeward.Runtime.open`.

        `approver.ask` and `listener` are called in the caller's loop; tools run on trio.
        """
        async with (
            _acquired() as portal,
            _held(portal, partial(Runtime.open, **_from_loop(options))) as runtime,
        ):
            opened = cls(portal, runtime)
            try:
                opened._keep_refusals_of(options.get("approver"))
                yield opened
            finally:
                for questions in opened._questions:
                    take_back(questions)

    @asynccontextmanager
    async def session(self, **options: Unpack[SessionOptions]) -> AsyncGenerator[AsyncioSession, None]:
        """Begin another session beside the first; the options are those of `leeward.Runtime.session`."""
        self._keep_refusals_of(options.get("approver"))
        async with _held(self._portal, partial(self._runtime.session, **_from_loop(options))) as session:
            yield AsyncioSession(self._portal, session)

    async def note_refused_answer(
        self, why: str, *, session: str = "", call: str | None = None, digest: str = "", how: str = ""
    ) -> None:
        """Put on record that an answer to a question did not count; see `leeward.Runtime`."""
        note = self._runtime.note_refused_answer
        await self._do(partial(note, why, session=session, call=call, digest=digest, how=how))

    def _keep_refusals_of(self, approver: object) -> None:
        if isinstance(approver, PendingQuestions):
            hand_to(self, approver)
            self._questions.add(approver)


class _LoopApprover:
    """Asks an approver that belongs to an asyncio loop, from trio."""

    def __init__(self, loop: asyncio.AbstractEventLoop, approver: AsyncioApprover) -> None:
        self._loop = loop
        self._approver = approver

    async def ask(self, question: Question) -> Reply:
        """Return the answer; the coroutine is cancelled with the call it is about."""
        token, answered = trio.lowlevel.current_trio_token(), trio.Event()
        asked = asyncio.run_coroutine_threadsafe(self._approver.ask(question), self._loop)
        asked.add_done_callback(partial(_wake, token, answered))
        try:
            await answered.wait()
        finally:
            asked.cancel()
        return asked.result()


def _wake(token: trio.lowlevel.TrioToken, answered: trio.Event, _: object) -> None:
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(answered.set)


def _from_loop(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose callbacks run in the caller's loop."""
    given = dict(options)
    if given.get("approver") is not None:
        given["approver"] = _LoopApprover(asyncio.get_running_loop(), given["approver"])
    if given.get("listener") is not None:
        given["listener"] = _in_loop(given["listener"])
    return given


def _in_loop(function: Callable[[T], object]) -> Callable[[T], None]:
    """Return a function that calls another one in the caller's loop, from any thread."""
    loop = asyncio.get_running_loop()

    def call(value: T) -> None:
        # A loop that was closed meanwhile has nobody left who listens.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(function, value)

    return call


async def _events(queue: asyncio.Queue[RunEvent | None], job: Job[None]) -> AsyncIterator[RunEvent]:
    while (event := await queue.get()) is not None:
        yield event
    await _result(job.future, job)


@asynccontextmanager
async def _acquired() -> AsyncGenerator[Portal, None]:
    """Have a part in the trio thread; starting and ending it takes a moment, in which the loop goes on."""
    loop = asyncio.get_running_loop()
    acquiring = loop.run_in_executor(None, acquire)
    try:
        await _settled(acquiring)
        yield acquiring.result()
    finally:
        if acquiring.exception() is None:
            await _settled(loop.run_in_executor(None, release, acquiring.result()))


@asynccontextmanager
async def _held(
    portal: Portal, manager: Callable[[], AbstractAsyncContextManager[T]]
) -> AsyncGenerator[T, None]:
    """Keep a context of trio's open as long as the block lasts."""
    held = Held(portal, manager)
    value = await _result(held.entered, held.job)
    try:
        yield value
    finally:
        await _result(held.leave(), held.job)


async def _result(future: Future[T], job: Job[Any]) -> T:
    """Return what a future of a job holds; cancelling the caller cancels the job, and waits for its end."""
    wrapped = asyncio.wrap_future(future)
    wrapped.add_done_callback(_look)
    try:
        await asyncio.wait([wrapped])
    except asyncio.CancelledError:
        job.cancel()
        await _settled(job.future)
        raise
    return wrapped.result()


async def _settled(future: Future[Any] | asyncio.Future[Any]) -> None:
    """Wait until a future is done, however often the caller is cancelled meanwhile; that is raised then."""
    wrapped, cancelled = asyncio.wrap_future(future), None
    wrapped.add_done_callback(_look)
    with _shielded_from_anyio():
        while not wrapped.done():
            try:
                await asyncio.wait([wrapped])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


def _shielded_from_anyio() -> AbstractContextManager[object]:
    """Return a shield in programs that use anyio, such as FastAPI.

    A scope of anyio cancels its tasks again with each pass of the loop, and leaves out only what is in a
    shield of anyio's own: without one the loop spins, and holds up the thread it waits for.
    """
    anyio = sys.modules.get("anyio")
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)


def _look(done: asyncio.Future[Any]) -> None:
    """Take notice of an error that nobody waits for any more, or asyncio complains of it."""
    if not done.cancelled():
        done.exception()
