"""How does what a model said stand in the store? As it was said, but for the secrets in it.

What is sent while a session runs is what was said. Only what is read back, by a later start, a list or an
export, has masks in it: a call stays a call with its id and its arguments in JSON, so that the history
is still one that a service accepts. The person's own words are kept as they were typed. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leeward.security.kinds import Json
from leeward.security.text import redact_text

__all__ = ["at_rest"]


def at_rest(content: Json, secrets: Collection[str]) -> Json:
    """Return what is kept of an assistant's message; `secrets` are the values known for such."""
    match content:
        case {"text": str(text), "calls": [*calls]} if isinstance(content, Mapping):
            kept = [_call(call, secrets) for call in calls]
            return {**content, "text": redact_text(text, secrets), "calls": kept}
        case _:
            return content


def _call(call: Json, secrets: Collection[str]) -> Json:
    match call:
        case [call_id, name, str(arguments)]:
            return [call_id, name, _arguments(arguments, secrets)]
        case _:
            return call


def _arguments(text: str, secrets: Collection[str]) -> str:
    """Return arguments without secrets, however those are spelled; what was JSON still is."""
    try:
        given = json.loads(text)
        masked = _masked(given, secrets)
        text = text if masked == given else json.dumps(masked, ensure_ascii=False)
    except (ValueError, RecursionError):
        return redact_text(text, secrets)
    # Some are known only by the name before them; where a mask takes a bracket along, it stays with the rest.
    whole = redact_text(text, secrets)
    return whole if whole != text and _is_json(whole) else text


def _masked(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, str):
        return redact_text(value, secrets)
    if isinstance(value, Mapping):
        return {redact_text(key, secrets): _masked(child, secrets) for key, child in value.items()}
    if isinstance(value, Sequence):
        return [_masked(child, secrets) for child in value]
    return value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
