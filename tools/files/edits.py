"""Compute a file's new bytes from a write or from edits. Pure: opens nothing.

Every change is computed twice: for the diff that the person is shown, and when it is made.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence

from leeward.security.filters import Source, strip
from leeward.security.lazy import dataclass
from leeward.security.outcome import InvalidParameters, PermanentFailure
from leeward.security.text import redact_text
from leeward.security.trust import Origin

from .encoding import encoding_of, is_binary, is_utf8, with_line_ends_of

__all__ = ["Edit", "Edited", "edited", "written"]

_FILE = Source("file", Origin.WORKSPACE)


@dataclass(frozen=True, slots=True)
class Edit:
    """A passage to be replaced: the only one of its kind, or with `everywhere` all of them."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """What a file holds after edits, at which line each was made (the first of several), and how often."""

    data: bytes
    lines: tuple[int, ...]
    counts: tuple[int, ...]


def written(before: bytes | None, content: str) -> bytes:
    """Return a file's bytes for a text, stored as what it replaces was.

    Raises:
        InvalidParameters: the text is one that no file can hold.
    """
    text = _encoded(content, "content")
    if before is None or is_binary(before):
        return text
    encoding = encoding_of(before)
    try:
        plain = encoding.unpacked(before)
    except PermanentFailure:
        return text
    if encoding.mark:
        text = text.removeprefix(BOM_UTF8)
    return encoding.packed(with_line_ends_of(plain, text))


def edited(before: bytes, edits: Sequence[Edit]) -> Edited:
    """Return a file's bytes after edits, each made in what the one before left; all of them or none.

    Where a file ends its lines with CR LF and a passage is only found so, the new one gets them too.

    Raises:
        InvalidParameters: an edit says nothing.
        PermanentFailure: a passage does not occur, or not only once; the file is no text, or cannot hold
            the new one.
    """
    if is_binary(before):
        raise PermanentFailure("the file is binary, which edit does not change")
    encoding = encoding_of(before)
    data = encoding.unpacked(before)
    lines, counts = [], []
    for number, edit in enumerate(edits, 1):
        which = f"edit {number}: " if len(edits) > 1 else ""
        data, line, count = _replaced(data, edit, which)
        lines.append(line)
        counts.append(count)
    return Edited(encoding.packed(data), tuple(lines), tuple(counts))


def _replaced(data: bytes, edit: Edit, which: str) -> tuple[bytes, int, int]:
    old, new = _encoded(edit.old, f"{which}old_string"), _encoded(edit.new, f"{which}new_string")
    if not old:
        raise InvalidParameters(f"{which}old_string is empty; use write to fill a file")
    if old == new:
        raise InvalidParameters(f"{which}old_string and new_string are the same, so nothing would change")
    if old not in data and b"\r\n" in data:
        old, new = (text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for text in (old, new))
    first = data.find(old)
    if first < 0:
        raise PermanentFailure(f"{which}{_missing(data, edit.old)}")
    if not new.isascii() and not is_utf8(data):
        raise PermanentFailure(f"{which}the file is not UTF-8, so only ASCII text can be put into it")
    count = data.count(old) if edit.everywhere else _times(data, old, first)
    if count > 1 and not edit.everywhere:
        raise PermanentFailure(
            f"{which}old_string occurs {count} times in the file; add lines around it, or set replace_all"
        )
    return data.replace(old, new), data.count(b"\n", 0, first) + 1, count


def _times(data: bytes, passage: bytes, first: int) -> int:
    """Count the occurrences of a passage; that two of them may overlap is not overlooked."""
    has_another = data.find(passage, first + 1) >= 0
    return max(data.count(passage), 2) if has_another else 1


def _missing(data: bytes, old: str) -> str:
    """Say why a passage was not found: it may be one that was never in the file but on the screen."""
    if not is_utf8(data) and not old.isascii():
        return "old_string does not occur in the file, which is not UTF-8; name a passage that is plain ASCII"
    text = data.decode("utf-8", "replace")
    feeder = strip.start(_FILE)
    shown = feeder.feed(text) + feeder.flush()
    if old in shown or old in redact_text(shown):
        return (
            "old_string is what was shown, but the file differs there: secrets are masked and control "
            "characters removed in what is shown; name a passage without any"
        )
    return "old_string does not occur in the file; white space must match too"


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidParameters(f"{name} contains a lone surrogate, which no file can hold") from None
