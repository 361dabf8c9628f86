"""Profiles: `[profiles.NAME]` tables of the person's file, of which one is laid over the rest of it.

A profile holds what a file holds, but for profiles. Every one is checked at each start, so that a slip in one
is found before the day it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from .errors import ConfigProblem
from .keys import dotted, found
from .layers import Layer, problems_of
from .models import ONE_LAYER, Config

__all__ = ["PROFILE_VARIABLE", "problems_in", "without_profiles"]

PROFILE_VARIABLE = "LEEWARD_PROFILE"
_PROFILES = "profiles"


def without_profiles(layer: Layer) -> tuple[Layer, dict[str, Layer], list[ConfigProblem]]:
    """Return a file without its profiles, each of these as a layer, and what is wrong with them as tables."""
    written = layer.tree.get(_PROFILES)
    if written is None:
        return layer, {}, []
    rest = Layer(
        {name: value for name, value in layer.tree.items() if name != _PROFILES}, layer.places, layer.whole
    )
    if not isinstance(written, Mapping):
        return rest, {}, [_not_a_table(layer, (_PROFILES,), written)]
    profiles: dict[str, Layer] = {}
    problems: list[ConfigProblem] = []
    for name, tree in written.items():
        path = (_PROFILES, name)
        if not isinstance(tree, Mapping):
            problems.append(_not_a_table(layer, path, tree))
            continue
        places = {where[2:]: place for where, place in layer.places.items() if where[:2] == path}
        profiles[name] = Layer(tree, places, layer.place(path))
    return rest, profiles, problems


def problems_in(layer: Layer) -> list[ConfigProblem]:
    """Return what is wrong with a profile that is not in use."""
    try:
        Config.model_validate(layer.tree, context=ONE_LAYER)
    except ValidationError as error:
        return problems_of(error, layer)
    return []


def _not_a_table(layer: Layer, path: tuple[str, ...], value: object) -> ConfigProblem:
    return ConfigProblem(layer.place(path), dotted(path), f"found {found(value, path)}, expected a table")
