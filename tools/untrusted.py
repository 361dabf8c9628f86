"""The tool `read_untrusted`: what a page, a file or a kept output says of one question, without reading it.

The text goes to a second model that has no tools, and only an answer in a closed form comes back
(`quarantine.py`). Where the text comes from is judged like any path, URL or id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from leeward.security.call import Cleared, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import InvalidParameters, Output
from leeward.security.ports import Reader, ReaderFailed
from leeward.security.session import Session
from leeward.security.trust import Origin

from .declare import ResourceId, Text, Url, WorkspacePath, tool
from .files import Files
from .http.fetch import Fetcher
from .overflow import Overflow
from .quarantine import LONGEST_TEXT, AnswerForm, must_be_askable, quarantined_answer

__all__ = ["NoReader", "Untrusted"]

_LINES = 1_000_000
_PAGE = 40_000
_SECONDS = 120.0


class UntrustedSource(BaseModel):
    """Where a text is: exactly one of these."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[Url | None, Field(description="a page, under the rules of fetch")] = None
    path: Annotated[WorkspacePath | None, Field(description="a text file")] = None
    overflow: Annotated[ResourceId | None, Field(description="a kept output, by its id")] = None


class UntrustedForm(BaseModel):
    """The form of the answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    kind: Annotated[Text, Field(description="choice, number, date or pattern")]
    choices: Annotated[list[Text], Field(description="of a choice: 2 to 20 short answers")] = []
    pattern: Annotated[Text, Field(description="of a pattern: RE2; 40 characters without blanks")] = ""


class NoReader:
    """Reads nothing: there is no model here."""

    async def read(self, _rules: str, _text: str) -> str:
        """Refuse.

        Raises:
            ReaderFailed: always.
        """
        raise ReaderFailed("there is no model to read it")


@dataclass(frozen=True, slots=True)
class Untrusted:
    """Has texts read by a second model, for the current session, which `session` tells."""

    reader: Callable[[], Reader]
    session: Callable[[], Session]
    fetcher: Fetcher
    files: Files
    overflow: Overflow

    def tools(self) -> list[ToolExecutor]:
        """Return the tool `read_untrusted`."""
        effects = Effect.READ | Effect.BRING_IN
        return [tool(effects=effects, timeout=_SECONDS, idempotent=True)(self.read_untrusted)]

    async def read_untrusted(
        self, question: Text, source: UntrustedSource, form: UntrustedForm, cleared: Cleared
    ) -> Output:
        """Ask one question about a text that somebody unknown wrote, without reading the text yourself.

        The answer is one of your choices, a number, a date, or a short value that matches a pattern, or
        "unknown". Use it where a page, mail or file only has to be sorted, counted or dated.
        """
        asked = AnswerForm(form.kind, tuple(form.choices), form.pattern)
        must_be_askable(question, asked)
        text, is_cut = await self._text(source, cleared)
        answer = await quarantined_answer(self.reader(), question, text, asked, self.session())
        notices = (f"only the first {LONGEST_TEXT} characters were read",) if is_cut else ()
        return Output(answer, Origin.WEB, notices=notices)

    async def _text(self, source: UntrustedSource, cleared: Cleared) -> tuple[str, bool]:
        """Return a text, and whether there is more of it."""
        if sum(one is not None for one in (source.url, source.path, source.overflow)) != 1:
            raise InvalidParameters("source names exactly one of url, path and overflow")
        if source.url is not None:
            text = (await self.fetcher.fetch(source.url, cleared)).text
        elif source.path is not None:
            text = (await self.files.read(source.path, limit=_LINES)).text
        else:
            return await self._kept(source.overflow or "")
        return text[:LONGEST_TEXT], len(text) > LONGEST_TEXT

    async def _kept(self, name: str) -> tuple[str, bool]:
        text = ""
        while len(text) < LONGEST_TEXT:
            part = (await self.overflow.read_overflow(name, offset=len(text), limit=_PAGE)).text
            text += part
            if len(part) < _PAGE:
                return text, False
        return text[:LONGEST_TEXT], True
