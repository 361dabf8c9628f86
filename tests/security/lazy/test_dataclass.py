"""A dataclass generated late is the standard library's: alone, and for every class of this project."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import subprocess
import sys
import threading
from typing import ClassVar, Protocol

import pytest

from leeward.security.lazy import dataclass

DESCRIBE = """
import dataclasses, importlib, inspect, json, pkgutil, re, sys
import leeward.security.lazy as lazy
if sys.argv[1] == "standard":
    lazy.dataclass = dataclasses.dataclass

def shape(cls):
    # Of each attribute its name, and of generated functions the arguments and the code.
    own = {name: getattr(cls, name) for name in sorted(vars(cls)) if name != "__doc__"}
    return {
        "fields": [repr(field) for field in dataclasses.fields(cls)],
        "params": repr(cls.__dataclass_params__),
        "match": cls.__match_args__,
        "slots": cls.__slots__ if "__slots__" in vars(cls) else None,
        "hash": cls.__hash__ is None or cls.__hash__ is object.__hash__,
        "names": sorted(set(own)),
        "code": {
            name: [value.__code__.co_code.hex(), repr(value.__code__.co_names), repr(value.__defaults__)]
            for name, value in own.items()
            if inspect.isfunction(value) and name.startswith("__")
        },
    }

import leeward
found = {}
for module in pkgutil.walk_packages(leeward.__path__, "leeward."):
    if module.name.endswith("__main__"):
        continue
    try:
        loaded = importlib.import_module(module.name)
    except ImportError:
        continue
    for cls in list(vars(loaded).values()):
        if isinstance(cls, type) and cls.__module__ == module.name and dataclasses.is_dataclass(cls):
            found[f"{cls.__module__}.{cls.__qualname__}"] = shape(cls)
print(re.sub(" at 0x[0-9a-f]+", "", json.dumps(found)))
"""


def described(way: str) -> dict[str, dict[str, object]]:
    printed = subprocess.run(
        [sys.executable, "-c", DESCRIBE, way], capture_output=True, text=True, check=True
    ).stdout
    return json.loads(printed)


def test_every_class_of_the_project_is_as_the_standard_decorator_makes_it():
    late, standard = described("late"), described("standard")
    assert len(late) > 300 and late.keys() == standard.keys()
    assert [name for name in late if late[name] != standard[name]] == []


class Sized(Protocol):
    __slots__ = ()
    size: int


@dataclass(frozen=True, slots=True)
class Point(Sized):
    """A point."""

    x: int
    size: int = 3
    tags: list[str] = dataclasses.field(default_factory=list, compare=False)
    kept: int = dataclasses.field(default=7, init=False)
    known: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Named(Point):
    """A point with a name."""

    name: str = dataclasses.field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)


@dataclass(slots=True)
class Counter:
    """A counter."""

    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """Something that is only itself."""

    number: int


def waiting(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if type(value).__name__ == "_Deferred"}


def test_instances_behave_as_those_of_the_standard_library():
    one = Named(1, tags=["a"], name="n")
    assert repr(one) == "Named(x=1, size=3, tags=['a'], kept=7, name='n')"
    assert one == Named(1, name="n") != Named(2, name="n") and one != (1, 3, 7, "n")
    assert len({one, Named(1, name="n"), Point(1)}) == 2
    assert dataclasses.replace(one, x=5).x == 5 and dataclasses.asdict(Point(2))["size"] == 3
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == copy.copy(one) == one
    assert (
        str(inspect.signature(Point)) == "(x: 'int', size: 'int' = 3, tags: 'list[str]' = <factory>) -> None"
    )
    for change in (lambda: setattr(one, "x", 2), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises(ValueError, match="-1"):
        Named(-1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Point()
    with pytest.raises(AttributeError):
        one.tags = []
    assert not hasattr(one, "__dict__") and Named.__slots__ == ("name",) and Point.known == 1
    match one:
        case Point(x, size):
            assert (x, size) == (1, 3)
    assert one.__match_args__ == ("x", "size", "tags")


def test_a_class_that_changes_has_no_hash_and_one_without_equality_has_its_own():
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    with pytest.raises(AttributeError):
        counter.other = 1
    assert Handle(1) != Handle(1) and len({Handle(1), Handle(1)}) == 2


def test_nothing_is_generated_before_it_is_needed_and_equality_not_with_construction():
    @dataclass(frozen=True, slots=True)
    class Fresh:
        """A class nobody has used."""

        a: int

    assert {"__init__", "__eq__", "__repr__", "__hash__"} <= waiting(Fresh)
    one = Fresh(1)
    assert "__init__" not in waiting(Fresh) and {"__eq__", "__repr__", "__hash__"} <= waiting(Fresh)
    assert one == Fresh(1) and waiting(Fresh) == {"__match_args__", "__dataclass_fields__"}
    assert [field.name for field in dataclasses.fields(one)] == ["a"] and waiting(Fresh) == set()


def test_threads_that_need_it_at_once_all_get_it():
    for _ in range(20):

        @dataclass(frozen=True, slots=True)
        class Fresh:
            """A class nobody has used."""

            a: int

        together, made = threading.Barrier(8), []

        def make(cls=Fresh, together=together, made=made):
            together.wait(30)
            made.append(
                hash(cls(1)) == hash(cls(1)) and cls(1) == cls(1) and repr(cls(1))[-10:] == "Fresh(a=1)"
            )

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert made == [True] * 8


def test_a_class_without_slots_is_for_the_standard_decorator():
    with pytest.raises(TypeError, match="use the one of dataclasses"):
        dataclass(slots=False)
