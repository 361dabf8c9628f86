"""Dataclasses whose methods are generated when they are first needed.

`@dataclass(frozen=True, slots=True)` of the standard library compiles up to six functions for a class while
its module is imported. A short run imports some four hundred such classes and makes instances of a third;
generating was two fifths of the time that its imports took.

The law of this file: a class behaves as the standard decorator's, and its functions have the same code. The
slots are set here, and an `__init__` that only assigns is compiled in `initializer.py`; all else is generated
by that decorator, from the same body. One difference is left: a class without a docstring gets none from its
signature.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from .initializer import NO_DEFAULT, assigning
from .names import LazyModule

if TYPE_CHECKING:
    import dataclasses
else:
    dataclasses = LazyModule("dataclasses")

__all__ = ["dataclass"]

_FIELDS: Final = ("__match_args__", "__dataclass_fields__")
_REST: Final = ("__repr__", "__dataclass_params__")
_REPLACING: Final = ("__replace__",) if sys.version_info >= (3, 13) else ()
_FROZEN: Final = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")


class _Deferred:
    """Something the decorator adds to a class, until it is first asked for.

    A descriptor: the interpreter finds special methods on the class and binds them, as `getattr` does.
    """

    __slots__ = ("_generate", "_name", "_owner")

    def __init__(self, generate: Callable[[], Mapping[str, Any]]) -> None:
        self._generate = generate

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Generate it together with all that waits for the same, and return it, bound."""
        # Threads that come here at once set equal things twice.
        generated = self._generate()
        for name, waiting in tuple(vars(self._owner).items()):
            if isinstance(waiting, _Deferred) and waiting._generate is self._generate:
                setattr(self._owner, name, generated[name])
        return getattr(owner if instance is None else instance, self._name)


def _decorated(cls: Any, *, frozen: bool, eq: bool) -> Any:
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    own = _own_fields(cls.__annotations__)
    extends = any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:])

    def standard(**options: bool) -> Callable[[], Mapping[str, Any]]:
        """Return what applies the decorator to a class with this body."""
        return lambda: vars(
            dataclasses.dataclass(**{"frozen": frozen, "slots": True, **options})(
                type(cls)(cls.__name__, cls.__bases__, dict(body))
            )
        )

    def initializer() -> Mapping[str, Any]:
        fields = {name: body.get(name, NO_DEFAULT) for name in own}
        made = None if extends else assigning(cls, fields, frozen=frozen)
        return standard(repr=False, eq=False)() if made is None else {"__init__": made}

    # Most instances are made and never compared, and few classes are asked for their fields: less is
    # compiled for those. A class may only extend one that is as frozen as it is.
    listing = standard(init=False, repr=False, eq=False, frozen=frozen and extends)
    rest = standard(eq=eq)
    names = (
        {"__init__": initializer}
        | dict.fromkeys(_FIELDS, listing)
        | dict.fromkeys((*_REST, *_REPLACING), rest)
    )
    if frozen:
        names |= dict.fromkeys(_FROZEN, rest)
    if eq:
        names["__eq__"] = rest
    # The interpreter sets `__hash__ = None` where a class has an `__eq__` of its own; its author did not.
    if eq and frozen and body.get("__hash__") is None and ("__hash__" not in body or "__eq__" in body):
        body.pop("__hash__", None)
        names["__hash__"] = rest
    kept = {name: value for name, value in body.items() if name not in own}
    waiting = {name: _Deferred(generate) for name, generate in names.items() if name not in kept}
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    slots = tuple(name for name in own if name not in inherited)
    return type(cls)(cls.__name__, cls.__bases__, {**kept, **waiting, "__slots__": slots})


def _own_fields(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that become fields; annotations are text in every module of this project."""
    return tuple(name for name, kind in annotations.items() if not kind.startswith("ClassVar"))


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = True) -> Callable[[type], type]:
        """Return a decorator: that of `dataclasses`, which generates when needed.

        Raises `TypeError` for a class without slots, which saves nothing here.
        """
        if not slots:
            raise TypeError("a dataclass of security.lazy has slots; use the one of dataclasses")
        return lambda cls: _decorated(cls, frozen=frozen, eq=eq)
