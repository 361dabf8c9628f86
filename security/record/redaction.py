"""Redact and truncate a call's arguments for the audit, and report which values were changed.

A value that is masked in the arguments is masked wherever else the record would hold it, also where
the surrounding words that identified it as a secret are missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial

from ..action import canonical_json, secrets_in, shown_arguments, thaw, without_secrets
from ..call import Action, pointer_step
from ..lazy import dataclass, regex
from ..session import Session
from ..text import mask_form, mask_of, redact_text
from ..url import percent_decoded

__all__ = ["CUT", "RedactedArguments", "is_below", "redact_arguments"]

CUT = "…"
"""The end of a text of which only the beginning is kept."""

_LONGEST = 64 * 1024
_LONGEST_UNREAD = 4096
_LONGEST_STRINGS = (4096, 256)
_LONGEST_VALUE = 500
_QUOTES = regex(r"['\"\\]")


@dataclass(frozen=True, slots=True)
class RedactedArguments:
    """The arguments as they are kept: canonical JSON, or what came instead of it.

    `masked` and `cut` are the JSON pointers of what is not there as it was ("" is all of it), `secrets`
    the values to be masked.
    """

    arguments: str
    masked: tuple[str, ...]
    cut: tuple[str, ...]
    secrets: frozenset[str]

    def text(self, text: str, longest: int = _LONGEST_VALUE) -> str:
        """Return any text about the call as it may be kept."""
        masked = _redacted(text, self.secrets)
        return masked if len(masked) <= longest else masked[:longest] + CUT

    def text_at(self, pointer: str, text: str, longest: int = _LONGEST_VALUE) -> str:
        """Return another spelling of the value at a pointer for the record, without masked parts."""
        return mask_of("secret", text) if self.is_masked(pointer) else self.text(text, longest)

    def is_masked(self, pointer: str) -> bool:
        """Whether the value at a pointer holds something that was masked."""
        return any(is_below(pointer, one) for one in self.masked)


def is_below(pointer: str, other: str) -> bool:
    """Whether a pointer is another, or leads into what that points at; a key counts as its value."""
    plain = pointer.removesuffix("#")
    return plain == other or plain.startswith(f"{other}/")


def redact_arguments(action: Action, session: Session) -> RedactedArguments:
    """Return what may be kept of a call's arguments."""
    secrets = session.secrets | secrets_in(action)
    if not action.arguments:
        # Nobody has bounded a text that was not read; what is cut off is cut off behind the masking.
        unread = without_secrets(action.call.arguments, action.spec, action.call.once)
        text = redact_text(unread[:_LONGEST].encode("utf-8", "replace").decode(), secrets)
        return RedactedArguments(text[:_LONGEST_UNREAD], (), (), secrets)
    shown = shown_arguments(action)
    plain = canonical_json(shown)
    text = redact_text(plain.encode("utf-8", "replace").decode(), secrets)
    spelled = frozenset(_spelled(action, secrets))
    is_whole = text == plain and shown is action.arguments and not spelled
    if is_whole and len(text) <= _LONGEST_STRINGS[0]:
        return RedactedArguments(text, (), (), secrets)
    # Only the masked text tells what a mask took along, so that alone is parsed.
    tree = thaw(shown) if text == plain else _parsed(text)
    return _bounded(action, tree, text, secrets, spelled)


def _parsed(text: str) -> object:
    """Return what a masked text is as JSON; None where a mask took a bracket or a quotation mark along."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def _spelled(action: Action, secrets: frozenset[str]) -> Iterator[str]:
    """Yield the pointers of strings that spell a secret: it shows once they are read, as in `to'ken'`."""
    for atom in action.atoms:
        shown = atom.shown
        if shown == atom.raw or (masked := _redacted(shown, secrets)) == shown:
            continue
        if len(mask_form().findall(masked)) > len(mask_form().findall(_redacted(atom.raw, secrets))):
            yield atom.pointer.removesuffix("#")


def _redacted(text: str, secrets: frozenset[str]) -> str:
    """Return a text without secrets; the short ones are the same in most records."""
    return _short_redacted(text, secrets) if len(text) <= _LONGEST_VALUE else _plainly(text, secrets)


def _plainly(text: str, secrets: frozenset[str]) -> str:
    return redact_text(text.encode("utf-8", "replace").decode(), secrets) if text else ""


_short_redacted = lru_cache(maxsize=2048)(_plainly)


def _bounded(
    action: Action, tree: object, text: str, secrets: frozenset[str], spelled: frozenset[str]
) -> RedactedArguments:
    """Return redacted arguments with long strings cut, and which those are; without a tree, the text."""
    if tree is None:
        values = frozenset(_strings(thaw(action.arguments)))
        return RedactedArguments(text[:_LONGEST], ("",), (), secrets | values)
    tree = _rewritten(tree, lambda pointer, text: mask_of("secret", text) if pointer in spelled else text)
    changes = tuple(_changes(thaw(action.arguments), tree))
    masked = tuple(pointer for pointer, _, _ in changes)
    for _, was, now in changes:
        secrets |= frozenset(_taken_out(was, now))
    for longest in _LONGEST_STRINGS:
        cut: dict[str, None] = {}
        shown = canonical_json(_rewritten(tree, partial(_shortened, longest, cut)))
        if len(shown) <= _LONGEST:
            return RedactedArguments(shown, masked, tuple(cut), secrets)
    return RedactedArguments(shown[:_LONGEST], masked, ("",), secrets)


def _changes(was: object, now: object, pointer: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield where two trees differ, and the value of each there."""
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        for key, value in was.items():
            yield from _changes(value, now[key], pointer + pointer_step(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, value in enumerate(was):
            yield from _changes(value, now[index], pointer + pointer_step(index))
    elif was != now:
        yield pointer, was, now


def _taken_out(was: object, now: object) -> Iterator[str]:
    """Yield the values that masks took the place of, and how else they may be written."""
    found = _between(was, mask_form().split(now)) if isinstance(was, str) and isinstance(now, str) else None
    for value in _strings(was) if found is None else found:
        yield from (value, _QUOTES.sub("", value), percent_decoded(value))


def _between(was: str, pieces: list[str]) -> list[str] | None:
    """Return the text between some pieces of a text, or None where they are not found in it."""
    first, *others = pieces
    if not others or not was.startswith(first):
        return None
    found, position = [], len(first)
    for piece in others:
        end = was.find(piece, position) if piece else len(was)
        if end < 0:
            return None
        found.append(was[position:end])
        position = end + len(piece)
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield str(key)
            yield from _strings(child)
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child)


def _shortened(longest: int, cut: dict[str, None], pointer: str, text: str) -> str:
    """Return the beginning of a string that is too long, and note its pointer."""
    if len(text) <= longest:
        return text
    cut[pointer] = None
    return f"{text[:longest]}{CUT}"


def _rewritten(value: object, change: Callable[[str, str], str], pointer: str = "") -> object:
    """Return a tree in which every string is what `change` makes of its pointer and itself."""
    if isinstance(value, str):
        return change(pointer, value)
    if isinstance(value, dict):
        steps = {key: pointer + pointer_step(key) for key in value}
        return {key: _rewritten(child, change, steps[key]) for key, child in value.items()}
    if isinstance(value, list):
        return [_rewritten(child, change, pointer + pointer_step(i)) for i, child in enumerate(value)]
    return value
