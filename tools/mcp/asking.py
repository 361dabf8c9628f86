"""What a server asks the person for in the middle of a call: a few values, or an answer of the model.

A form is flat: texts, numbers, yes or no, a choice. What is asked otherwise, at length, or while it is not
clear for which call, is declined and shown to nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

import trio

from leeward.security.call import Action
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass

__all__ = ["Asker", "FieldKind", "FormField", "Requests", "form_fields"]

_T = TypeVar("_T")

_LONGEST_MESSAGE, _LONGEST_LABEL, _MOST_FIELDS, _MOST_CHOICES = 1000, 200, 8, 30
_MOST_A_CALL = 5
_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")


class FieldKind(StrEnum):
    """What a field takes."""

    TEXT = "text"
    INTEGER = "whole number"
    NUMBER = "number"
    BOOLEAN = "yes or no"
    CHOICE = "one of"


_KINDS = {
    "string": FieldKind.TEXT,
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class FormField:
    """One value that is asked for. `label`, `choices` and the name are the server's words."""

    name: str
    kind: FieldKind
    label: str
    choices: tuple[str, ...] = ()
    is_required: bool = False

    @property
    def takes(self) -> str:
        """The values it takes, in words."""
        values = f"{self.kind} {', '.join(self.choices)}" if self.choices else str(self.kind)
        return f"{values}{'' if self.is_required else ', may be left out'}"

    def value(self, typed: str) -> Json:
        """Return what was typed as a value.

        Raises:
            ValueError: it is none; the message says what is wanted.
        """
        match self.kind:
            case FieldKind.TEXT:
                return typed
            case FieldKind.CHOICE if typed in self.choices:
                return typed
            case FieldKind.BOOLEAN if typed.lower() in (*_YES, *_NO):
                return typed.lower() in _YES
            case FieldKind.INTEGER if typed.removeprefix("-").isdecimal():
                return int(typed)
            case FieldKind.NUMBER:
                return float(typed)
        raise ValueError(self.takes)


def form_fields(schema: Mapping[str, Json]) -> tuple[FormField, ...] | None:
    """Return the fields of a form, None where it holds what cannot be shown in a line each."""
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    if not isinstance(properties, Mapping) or len(properties) > _MOST_FIELDS:
        return None
    fields = [
        _field(name, node, is_required=isinstance(required, Sequence) and name in required)
        for name, node in properties.items()
    ]
    known = tuple(field for field in fields if field is not None)
    return known if len(known) == len(fields) else None


def _field(name: str, node: Json, *, is_required: bool) -> FormField | None:
    if not isinstance(node, Mapping):
        return None
    kind = _KINDS.get(str(node.get("type")))
    label = str(node.get("title") or node.get("description") or "")
    if kind is None or max(len(name), len(label)) > _LONGEST_LABEL:
        return None
    listed = _choices(node)
    if listed is None:
        return FormField(name, kind, label, (), is_required)
    choices = tuple(one for one in listed if isinstance(one, str) and len(one) <= _LONGEST_LABEL)
    if not 0 < len(choices) == len(listed) <= _MOST_CHOICES:
        return None
    return FormField(name, FieldKind.CHOICE, label, choices, is_required)


def _choices(node: Mapping[str, Json]) -> Sequence[Json] | None:
    """Return what a field may be, None where it names nothing."""
    listed, titled = node.get("enum"), node.get("oneOf")
    if isinstance(titled, list):
        return [one.get("const") if isinstance(one, Mapping) else None for one in titled]
    return listed if isinstance(listed, list) else None


class Asker(Protocol):
    """Puts what a server asks for to the person of the session that a call belongs to."""

    async def fill(
        self, server: str, action: Action, message: str, fields: Sequence[FormField]
    ) -> Mapping[str, Json] | None:
        """Return the values, None where the person declined or nobody is there."""
        ...

    async def complete(self, server: str, action: Action, rules: str, text: str) -> str | None:
        """Return what the model answers to a text, None where the person declined or nobody is there."""
        ...


class Requests:
    """The requests of one server. Each is for the one call that it works on; without one, it is declined."""

    def __init__(self, server: str, asker: Asker) -> None:
        self._server, self._asker = server, asker
        self._running: list[Action] = []
        self._open: set[trio.CancelScope] = set()
        self._asked = 0

    def begin(self, action: Action) -> None:
        """Let the server ask for a call."""
        self._running.append(action)
        self._asked = 0

    def end(self, action: Action) -> None:
        """Let it ask for that call no more; a question that is open is taken back."""
        self._running.remove(action)
        for scope in self._open:
            scope.cancel()

    async def fill(self, message: str, schema: Mapping[str, Json]) -> Mapping[str, Json] | None:
        """Return the values of a form, None where it is declined."""
        fields, action = form_fields(schema), self._call(message)
        if action is None or fields is None:
            return None
        return await self._put(self._asker.fill(self._server, action, message, fields))

    async def complete(self, rules: str, text: str) -> str | None:
        """Return the model's answer, None where it is declined."""
        action = self._call(f"{rules}{text}")
        if action is None:
            return None
        return await self._put(self._asker.complete(self._server, action, rules, text))

    async def _put(self, asked: Awaitable[_T]) -> _T | None:
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                return await asked
            finally:
                self._open.discard(scope)
        return None

    def _call(self, shown: str) -> Action | None:
        """Return the call that a request is for, None where none is or the text cannot be shown whole."""
        self._asked += 1
        is_put = len(self._running) == 1 and self._asked <= _MOST_A_CALL and len(shown) <= _LONGEST_MESSAGE
        return self._running[0] if is_put else None
