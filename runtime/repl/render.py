"""Print a session to the terminal: answers, calls with their results, refusals, and how a turn ended.

In a live terminal (`activity.py`) unfinished text is shown in the live lines and printed when it is complete.
In other terminals calls and output are printed as they happen. `answer.py` prints answers, `calls.py` calls.
"""

from __future__ import annotations

from collections.abc import Callable

from leeward.security.text import visible

from ..events import Alert, CallEnded, CallStarted, EndReason, LiveOutput, RunEvent, Text, Thinking, TurnEnded
from .activity import Activity
from .answer import AnswerPrinter
from .calls import CallPrinter
from .results import Results
from .screen import Screen

__all__ = ["Renderer"]

_LIMITS = {
    EndReason.MAX_TURNS: "the model was not done after max_turns replies; say 'go on' to continue",
    EndReason.TIMEOUT: "the time of a turn ran out; say 'go on' to continue",
    EndReason.COST: "the session has cost what it may cost",
    EndReason.CONTEXT: "the conversation is too long for this model; /clear or /new begins another",
}
_WAITS = "waiting for the model"


class Renderer:
    """Prints the events of a session as they happen."""

    def __init__(
        self, screen: Screen, activity: Activity | None = None, *, verbose: bool = False, dark: bool = True
    ) -> None:
        """Take what is printed on; `activity` receives what happens, where that is shown."""
        self.screen = screen
        self.activity: Activity = activity or Activity()
        self.results: Results = Results()
        self._answer = AnswerPrinter(screen, self.activity, self.results, dark=dark)
        self._calls = CallPrinter(
            screen, self.activity, self.results, is_live=activity is not None, verbose=verbose
        )
        self.changed: Callable[[], None] = lambda: None
        """Called when what happens now has changed."""
        self.settled: Callable[[], None] = lambda: None
        """Called when what holds may have changed."""

    def __call__(self, event: RunEvent) -> None:
        """Print one event, and have what lives drawn again."""
        self._print(event)
        if isinstance(event, CallEnded | Alert):
            self.settled()
        self.changed()

    def _print(self, event: RunEvent) -> None:
        match event:
            case Text(text):
                self._answer.say(text)
            case Thinking(text):
                self._answer.think(text)
            case CallStarted(call):
                self._answer.end()
                self._calls.started(call)
            case LiveOutput(call_id, text):
                self._calls.running(call_id, text)
            case CallEnded(result):
                self._calls.ended(result)
                self.activity.what = self.activity.what if self.activity.calls else _WAITS
            case Alert(message):
                self._answer.end()
                self.screen.block(f"! {visible(message)}", "bold yellow")
            case TurnEnded():
                self._ended(event)

    def begin(self, what: str = _WAITS) -> None:
        """Something begins that the person waits for."""
        self._answer.has_text = False
        self.activity.begin(what)

    def end(self) -> None:
        """Nothing is waited for any more."""
        self._answer.end()
        self._calls.end()
        self.activity.end()

    def asks(self) -> None:
        """A question is put to the person: what came before it is printed."""
        self._answer.end()
        self.activity.is_asking = True

    def answered(self) -> None:
        """The question has its answer."""
        self.activity.is_asking = False

    def stopped(self) -> None:
        """Say that the person stopped a turn."""
        self.end()
        self.screen.line("■ stopped; what came so far is kept", "dim")

    def _ended(self, event: TurnEnded) -> None:
        self.end()
        if event.error is not None:
            self.screen.failed(str(event.error))
        elif event.reason in _LIMITS:
            self.screen.block(f"! stopped: {_LIMITS[event.reason]}", "yellow")
        elif event.reason is EndReason.DONE and not self._answer.has_text and not event.text.strip():
            self.screen.line("(the model gave an empty answer)", "dim")
