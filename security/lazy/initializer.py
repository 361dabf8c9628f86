"""The `__init__` of a dataclass that only assigns its fields, compiled alone.

The standard decorator takes four times as long for it: it looks at all that a class could be, and compiles
what compares and what refuses changes as well. The code is the same; a class that needs more than that is
left to the decorator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .names import LazyModule

if TYPE_CHECKING:
    import dataclasses
else:
    dataclasses = LazyModule("dataclasses")

__all__ = ["NO_DEFAULT", "assigning"]

NO_DEFAULT: Final = object()
_NO_PLAIN_FIELD: Final = ("InitVar", "KW_ONLY", "dataclasses.")


class _Parts(NamedTuple):
    """What a field is in the text: its parameter ("" for none), its value, what `_dflt_NAME` is."""

    parameter: str
    value: str
    default: object = NO_DEFAULT


def assigning(cls: type, fields: Mapping[str, object], *, frozen: bool) -> Callable[..., None] | None:
    """Return the `__init__` of a class that extends no dataclass; None where the decorator is needed."""
    if any(cls.__annotations__[name].startswith(_NO_PLAIN_FIELD) for name in fields) or "self" in fields:
        return None
    parts = {name: _parts(name, default) for name, default in fields.items()}
    found = {name: part for name, part in parts.items() if part is not None}
    parameters = [part.parameter for part in found.values() if part.parameter]
    if len(found) < len(fields) or parameters != sorted(parameters, key=lambda one: "=" in one):
        return None
    defaults = {
        f"_dflt_{name}": part.default for name, part in found.items() if part.default is not NO_DEFAULT
    }
    known = {"__dataclass_builtins_object__": object, "_HAS_DEFAULT_FACTORY": _factory_mark(), **defaults}
    text = "\n  ".join(
        [
            f"def make({', '.join(known)}):\n def __init__({', '.join(['self', *parameters])}):",
            *(_lines(cls, found, frozen=frozen) or ("pass",)),
        ]
    )
    made: dict[str, Any] = {}
    # The text holds names of fields and nothing else, as the decorator's own does.
    exec(f"{text}\n return __init__", getattr(sys.modules.get(cls.__module__), "__dict__", {}), made)  # noqa: S102
    initializer: Callable[..., None] = made["make"](**known)
    initializer.__qualname__ = f"{cls.__qualname__}.__init__"
    named = {name: cls.__annotations__[name] for name, part in found.items() if part.parameter}
    initializer.__annotations__ = named | {"return": None}
    return initializer


def _lines(cls: type, fields: Mapping[str, _Parts], *, frozen: bool) -> tuple[str, ...]:
    assign = "self.{0} = {1}"
    if frozen:
        assign = '__dataclass_builtins_object__.__setattr__(self, "{0}", {1})'
    lines = tuple(assign.format(name, part.value) for name, part in fields.items())
    return (*lines, "self.__post_init__()") if hasattr(cls, "__post_init__") else lines


def _parts(name: str, default: object) -> _Parts | None:
    """Return the parts of a field; None for one that the decorator has to see, or refuse."""
    if default is NO_DEFAULT:
        return _Parts(name, name)
    if type(default).__hash__ is None:
        return None
    if not hasattr(default, "default_factory"):
        return _Parts(f"{name}=_dflt_{name}", name, default)
    return _parts_of(name, default) if isinstance(default, dataclasses.Field) else None


def _parts_of(name: str, field: dataclasses.Field[Any]) -> _Parts | None:
    """Return the parts of a field that `dataclasses.field` declared."""
    missing = dataclasses.MISSING
    if field.kw_only not in (missing, False):
        return None
    if field.default_factory is not missing:
        made = f"_dflt_{name}()"
        if not field.init:
            return _Parts("", made, field.default_factory)
        value = f"{made} if {name} is _HAS_DEFAULT_FACTORY else {name}"
        mark = _factory_mark()
        return mark and _Parts(f"{name}=_HAS_DEFAULT_FACTORY", value, field.default_factory)
    if not field.init:
        return None
    return _parts(name, NO_DEFAULT if field.default is missing else field.default)


def _factory_mark() -> Any:
    """Return the mark of a missing argument in the decorator's own code; None if it has another name."""
    return getattr(dataclasses, "_HAS_DEFAULT_FACTORY", None)
