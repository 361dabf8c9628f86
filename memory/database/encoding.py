"""How do the values within the record of a decision stand there as JSON, and come back the same?

What says nothing is left out: a field that has its default is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from leeward.security.kinds import Json
from leeward.security.session import Part, Reading, Said

__all__ = ["evidence_json", "reading_of", "said_of"]


def evidence_json(value: Said | Part | Reading) -> dict[str, Json]:
    """Return a value as a JSON object, without what is as it is by default."""
    found = ((name, getattr(value, name), default) for name, default in _DEFAULTS[type(value)])
    return {name: said for name, said, default in found if default is MISSING or said != default}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


_DEFAULTS: Mapping[type[Any], tuple[tuple[str, Any], ...]] = {
    kind: tuple((field.name, _default(field)) for field in fields(kind)) for kind in (Said, Part, Reading)
}


def said_of(said: Mapping[str, Any] | list[Any]) -> Said:
    """Return what a gate said; an older record has gate, word and rule only, as a list."""
    if isinstance(said, list):
        return Said(*said)
    return Said(**{**said, "facts": _pairs(said.get("facts", ()))})


def reading_of(said: Mapping[str, Any] | None) -> Reading | None:
    """Return what a call was read as; an older record does not say."""
    if said is None:
        return None
    declared = said.get("declared")
    return Reading(
        **{
            **said,
            "effects": tuple(said.get("effects", ())),
            "declared": None if declared is None else tuple(declared),
            "parts": tuple(Part(**part) for part in said.get("parts", ())),
            "problems": _pairs(said.get("problems", ())),
            "hidden": tuple(said.get("hidden", ())),
        }
    )


def _pairs(rows: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in rows)
