"""Find lines that differ only in times, paths and ids.

    normalised    times, UUIDs, addresses, ports, process ids and hexadecimal ids without their digits
    templated     a message without what is particular to one place: quoted names and numbers taken out

Neither takes out a word, so two different failures are never one.
"""

from __future__ import annotations

from leeward.memory.patterns import linear_pattern

__all__ = ["normalised", "templated"]

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
# Without a group that is read back, RE2 needs no more than one pass of its automaton.
_VARYING = linear_pattern(
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    rf"|\b\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]{_CLOCK})?(?: ?Z| ?[+-]\d\d:?\d\d)?"
    rf"|\b(?:[A-Z][a-z][a-z],? )?[A-Z][a-z][a-z] +\d{{1,2}} {_CLOCK}(?: \d{{4}})?"
    rf"|\b\d{{1,2}}/[A-Z][a-z][a-z]/\d{{4}}:{_CLOCK}(?: [+-]\d{{4}})?|\b{_CLOCK}"
    r"|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{1,5})?\b"
    r"|\[?\b[0-9a-fA-F]{1,4}(?::{1,2}[0-9a-fA-F]{1,4}){3,7}\b(?:\]:\d{1,5})?"
    r"|(?i:\bport[ =:]+)\d{1,5}\b|\blocalhost:\d{1,5}\b"
    r"|(?i:\b(?:pid|process|tid|thread)[ =:#]+)\d+\b|\[\d+\]:"
    r"|\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{7,64}\b|\b[0-9A-F]{8,64}\b",
    within_lines=True,
)
_DIGITS = b"0123456789abcdefABCDEF"
_VALUE = linear_pattern(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\b\d+(?:\.\d+)?\b")


def normalised(block: bytes) -> bytes:
    """Return lines in which everything that varies has no digits."""
    parts: list[bytes] = []
    position = 0
    for match in _VARYING.finditer(block):
        start, end = match.span()
        form = _form(block[start:end])
        if form is not None:
            parts += (block[position:start], form)
            position = end
    parts.append(block[position:])
    return b"".join(parts)


def _form(text: bytes) -> bytes | None:
    """Return what is left of something that varies, None where it only looks like that."""
    if text.isalnum():
        # A word of the letters a to f is no number, and a number without letters no id.
        return None if text.isdigit() or text.isalpha() else b"<id>"
    if text[3:4] == b" " and text[:1].isupper():
        return b"<time>"
    return text.translate(None, _DIGITS)


def templated(message: str) -> tuple[str, tuple[str, ...]]:
    """Return a message without its values, and these."""
    parts: list[str] = []
    values: list[str] = []
    position = 0
    for match in _VALUE.finditer(message):
        start, end = match.span()
        parts += (message[position:start], "\0")
        values.append(message[start:end])
        position = end
    parts.append(message[position:])
    return "".join(parts), tuple(values)
