"""Run several scripts in one process and one database, so many at once, each in a session of its own.

A script that fails, or never ends, leaves the others alone: each has its own end, and the command ends as the
worst of them. What stops the command (a signal, the clock) stops all, and closes all.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass
from leeward.security.ports import RecordError

from ..app import Runtime, RuntimeSession
from ..console import internal_error, storage_error
from ..events import Alert, RunEvent
from ..exits import CliError, Exit, Json
from ..printer import plain
from .headless import HeadlessRun, Listener, started
from .keyed import found_run, is_over, scripts_task, task_of
from .lanes import FilePrinter, Lanes
from .report import Report, Suite
from .script import Script, load_script

if TYPE_CHECKING:
    from ..console import Startup
    from ..options import Options
    from ..printer import Printer

__all__ = ["run_scripts"]


async def run_scripts(options: Options, printer: Printer) -> Exit:
    """Run the scripts of `--script`; nothing is opened before all of them were read."""
    scripts = [
        await trio.to_thread.run_sync(load_script, name, abandon_on_cancel=True) for name in options.scripts
    ]
    start = started(options, printer)
    report = Report(options.report, scripts) if options.report is not None else None
    suites = report.suites if report is not None else [None] * len(scripts)
    lanes = Lanes(len(scripts), printer.lines, printer.aside)
    printers = [FilePrinter(printer, one.name, lanes.streams(number)) for number, one in enumerate(scripts)]
    jobs = [_Job(*one) for one in zip(scripts, printers, suites, range(len(scripts)), strict=True)]
    printer.so_far = lambda: _data(printers)
    with report.written() if report is not None else nullcontext():
        try:
            async with _opened(scripts, start, options, printer) as runtime:
                await _side_by_side(jobs, runtime, start, options, lanes)
        finally:
            lanes.flush()
    return _finish(printer, jobs)


@dataclass(frozen=True, slots=True)
class _Job:
    """A script, and where what comes of it goes."""

    script: Script
    printer: FilePrinter
    suite: Suite | None
    number: int


@asynccontextmanager
async def _opened(
    scripts: Sequence[Script], start: Startup, options: Options, printer: Printer
) -> AsyncGenerator[Runtime | None, None]:
    """Open what the sessions share; None where all there is to do is on record under a key."""

    def hear(event: RunEvent) -> None:
        if isinstance(event, Alert):
            printer.warn(event.message)

    async with AsyncExitStack() as stack:
        found = task = None
        if options.key is not None:
            parts = [
                replace(task_of(options.key, one, start, "", None), part=_part(number))
                for number, one in enumerate(scripts)
            ]
            task = scripts_task(options.key, scripts, start)
            found = await stack.enter_async_context(found_run(task, start, options.on_unknown))
            if found.session and all([await is_over(part, found.kept) for part in parts]):
                yield None
                return
        opening = Runtime.open(start.loaded, places=start.places, listener=hear)
        runtime = await stack.enter_async_context(opening)
        if found is not None and task is not None and not found.session:
            await found.kept.keys.begin(task.digest, runtime.session_id, task.about)
        yield runtime


async def _side_by_side(
    jobs: Sequence[_Job], runtime: Runtime | None, start: Startup, options: Options, lanes: Lanes
) -> None:
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await _run(job, runtime, start, options)
            lanes.over(job.number)

    async with trio.open_nursery() as nursery:
        for _ in range(min(options.jobs or 1, len(jobs))):
            nursery.start_soon(work)


async def _run(job: _Job, runtime: Runtime | None, start: Startup, options: Options) -> None:
    """Run one script to its end, however that comes; only being stopped goes further."""

    def opened(hear: Listener) -> AbstractAsyncContextManager[RuntimeSession]:
        assert runtime is not None
        return runtime.session(listener=hear)

    printer = job.printer
    printer.note(f"\n── {plain(job.script.name)}")
    run = HeadlessRun(options, printer, job.script, start, opened, suite=job.suite, part=_part(job.number))
    try:
        with _bugs_contained(printer):
            await run.run()
    except CliError as error:
        printer.fail(error)
    except RecordError as error:
        printer.fail(storage_error(error))


@contextmanager
def _bugs_contained(printer: FilePrinter) -> Iterator[None]:
    """Make a bug the end of its own script, with its traceback printed; cancelling is none.

    Raises:
        CliError: there was one.
        CliError, RecordError: as raised within.
    """
    try:
        yield
    except (CliError, RecordError):
        raise
    except Exception as error:
        printer.aside(plain(traceback.format_exc()))
        raise internal_error() from error


def _part(number: int) -> str:
    """Return what tells the run of a file from the others under one key; which files is part of the task."""
    return str(number + 1)


def _data(printers: Sequence[FilePrinter]) -> dict[str, Json]:
    return {"scripts": [printer.as_json() for printer in printers]}


def _finish(printer: Printer, jobs: Sequence[_Job]) -> Exit:
    """Tell how each script ended, and return how the command does."""
    ended = [(job.script.name, job.printer.result.code) for job in jobs if job.printer.result is not None]
    printer.note("")
    for name, code in ended:
        printer.note(f"{plain(name)}: {code.name} ({code.value})")
    data = _data([job.printer for job in jobs])
    failed = [name for name, code in ended if code is not Exit.SUCCESS]
    if not failed:
        return printer.finish(Exit.SUCCESS, data)
    worst = max((code for _, code in ended), key=_rank)
    why = f"{len(failed)} of {len(jobs)} scripts did not succeed"
    return printer.finish(worst, data, CliError(worst, "SCRIPTS_FAILED", why, files=failed).error())


def _rank(code: Exit) -> int:
    """Return how bad an end is: what may be better another time is less bad than what will not."""
    if code is Exit.SUCCESS:
        return 0
    if code is Exit.PARTIAL_FAILURE:
        return 1
    return 2 if code.retryable else 3
