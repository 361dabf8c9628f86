"""A response and its body, decoded within a memory bound.

Pure: bytes go in as they come from the network, decoded text comes out. One layer of gzip or deflate is
undone, and only as far as the bound reaches, so a few bytes that expand to gigabytes cost nothing.
How a page or a JSON document is laid out is left to `html.py` and `fetch.py`.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Sequence

from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import NetworkError
from leeward.security.url import Url

__all__ = ["HTML_TYPES", "Body", "BodyError", "Response", "StaleConnection", "is_text", "media_type"]


_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_GZIP_MAGIC = b"\x1f\x8b"
_MEDIA_TYPE = regex(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,90}")
_CHARSET = regex(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_META = regex(rb"""<meta\s[^>]{0,256}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_META_WITHIN = 1024  # HTML, 4.2.5.4: a page that names its character set does so in its first bytes.
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

# Python has codecs that are no character sets of the web: some are slow, some hide text.
_CHARACTER_SETS = regex(
    r"utf-?8|utf-?16(-?[lb]e)?|us-ascii|ascii|(iso-?)?8859-\d+|latin-?1|windows-125\d|cp125\d|koi8-[ru]"
    r"|shift[_-]?jis|euc-(jp|kr)|gb(k|2312|18030)|big5(-hkscs)?",
    re.IGNORECASE,
)

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
"""The media types of web pages."""

_TEXT_TYPES = regex(
    r"text/.*|.*\+(json|xml)|application/(json|ld\+json|xml|javascript|ecmascript|x-javascript|yaml|x-yaml"
    r"|toml|x-sh|x-ndjson|jsonl|sql|graphql|x-www-form-urlencoded)"
)


class BodyError(Exception):
    """The body cannot be decoded; the message says why, in our words."""


class Body:
    """Collects up to `cap` bytes of decoded content, and knows whether there was more."""

    def __init__(self, encodings: Sequence[str], cap: int) -> None:
        """Prepare for the values of Content-Encoding.

        Raises:
            BodyError: the content is encoded twice, or in a way that was not asked for.
        """
        words = [word.strip().lower() for value in encodings for word in value.split(",")]
        layers = [word for word in words if word not in ("", "identity")]
        if len(layers) > 1 or any(layer not in _WINDOW_BITS for layer in layers):
            raise BodyError("the content is encoded in a way that was not asked for")
        self._encoding = layers[0] if layers else None
        self._decompressor: zlib._Decompress | None = None
        self._damage: zlib.error | None = None
        self._held = b""
        self.cap = cap
        self._content = bytearray()

    @property
    def content(self) -> bytes:
        """What was kept."""
        return bytes(self._content[: self.cap])

    @property
    def is_truncated(self) -> bool:
        """Whether there was more than is kept."""
        return len(self._content) > self.cap

    def feed(self, chunk: bytes) -> bool:
        """Take bytes as they came; returns False once no more are needed, for good or ill."""
        room = self.cap + 1 - len(self._content)
        if self._encoding is None:
            self._content += chunk[:room]
        else:
            self._decompress(self._held + chunk, room)
        return len(self._content) <= self.cap and self._damage is None

    def finish(self) -> None:
        """Say that no more bytes will come.

        Raises:
            BodyError: the compressed content is damaged or ends too early.
        """
        if self._damage is not None:
            raise BodyError("the compressed content is damaged") from self._damage
        ended = self._decompressor is None or self._decompressor.eof
        if self._encoding is not None and not self.is_truncated and (self._held or not ended):
            raise BodyError("the compressed content ends too early")

    def text(self, content_type: str) -> str:
        """Return the content as text; a last character that the cap cut is left out."""
        decoder = codecs.getincrementaldecoder(_character_set(content_type, self.content))("replace")
        return decoder.decode(self.content, final=not self.is_truncated)

    @property
    def marker(self) -> str:
        """What ends a text that was cut, "" where nothing was."""
        return f"\n\n[truncated at {self.cap} bytes]" if self.is_truncated else ""

    def _decompress(self, data: bytes, room: int) -> None:
        if self._decompressor is None:
            if len(data) < 2:
                self._held = data
                return
            self._held = b""
            self._decompressor = zlib.decompressobj(self._window_bits(data))
        try:
            while data and room > 0:
                if self._decompressor.eof and not self._begins_again(data):
                    return
                decoded = self._decompressor.decompress(data, room)
                self._content += decoded
                room -= len(decoded)
                data = self._decompressor.unconsumed_tail or self._decompressor.unused_data
        except zlib.error as error:
            self._damage = error

    def _begins_again(self, data: bytes) -> bool:
        """Begin the next member of a gzip file, if there is one; what else may follow says nothing."""
        if self._encoding == "deflate" or not data.startswith(_GZIP_MAGIC[: len(data)]):
            return False
        self._decompressor = zlib.decompressobj(_WINDOW_BITS["gzip"])
        return True

    def _window_bits(self, data: bytes) -> int:
        """Tell "deflate" as the standard has it (with a zlib header) from what some servers send (raw)."""
        if self._encoding == "deflate" and (data[0] & 0x0F != 8 or int.from_bytes(data[:2], "big") % 31):
            return -zlib.MAX_WBITS
        return _WINDOW_BITS[self._encoding or "gzip"]


def _character_set(content_type: str, content: bytes) -> str:
    """Return the codec a body is read with: by its byte order mark, its header, its page, else UTF-8."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return name
    found = _CHARSET.search(content_type)
    name = found[1] if found else ""
    if not found and media_type(content_type) in HTML_TYPES:
        meta = _META.search(content, 0, _META_WITHIN)
        name = meta[1].decode() if meta else ""
    if not _CHARACTER_SETS.fullmatch(name):
        return "utf-8"
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "utf-8"


def media_type(content_type: str) -> str:
    """Return the type a Content-Type names, or "unknown type" where it names none that is well formed."""
    name = content_type.partition(";")[0].strip().lower()
    return name if _MEDIA_TYPE.fullmatch(name) else "unknown type"


def is_text(kind: str, content: bytes) -> bool:
    """Whether content of a media type can be read; one without a type is text if it has no NUL."""
    if kind in ("unknown type", "application/octet-stream"):
        return b"\0" not in content
    return _TEXT_TYPES.fullmatch(kind) is not None


class StaleConnection(NetworkError):
    """A connection that had been used before broke before any answer: the other side had left it."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a URL answered. `location` is where it leads, as the header has it, if it is a redirect."""

    url: Url
    status: int
    content_type: str
    body: Body
    location: str | None = None
