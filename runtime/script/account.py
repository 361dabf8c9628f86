"""Print what happened in a headless session, step by step: asked, decided and done.

The answer goes to stdout as it comes, the account to stderr; under jsonl every event is a line. Everything
that a model, a page or a program wrote has been stripped, or is escaped visibly here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leeward.security.call import Status, ToolCall, ToolResult
from leeward.security.filters import Source, strip
from leeward.security.text import visible
from leeward.security.trust import Origin

from ..console import was_asked
from ..events import Alert, CallEnded, CallStarted, LiveOutput, RunEvent, Text, TurnEnded, as_json
from ..printer import SCHEMA, Printer
from .expect import Expectation, Happened

if TYPE_CHECKING:
    from ..slash import SlashResult
    from .recorded import StepOutcome
    from .script import ScriptStep

__all__ = ["RunPrinter"]

_MODEL = Source("model", Origin.MODEL)
_ARGUMENTS = 100


class RunPrinter:
    """Listens to a session: prints it, and gathers what came of the step at hand.

    Without `shows_answer` what the model says is not printed as text.
    """

    def __init__(self, printer: Printer, *, shows_answer: bool = True) -> None:
        self._printer = printer
        self._shows_answer = shows_answer
        self._stripper = strip.start(_MODEL)
        self._text: list[str] = []
        self._calls = self._denied = 0
        self.happened: Happened = Happened()

    def begin(self, step: ScriptStep, number: int | None, *, is_recorded: bool = False) -> None:
        """Begin a step; `number` is None where it is the only one. What came of it may be on record."""
        self.happened = Happened()
        if number is None:
            return
        event = {"schema": SCHEMA, "type": "step", "number": number, "line": step.line, "said": step.text}
        self._printer.event({**event, **({"recorded": True} if is_recorded else {})})
        first, *rest = step.text.split("\n")
        self._printer.note("")
        self._printer.note(f"{number:>2} › {visible(first)}{' (on record)' if is_recorded else ''}")
        for line in rest:
            self._printer.note(f"   · {visible(line)}")

    def recall(self, outcome: StepOutcome) -> None:
        """Print what is on record of a step, as if it happened now."""
        for result in outcome.results:
            self.hear(CallStarted(result.call))
            self.hear(CallEnded(result))
        for ended in outcome.turns:
            self.hear(Text(ended.text))
            self.hear(ended)

    def hear(self, event: RunEvent) -> None:
        """Take in one event of the session."""
        self._printer.event(as_json(event))
        match event:
            case Text(text):
                self._text.append(text)
                self._answer(self._stripper.feed(text))
            case CallStarted(call):
                self._end_answer()
                self._printer.note(f"   → {_asked(call)}")
            case CallEnded(result):
                self._result(result)
            case LiveOutput(text=text) if self._printer.options.verbose:
                self._printer.note("\n".join(f"     ┊ {line}" for line in text.splitlines()))
            case Alert(message):
                self._end_answer()
                self._printer.warn(message)
            case TurnEnded():
                self._end_answer()
                self.happened.turns.append(event)

    def slash(self, step: ScriptStep, result: SlashResult) -> None:
        """Print what a slash command had to say."""
        text = result.text
        event = {"schema": SCHEMA, "type": "slash", "line": step.line, "text": text, "failed": result.failed}
        event["data"] = None if result.data is None else dict(result.data)
        self._printer.event(event)
        self.happened.texts.append(text)
        self._printer.answer("".join(f"{line}\n" for line in text.split("\n")) if text else "")

    def met(self, expected: Expectation) -> None:
        """Print that an expectation of the step was met."""
        event = {
            "schema": SCHEMA,
            "type": "expect",
            "line": expected.line,
            "expected": str(expected),
            "met": True,
        }
        self._printer.event(event)
        self._printer.note(f"   ✓ {expected}")

    def end(self, steps: int, refused: int, session: str) -> None:
        """Print that the script has ended."""
        calls = f"{self._calls} calls, {self._denied} refused"
        surprise = f" ({refused} of them unexpectedly)" if refused else ""
        self._printer.note("")
        self._printer.note(f"{steps} steps, {calls}{surprise}; session {session}")

    def _result(self, result: ToolResult) -> None:
        self.happened.results.append(result)
        self._calls += 1
        self._denied += result.outcome.status is Status.DENIED
        self.happened.texts.append(result.shown)
        for line in (*_result_lines(result), *(_whole(result) if self._printer.options.verbose else ())):
            self._printer.note(f"     {line}")

    def _answer(self, text: str) -> None:
        if self._shows_answer:
            self._printer.answer(text)

    def _end_answer(self) -> None:
        self._answer(self._stripper.flush())
        self._stripper = strip.start(_MODEL)
        self._printer.end_answer()
        if self._text:
            self.happened.texts.append("".join(self._text))
        self._text = []


def _asked(call: ToolCall) -> str:
    arguments = visible(call.arguments)
    shown = arguments if len(arguments) <= _ARGUMENTS else f"{arguments[: _ARGUMENTS - 1]}…"
    return f"{visible(call.tool)} {shown}"


def _result_lines(result: ToolResult) -> Iterator[str]:
    """Yield what was decided, and what came of it."""
    error, outcome = result.error or {}, result.outcome
    if outcome.status is Status.DENIED:
        word = "asked" if was_asked(result) else "denied"
        why = f"{error.get('message')} [{error.get('code')}]"
        yield f"✗ {word} by {outcome.gate} ({error.get('rule')}): {why}"
        for name in ("rejected_pattern", "suggestion"):
            if isinstance(value := error.get(name), str):
                yield f"  {name}: {visible(value)}"
        facts = error.get("facts")
        for fact in facts if isinstance(facts, list) else ():
            yield f"  {fact['name']}: {visible(str(fact['value'])[:_ARGUMENTS])}"
        asks = error.get("asks")
        for ask in asks if isinstance(asks, list) else ():
            yield f"  {ask['gate']} asks: {ask['question']}"
    elif outcome.status is Status.OK:
        lines = result.shown.count("\n") + (not result.shown.endswith("\n"))
        code = f", exit code {outcome.exit_code}" if outcome.exit_code is not None else ""
        kept = f", kept as {result.overflow_id}" if result.overflow_id is not None else ""
        many = "1 line" if lines == 1 else f"{lines} lines"
        mark = "!" if outcome.exit_code else "✓"
        yield f"{mark} allowed: {len(result.shown)} characters in {many}{code}{kept}"
    else:
        yield f"✗ allowed, then {outcome.status} ({outcome.category}): {visible(str(error.get('message')))}"


def _whole(result: ToolResult) -> Iterator[str]:
    """Yield the lines of what a call brought, where its end is not all there is to tell."""
    output = result.shown if result.outcome.status is Status.OK else (result.error or {}).get("output")
    if isinstance(output, str):
        yield from (f"│ {line}" for line in output.splitlines())
