"""Run a command in the foreground, under its wall clock and the signals, to an exit code.

However it ends, what is open is closed first and the outcome of a running call is recorded; then the process
ends with the code that says why.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import trio

from leeward.security.ports import RecordError

from ..exits import CliError, Exit, envelope, to_json
from ..options import Options
from ..printer import SCHEMA, Printer
from ..providers.interface import ErrorKind, ModelError
from .last_resort import AFTER_A_SIGNAL, GRACE, LastResort

__all__ = ["Command", "foreground", "interactive", "internal_error", "model_failure"]

Command: TypeAlias = Callable[[Options, Printer], Awaitable[Exit]]

_SIGNALS = {signal.SIGINT: Exit.SIGINT, signal.SIGTERM: Exit.SIGTERM}

_MODEL_EXITS = {
    ErrorKind.AUTH: Exit.AUTH_REQUIRED,
    ErrorKind.RATE_LIMITED: Exit.RATE_LIMITED,
    ErrorKind.UNAVAILABLE: Exit.UNAVAILABLE,
    ErrorKind.PROTOCOL: Exit.UNAVAILABLE,
    ErrorKind.BAD_REQUEST: Exit.GENERAL_ERROR,
}


def model_failure(error: ModelError) -> CliError:
    """Return what ends a command whose model could not answer."""
    return CliError(_MODEL_EXITS[error.kind], error.code, str(error), phase="model", kind=error.kind.value)


def internal_error() -> CliError:
    """Return the end of a command, or of one of several scripts, that met a bug; its traceback is printed."""
    return CliError(Exit.GENERAL_ERROR, "INTERNAL_ERROR", "this is a bug; the traceback says where")


def storage_error(error: RecordError) -> CliError:
    """Return the end of a command, or of one of several scripts, whose records failed."""
    return CliError(Exit.GENERAL_ERROR, error.code, str(error), phase="storage")


def foreground(command: Command, printer: Printer, *, is_ours: bool = False) -> Exit:
    """Run a command to its end and return what the process returns; the command tells its own success.

    `is_ours`: this process is there for nothing else, and is ended where nothing else keeps the time.
    """
    try:
        return trio.run(
            _Run(command, printer, LastResort(partial(_owed, printer)) if is_ours else None).supervised
        )
    except CliError as error:
        return printer.fail(error)
    except RecordError as error:
        return printer.fail(storage_error(error))
    except BaseException:
        # A bug: a reader of the answer still gets one, a reader of the errors gets the traceback.
        printer.fail(internal_error())
        raise


def interactive(command: Callable[[Options], Awaitable[Exit]], printer: Printer) -> Exit:
    """Run the chat, which sees to signals itself."""
    try:
        return trio.run(command, printer.options)
    except CliError as error:
        return printer.fail(error)
    except RecordError as error:
        return printer.fail(storage_error(error))


class _Run:
    """One run of a command, and why it was stopped if it was."""

    def __init__(self, command: Command, printer: Printer, resort: LastResort | None) -> None:
        self._command = command
        self._resort = resort
        self._options = printer.options
        self._printer = printer
        self._stopped: Exit | None = None
        self._result = Exit.GENERAL_ERROR
        self._failure: CliError | RecordError | None = None

    async def supervised(self) -> Exit:
        """Run the command until it ends, a signal comes, the clock runs out or nobody reads any more.

        Raises:
            CliError, RecordError: it could not go on.
        """
        left = self._left()
        if self._resort is not None and left < math.inf:
            self._resort.after(left + GRACE, self._late())
        async with trio.open_nursery() as nursery:
            await nursery.start(self._listen, nursery.cancel_scope)
            self._printer.on_close = nursery.cancel_scope.cancel
            with trio.move_on_after(left) as clock:
                await self._attempt()
            nursery.cancel_scope.cancel()
        if self._stopped is not None:
            raise _stopped_by(self._stopped)
        if clock.cancelled_caught:
            raise self._late()
        if self._failure is not None:
            raise self._failure
        return self._result

    def _left(self) -> float:
        """Return the seconds that are left of the time for all of it, which began with the process."""
        if not self._options.timeout:
            return math.inf
        return max(0.0, self._options.request.started + self._options.timeout - time.monotonic())

    def _late(self) -> CliError:
        why = f"not done within {self._options.timeout:g} s"
        return CliError(Exit.TIMEOUT, "TIMEOUT", why, phase="run")

    async def _attempt(self) -> None:
        """Run the command; what it tells on purpose is kept out of the nursery, which would wrap it."""
        try:
            self._result = await self._command(self._options, self._printer)
        except (CliError, RecordError) as error:
            self._failure = error

    async def _listen(
        self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                self._stopped = self._stopped or _SIGNALS[signal.Signals(number)]
                if self._resort is not None:
                    self._resort.after(AFTER_A_SIGNAL, _stopped_by(self._stopped))
                scope.cancel()


def _owed(printer: Printer, error: CliError) -> str:
    """Return the line that a reader of JSON still waits for, if the command ended with this error."""
    if printer.finished or printer.is_text:
        return ""
    meta = printer.options.request.meta()
    if printer.options.output == "json":
        return f"{envelope(error.exit, None, error, (), meta)}\n"
    ended = {"schema": SCHEMA, "type": "exit", "code": int(error.exit), "error": error.error()}
    return f"{to_json({**ended, 'warnings': [], 'meta': meta})}\n"


def _stopped_by(code: Exit) -> CliError:
    return CliError(code, code.name, f"stopped by {code.name}", phase="run")
