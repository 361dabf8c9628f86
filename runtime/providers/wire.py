"""What all services share on the wire: JSON objects, values of any type, and errors.

Nothing here knows a dialect. Whatever a server sends, the only exception raised is `ModelError`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence

from leeward.security.kinds import Json
from leeward.security.lazy import regex
from leeward.security.outcome import Picture

from .interface import ErrorKind, ModelError, new_call_id, one_line

__all__ = [
    "TextJoiner",
    "assembled",
    "base64_of",
    "count",
    "encoded",
    "error_in",
    "mapping",
    "mappings",
    "read_object",
    "repaired",
    "text_of",
    "unique_id",
]

_SURROGATE = regex("[\ud800-\udfff]")
_MAX_ID = 256
_DECODER = json.JSONDecoder()
_KINDS_BY_STATUS = {
    "401": ErrorKind.AUTH,
    "402": ErrorKind.RATE_LIMITED,
    "403": ErrorKind.AUTH,
    "429": ErrorKind.RATE_LIMITED,
    "400": ErrorKind.BAD_REQUEST,
    "404": ErrorKind.BAD_REQUEST,
    "413": ErrorKind.BAD_REQUEST,
    "422": ErrorKind.BAD_REQUEST,
}
_KINDS_BY_WORD = (
    (regex(r"auth|api_key|permission"), ErrorKind.AUTH),
    (regex(r"rate_limit|quota|too_many|billing|exhausted"), ErrorKind.RATE_LIMITED),
    (regex(r"invalid|context_length|not_found|bad_request|too_large"), ErrorKind.BAD_REQUEST),
)
_NOTHING_LEFT = regex(r"insufficient_quota|billing|payment|\b402\b")
_DELAY = regex(r"(\d+(?:\.\d+)?)s")


def base64_of(picture: Picture) -> str:
    """Return the bytes of a picture as services take them."""
    return base64.b64encode(picture.data).decode("ascii")


def read_object(data: str) -> Mapping[str, object]:
    """Return the JSON object that one event of a stream, or a whole body, consists of.

    Raises:
        ModelError: it is not a JSON object.
    """
    try:
        value, end = _DECODER.raw_decode(data)
        if end != len(data):
            value = json.loads(data)
    except (ValueError, RecursionError):
        value = _loaded(data)
    if not isinstance(value, dict):
        raise ModelError("the model's server sent JSON that is not an object", ErrorKind.PROTOCOL)
    return value


def _loaded(data: str) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the model's server sent broken JSON: {one_line(data, 80)}", ErrorKind.PROTOCOL
        ) from error


def encoded(value: Json) -> bytes:
    """Return a value as JSON; halves of characters become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def assembled(fields: Mapping[str, Json], lists: Mapping[str, Sequence[bytes]]) -> bytes:
    """Return an object of some fields, at least one, and of lists whose entries are encoded already."""
    written = [b'"%b":[%b]' % (name.encode(), b",".join(items)) for name, items in lists.items() if items]
    return b"%b}" % b",".join((encoded(fields)[:-1], *written))


def error_in(body: object) -> ModelError | None:
    """Return the error that a server tells in a body or in the middle of a stream, or None."""
    if isinstance(body, list) and body:
        body = body[0]
    whole = mapping(body)
    error = whole.get("error") or (whole if whole.get("object") == "error" else None)
    if not error:
        return None
    facts = mapping(error)
    message = one_line(text_of(facts.get("message")) or text_of(error) or json.dumps(error))
    words = _words(facts)
    return ModelError(
        f"the model's server reports: {message}",
        _kind(words),
        passing=False if _NOTHING_LEFT.search(words) else None,
        retry_after=_delay(facts),
    )


def _words(facts: Mapping[str, object]) -> str:
    words = [facts.get(key, "") for key in ("code", "type", "status")]
    words += [detail.get("reason", "") for detail in mappings(facts.get("details"))]
    return " ".join(str(word) for word in words).lower()


def _kind(words: str) -> ErrorKind:
    # Google calls a wrong key an invalid argument and says what it means in the details.
    if "api_key_invalid" in words:
        return ErrorKind.AUTH
    for word in words.split():
        if word in _KINDS_BY_STATUS:
            return _KINDS_BY_STATUS[word]
    return next((kind for pattern, kind in _KINDS_BY_WORD if pattern.search(words)), ErrorKind.UNAVAILABLE)


def _delay(facts: Mapping[str, object]) -> float | None:
    """Return the seconds to wait that Google puts among an error's details, as in "37s"."""
    delays = (text_of(detail.get("retryDelay")) for detail in mappings(facts.get("details")))
    found = next((match for match in map(_DELAY.fullmatch, delays) if match), None)
    return float(found[1]) if found else None


def text_of(value: object) -> str:
    """Return a text, or the texts in a list of content parts; anything else is ignored."""
    if isinstance(value, str):
        return value
    return "".join(text_of(part.get("text")) for part in mappings(value) if part.get("type") == "text")


def mapping(value: object) -> Mapping[str, object]:
    """Return an object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> Iterator[Mapping[str, object]]:
    """Return the objects in a list; anything else in it, or in its place, is left out."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def count(value: object) -> int | None:
    """Return a number of tokens, None where there is none."""
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None


def repaired(text: str) -> str:
    """Return text in which pairs of surrogates are characters and lone ones are replaced."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def unique_id(call_id: str, taken: set[str]) -> str:
    """Return an id that no call of this reply has yet, and note it as taken."""
    call_id = repaired(call_id) if len(call_id) <= _MAX_ID else ""
    if not call_id or call_id in taken:
        call_id = new_call_id()
    taken.add(call_id)
    return call_id


class TextJoiner:
    """Text in pieces: a pair of surrogates that was cut in two comes out as one character."""

    __slots__ = ("_high",)

    def __init__(self) -> None:
        self._high = ""

    def feed(self, text: str) -> str:
        """Return text without lone surrogates; half of a pair at its end waits for the other half."""
        if not self._high and text.isascii():
            return text
        text = self._high + text
        self._high = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return repaired(text[: len(text) - len(self._high)])

    def flush(self) -> str:
        """Return the replacement for a half whose other half never came."""
        left, self._high = self._high, ""
        return "\N{REPLACEMENT CHARACTER}" if left else ""
