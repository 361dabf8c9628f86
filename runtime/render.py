"""How a session looks in a terminal: the answer as it comes, calls in between, refusals in plain words.

Whatever a model, a page or a program wrote is stripped of escape sequences before it is printed,
and styled by us only: nothing that comes in can draw outside its line.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text as Styled

from leeward.security import Origin, Source, Status, ToolCall, ToolResult, strip, visible

from .events import Alert, CallEnded, CallStarted, EndReason, LiveOutput, RunEvent, Text, TurnEnded

__all__ = ["Renderer"]

_RESULT_LINES = 6
_LIVE_LINES = 200


class Renderer:
    """Prints the events of a session as they happen."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self._console = console
        self._verbose = verbose
        self._answer = strip.start(Source("model", Origin.MODEL))
        self._column = 0
        self._live: dict[str, int] = {}

    def __call__(self, event: RunEvent) -> None:
        """Print one event."""
        match event:
            case Text(text):
                self._write(self._answer.feed(text))
            case CallStarted(call):
                self._end_answer()
                self._call(call)
            case LiveOutput(call_id, text):
                self._output(call_id, text)
            case CallEnded(result):
                self._result(result)
            case Alert(message):
                self._end_answer()
                self.line(f"! {visible(message)}", "bold yellow")
            case TurnEnded():
                self._end_answer()
                self._ended(event)

    def stopped(self) -> None:
        """Say that the person stopped a turn."""
        self._end_answer()
        self.line("■ stopped; what was said so far is kept", "dim")

    def line(self, text: str, style: str = "") -> None:
        """Print a line of ours."""
        self._console.print(Styled(text, style=style), soft_wrap=True)

    def _write(self, text: str) -> None:
        if text:
            self._console.print(Styled(text), end="", soft_wrap=True)
            self._column = len(text) - text.rfind("\n") - 1 if "\n" in text else self._column + len(text)

    def _end_answer(self) -> None:
        """Print what was held back of the answer, and begin a new line if it did not end one."""
        self._write(self._answer.flush())
        self._answer = strip.start(Source("model", Origin.MODEL))
        if self._column:
            self._console.print()
        self._column = 0

    def _call(self, call: ToolCall) -> None:
        arguments = visible(call.arguments)
        width = max(self._console.width - len(call.tool) - 6, 20)
        shown = arguments if len(arguments) <= width or self._verbose else arguments[: width - 1] + "…"
        self._console.print(Styled.assemble(("● ", "cyan"), (visible(call.tool), "bold"), f" {shown}"), soft_wrap=True)

    def _output(self, call_id: str, text: str) -> None:
        """Show running output, up to a bound: the result is shown again when it is there."""
        seen = self._live.get(call_id, 0)
        lines = text.splitlines()
        for line in lines[: max(_LIVE_LINES - seen, 0)]:
            self.line(f"  │ {line}", "dim")
        if seen <= _LIVE_LINES < seen + len(lines):
            self.line("  │ … more output follows and is not shown here", "dim italic")
        self._live[call_id] = seen + len(lines)

    def _result(self, result: ToolResult) -> None:
        match result.outcome.status:
            case Status.OK:
                self._succeeded(result)
            case Status.DENIED:
                self._refused(result)
            case _:
                self.line(f"  ✗ {_first_line(result.shown)}", "red")

    def _succeeded(self, result: ToolResult) -> None:
        if self._live.pop(result.call.id, 0) and not self._verbose:
            code = result.outcome.exit_code
            self.line("  └ done" if code in {None, 0} else f"  └ exit code {code}", "green" if not code else "yellow")
            return
        lines = result.shown.splitlines() or ["(nothing)"]
        limit = len(lines) if self._verbose else _RESULT_LINES
        for line in lines[:limit]:
            self.line(f"  │ {line}", "dim")
        if len(lines) > limit:
            self.line(f"  └ … {len(lines) - limit} more lines", "dim")

    def _refused(self, result: ToolResult) -> None:
        self.line(f"  ✗ {_first_line(result.shown)}", "red")
        error = result.error or {}
        suggestion = error.get("suggestion")
        if isinstance(suggestion, str):
            self.line(f"    instead: {visible(suggestion)}", "dim")

    def _ended(self, event: TurnEnded) -> None:
        if event.error is not None:
            self.line(f"✗ {visible(str(event.error))}", "red")
        elif event.reason is EndReason.MAX_TURNS:
            self.line("! stopped: the turn reached max_turns; say 'go on' to continue", "yellow")


def _first_line(text: str) -> str:
    return visible(text.strip().partition("\n")[0])
