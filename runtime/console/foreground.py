"""Run a command in the foreground, under its wall clock and the signals, to an exit code.

However it ends, what is open is closed first and the outcome of a running call is recorded; then the process
ends with the code that says why.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from leeward.security.ports import RecordError

from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer
from ..providers.interface import ErrorKind, ModelError

__all__ = ["Command", "foreground", "interactive", "model_failure"]

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
    return CliError(_MODEL_EXITS[error.kind], "MODEL_ERROR", str(error), phase="model", kind=error.kind.value)


def foreground(command: Command, printer: Printer) -> Exit:
    """Run a command to its end and return what the process returns; the command tells its own success."""
    try:
        return trio.run(_Run(command, printer).supervised)
    except CliError as error:
        return printer.fail(error)
    except RecordError as error:
        return printer.fail(CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", str(error), phase="storage"))
    except BaseException:
        # A bug: a reader of the answer still gets one, a reader of the errors gets the traceback.
        bug = "this is a bug; the traceback says where"
        printer.fail(CliError(Exit.GENERAL_ERROR, "INTERNAL_ERROR", bug))
        raise


def interactive(command: Callable[[Options], Awaitable[Exit]], printer: Printer) -> Exit:
    """Run the chat, which sees to signals itself."""
    try:
        return trio.run(command, printer.options)
    except CliError as error:
        return printer.fail(error)
    except RecordError as error:
        return printer.fail(CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", str(error), phase="storage"))


class _Run:
    """One run of a command, and why it was stopped if it was."""

    def __init__(self, command: Command, printer: Printer) -> None:
        self._command = command
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
        async with trio.open_nursery() as nursery:
            await nursery.start(self._listen, nursery.cancel_scope)
            self._printer.on_close = nursery.cancel_scope.cancel
            with trio.move_on_after(self._options.timeout or float("inf")) as clock:
                await self._attempt()
            nursery.cancel_scope.cancel()
        if self._stopped is not None:
            word = self._stopped.name
            raise CliError(self._stopped, word, "stopped by " + word, phase="run")
        if clock.cancelled_caught:
            seconds = self._options.timeout
            raise CliError(Exit.TIMEOUT, "TIMEOUT", f"not done within {seconds:g} s", phase="run")
        if self._failure is not None:
            raise self._failure
        return self._result

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
                scope.cancel()
