"""Put what a server asks for to the person: every time, whatever the autonomy, and on record.

The words are the server's and nobody checked them: they are shown as named facts beside a question of ours.
What the person types goes to the server alone. An answer of the model is one of the second model's
(`conversation/reader.py`), which knows nothing of the conversation and has no tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from leeward.security.call import Action
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.ports import Answer, Approver, DetailedAnswer, Question, Reader, ReaderFailed
from leeward.security.session import ServerAsked
from leeward.security.text import visible
from leeward.security.verdict import Ask
from leeward.tools.mcp import FormField

if TYPE_CHECKING:
    from leeward.security.pipeline import Pipeline

__all__ = ["PersonAsker", "TakesWords"]

_MOST_TRIES = 3
_FORM = "The server {} asks you for values: what you give goes to it. Give it no password and no key."
_MODEL = "The server {} asks for an answer of your model, which is not free and goes to the server."


@runtime_checkable
class TakesWords(Protocol):
    """An approver that can be given words as well."""

    async def words(self, prompt: str) -> str | None:
        """Return a line the person types, None where they go back."""
        ...


@dataclass(frozen=True, slots=True)
class PersonAsker:
    """Asks through the approver of a session, whose pipeline and second model are as they are at the time."""

    approver: Approver | None
    pipeline: Callable[[], Pipeline]
    reader: Callable[[], Reader | None]

    async def fill(
        self, server: str, action: Action, message: str, fields: Sequence[FormField]
    ) -> Mapping[str, Json] | None:
        """Return the values, None where the person declined or nobody is there."""
        if fields and not isinstance(self.approver, TakesWords):
            await self._note(action, server, "values", message, Answer.NOBODY)
            return None
        facts = [("it says", message), *((f"it wants {one.name}", one.takes) for one in fields)]
        if not await self._agreed(action, server, "values", message, _FORM, facts):
            return None
        values: dict[str, Json] = {}
        for field in fields:
            typed = await self._typed(field)
            if typed is None:
                return None
            values |= typed
        return values

    async def complete(self, server: str, action: Action, rules: str, text: str) -> str | None:
        """Return what the model answers to a text, None where the person declined or nobody is there."""
        reader = self.reader()
        facts = [*([("its rules", rules)] if rules else []), ("its text", text)]
        if reader is None or not await self._agreed(action, server, "model", text, _MODEL, facts):
            return None
        try:
            return await reader.read(rules, text)
        except ReaderFailed:
            return None

    async def _agreed(
        self,
        action: Action,
        server: str,
        wants: str,
        message: str,
        question: str,
        facts: Sequence[tuple[str, str]],
    ) -> bool:
        """Ask the person; return whether they agreed, once the answer is recorded."""
        answer, how = Answer.NOBODY, ""
        if self.approver is not None:
            shown = tuple((visible(name), visible(value)) for name, value in facts)
            ask = Ask("asks", question.format(server), force=True, facts=shown)
            put = Question(action, (("server", ask),), None, session=self.pipeline().session)
            reply = await self.approver.ask(put)
            detailed = reply if isinstance(reply, DetailedAnswer) else DetailedAnswer(reply)
            # No rule was on offer, so "always" is not a valid answer.
            answer = detailed.answer if isinstance(detailed.answer, Answer) else Answer.NO
            how = detailed.how
        await self._note(action, server, wants, message, answer, how)
        return answer is Answer.YES

    async def _note(
        self, action: Action, server: str, wants: str, message: str, answer: Answer, how: str = ""
    ) -> None:
        at, call = self.pipeline().session.now, action.call.id
        await self.pipeline().note(ServerAsked(at, call, server, wants, message, answer.value, how))

    async def _typed(self, field: FormField) -> dict[str, Json] | None:
        """Return what the person gives for a field, nothing where it is left out, None where they go back."""
        assert isinstance(self.approver, TakesWords)
        prompt = f"  {visible(field.label or field.name)} ({visible(field.takes)}): "
        for _ in range(_MOST_TRIES):
            typed = await self.approver.words(prompt)
            if typed is None:
                return None
            if not typed and not field.is_required:
                return {}
            try:
                return {field.name: field.value(typed)}
            except ValueError:
                continue
        return None
