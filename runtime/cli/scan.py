"""`leeward scan`: what in a text is hidden, looks like an order to an assistant, or is masked.

    {"text": …}
    {"injection", "hidden", "findings": [{"kind", "start", "end"}], "redacted", "terminal", "model"}

The text passes the filters of a session, as a page of the web would. Findings are given in characters of the
text as it was given. Nothing is stored, and the exit code tells only whether the text could be read.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import chain

from leeward.security.filters import Screened, Source, cap, fence, redact, strip, suspect
from leeward.security.injections import Finding, find_injections
from leeward.security.lazy import dataclass
from leeward.security.text import find_look_alikes, hidden_spans
from leeward.security.trust import Origin

from ..exits import Exit, Json
from ..options import Options
from ..printer import Printer, plain
from .batch_lines import LONGEST_LINE, BadLine, answer_lines, contents_of

__all__ = ["scan", "scanned"]

_HIDDEN = frozenset({"invisible", "look-alike", "concealed"})
_CONCEALED = re.compile(r"\x1b\[(?:[0-9;]{0,20};)?8m")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Scanned:
    """A text, what was found in it, and what is shown of it to the person and to a model."""

    findings: tuple[Finding, ...]
    redacted: str
    terminal: str
    model: str

    def as_json(self) -> dict[str, Json]:
        """Return it as it is printed."""
        found: list[Json] = [{"kind": one.kind, "start": one.start, "end": one.end} for one in self.findings]
        return {
            "injection": any(one.kind not in _HIDDEN for one in self.findings),
            "hidden": any(one.kind in _HIDDEN for one in self.findings),
            "findings": found,
            "redacted": self.redacted,
            "terminal": self.terminal,
            "model": self.model,
        }


async def scan(options: Options, printer: Printer) -> Exit:
    """Scan a file, or each line of a batch; 2 if a line of it was no object.

    Raises:
        CliError: the file cannot be read.
    """
    if options.batch is not None:
        return await answer_lines(options.batch, printer, _answered)
    text = await contents_of(options.name)
    found = scanned(text)
    for one in found.findings:
        line, column = text.count("\n", 0, one.start) + 1, one.start - text.rfind("\n", 0, one.start)
        printer.answer(f"{line}:{column}: {one.kind}: {_excerpt(text, one)}\n")
        printer.event({"schema": 1, "type": "finding", "kind": one.kind, "start": one.start, "end": one.end})
    if not found.findings:
        printer.note("nothing was found, which makes no text trustworthy")
    return printer.finish(Exit.SUCCESS, found.as_json())


def scanned(text: str) -> Scanned:
    """Return what is found in a text, and what would be shown of it."""
    source = Source("scan", Origin.WEB)
    screened = Screened(text)
    for step in (cap, strip, redact):
        screened = step(screened, source)
    redacted = screened.text
    shown = fence(suspect(screened, source), source)
    return Scanned(tuple(_findings(text)), redacted, shown.plain, shown.text)


def _findings(text: str) -> Iterator[Finding]:
    """Yield what is hidden and what looks like orders, in the order of the text."""
    hidden = (Finding(start, end, "invisible") for start, end in hidden_spans(text))
    alike = (Finding(one.start, one.end, "look-alike") for one in find_look_alikes(text))
    concealed = (Finding(*found.span(), "concealed") for found in _CONCEALED.finditer(text))
    yield from sorted(chain(hidden, alike, concealed, find_injections(text)))


def _excerpt(text: str, found: Finding) -> str:
    """Return the words of a finding; for invisible and look-alike characters, the code points."""
    words = text[found.start : found.end][:_SHOWN]
    if found.kind in _HIDDEN:
        odd = dict.fromkeys(char for char in words if not char.isascii())
        named = (f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip() for char in odd)
        return f"{plain(words)} ({', '.join(named)})"
    return plain(" ".join(words.split()))


async def _answered(raw: bytes) -> Mapping[str, Json]:
    """Return what is found in the text of a line; nothing is waited for."""
    return scanned(_text_of(raw)).as_json()


def _text_of(raw: bytes) -> str:
    """Return the text in a line of a batch.

    Raises:
        BadLine: it is no JSON object, or holds no text.
    """
    if len(raw) > LONGEST_LINE:
        raise BadLine(f"the line is longer than {LONGEST_LINE} bytes", is_object=False)
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise BadLine("the line is not JSON", is_object=False) from None
    if not isinstance(found, dict):
        raise BadLine("the line is not a JSON object", is_object=False)
    text = found.get("text")
    if not isinstance(text, str):
        raise BadLine("text: expected a string")
    return text
