"""Detect how a file's text is stored: its encoding, byte order mark and line ends.

A change keeps all of these. A file that cannot be decoded and encoded back to the same bytes is not changed.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure

__all__ = [
    "PLAIN",
    "Encoding",
    "as_utf8",
    "encoding_of",
    "is_binary",
    "is_utf8",
    "picture_type",
    "with_line_ends_of",
]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The name Python has for it, the byte order mark a file begins with, and what people call it."""

    name: str
    mark: bytes = b""
    called: str = ""

    def unpacked(self, data: bytes) -> bytes:
        """Return a file's text as UTF-8 without its mark; what is no UTF-8 and has no mark stays as it is.

        Raises:
            PermanentFailure: it would not come out as it went in.
        """
        if self.name == "utf-8":
            return data.removeprefix(self.mark)
        try:
            text = data[len(self.mark) :].decode(self.name)
            if self.packed(text.encode()) == data:
                return text.encode()
        except UnicodeError:
            pass
        raise PermanentFailure(f"the file is not whole {self.called}, so nothing in it can be changed safely")

    def packed(self, data: bytes) -> bytes:
        """Return UTF-8 text as a file of this encoding holds it."""
        return self.mark + (data if self.name == "utf-8" else data.decode().encode(self.name))


PLAIN = Encoding("utf-8", b"", "UTF-8")
"""What a file has that says nothing else."""

# UTF-32 comes first: its mark begins like that of UTF-16.
_MARKED = (
    Encoding("utf-32-le", codecs.BOM_UTF32_LE, "UTF-32"),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE, "UTF-32"),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE, "UTF-16"),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE, "UTF-16"),
    Encoding("utf-8", codecs.BOM_UTF8, "UTF-8"),
)


def encoding_of(head: bytes) -> Encoding:
    """Return the encoding that the beginning of a file names."""
    return next((one for one in _MARKED if head.startswith(one.mark)), PLAIN)


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text: text has no NUL in it, unless its mark says that it may."""
    return b"\0" in head and encoding_of(head).name == "utf-8"


_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def picture_type(head: bytes) -> str | None:
    """Return the media type of a picture that begins so, of the four that model services take; else None."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _PICTURES if head.startswith(mark)), None)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8 from end to end."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_utf8(blocks: Iterable[bytes], encoding: Encoding) -> Iterator[bytes]:
    """Yield the blocks of a file as UTF-8; what is broken in another encoding becomes U+FFFD."""
    if encoding.name == "utf-8":
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding.name)("replace")
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


def with_line_ends_of(before: bytes, text: bytes) -> bytes:
    """Return a text with CR LF if that is how every line of a file ends, and the text says nothing else."""
    lines = before.count(b"\n")
    if lines and before.count(b"\r\n") == lines and b"\r" not in text:
        return text.replace(b"\n", b"\r\n")
    return text
