"""The evidence within a decision: what each gate said and what the call was read as, with its JSON form.

Texts in it are redacted and bounded (`record/redaction.py`), and hold all that is needed to explain the
decision and to make it again (`record/replay.py`). A field that is as it is by default does not stand in a
record, so what is added here leaves older records as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from ..kinds import Json

__all__ = ["ActionRecord", "AtomRecord", "GateVerdict"]


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The word of one gate: `allow`, `ask` or `deny`.

    `reason` is the sentence of a Deny or the question of an Ask. `where` is the file and line of the
    permission rule that spoke. `force`, `own_rule`, `suggestion` and `facts` are as in the verdict.
    """

    gate: str
    word: str
    rule: str = ""
    reason: str = ""
    where: str = ""
    suggestion: str = ""
    force: bool = False
    own_rule: bool = False
    facts: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return _said_of(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any] | list[Any]) -> GateVerdict:
        """Return what stands in a record; an older one has gate, word and rule only, as a list."""
        if isinstance(said, list):
            return cls(*said)
        return cls(**{**said, "facts": _pairs(said.get("facts", ()))})


@dataclass(frozen=True, slots=True)
class AtomRecord:
    """One string of a call as one reader took it: an atom, as it was shown.

    `pointer` is a JSON pointer into the arguments. Of a path, `real` is where it lies if that is
    elsewhere, and `mark` the keyed hash of what stood there when a change of it was shown. `unread`
    says why it could not be read; `text` is then as it came. `declared` is False for what an argument of
    no declared kind could be, too; `only_read` is as in the atom.
    """

    kind: str
    pointer: str
    text: str
    real: str = ""
    unread: str = ""
    declared: bool = True
    mark: str = ""
    only_read: bool = False

    def to_json(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return _said_of(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> AtomRecord:
        """Return what stands in a record."""
        return cls(**said)


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """A call as it was read.

    `effects` are those of this call, `declared` those of its tool (None: there is no such tool), `level`
    and `source` what the tool declared. `looked_up` holds what the machine was asked about command
    lines. `problems` are (pointer, message, category). `hidden` are the pointers of the values that do
    not stand in the record as they were, "" for all; `nearest` is the tool that may have been meant.
    """

    effects: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None
    level: str = ""
    source: str = ""
    parts: tuple[AtomRecord, ...] = ()
    looked_up: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[tuple[str, str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    nearest: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        said = _said_of(self)
        return {**said, "parts": [part.to_json() for part in self.parts]} if self.parts else said

    @classmethod
    def from_json(cls, said: Mapping[str, Any] | None) -> ActionRecord | None:
        """Return what stands in a record; an older one does not say."""
        if said is None:
            return None
        declared = said.get("declared")
        restored = {
            "effects": tuple(said.get("effects", ())),
            "declared": None if declared is None else tuple(declared),
            "parts": tuple(map(AtomRecord.from_json, said.get("parts", ()))),
            "problems": _pairs(said.get("problems", ())),
            "hidden": tuple(said.get("hidden", ())),
        }
        return cls(**{**said, **restored})


def _said_of(value: GateVerdict | AtomRecord | ActionRecord) -> dict[str, Any]:
    """Return the fields of a value without those that are as they are by default."""
    found = ((name, getattr(value, name), default) for name, default in _DEFAULTS[type(value)])
    return {name: said for name, said, default in found if default is MISSING or said != default}


def _default(told: Field[Any]) -> object:
    return told.default if told.default_factory is MISSING else told.default_factory()


_DEFAULTS: Mapping[type[object], tuple[tuple[str, object], ...]] = {
    kind: tuple((told.name, _default(told)) for told in fields(kind))
    for kind in (GateVerdict, AtomRecord, ActionRecord)
}


def _pairs(rows: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in rows)
