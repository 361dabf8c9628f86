"""Print the reference of the public names, made from their docstrings.

python .ci/reference.py > docs/reference.md
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import leeward
from leeward.runtime import resources

HEAD = """\
# Reference

What programs that embed or extend Leeward rely on: every name that `leeward` and the modules below
export. The guides are [Embedding](embedding.md) and [Tools](tools.md). Made by `.ci/reference.py` from the
docstrings; a test compares the two.
"""
OPTIONS = ("RuntimeOptions", "SessionOptions")
MODULES = ("leeward", "leeward.aio", "leeward.sync", "leeward.events", "leeward.testing")
TYPES = "leeward.types"


def reference() -> Iterator[str]:
    """Yield the page, block by block."""
    yield HEAD
    for name in MODULES:
        module = importlib.import_module(name)
        yield f"## `{name}`\n"
        yield _text(module)
        for public in sorted(set(module.__all__) - {"__version__"}, key=str.lower):
            yield from _described(name, public, getattr(module, public))
    types = importlib.import_module(TYPES)
    yield f"## `{TYPES}`\n"
    yield _text(types)
    yield "".join(f"- `{name}`: {_summary(getattr(types, name))}\n" for name in types.__all__)
    yield "## Options of `Runtime.open` and `Runtime.session`\n"
    for name in OPTIONS:
        options = getattr(resources, name)
        yield f"### `{name}`\n"
        yield _text(options)
        yield _code("\n".join(f"{key}: {_written(kind)}" for key, kind in options.__annotations__.items()))


def _written(kind: Any) -> str:
    """Return an annotation as its author wrote it."""
    return str(getattr(kind, "__forward_arg__", kind))


def _described(module: str, name: str, value: Any) -> Iterator[str]:
    first = next(one for one in MODULES if getattr(importlib.import_module(one), name, None) is value)
    yield f"### `{module}.{name}`\n"
    if first != module and name in importlib.import_module(first).__all__:
        yield f"The same as `{first}.{name}`.\n"
        return
    if inspect.isclass(value):
        yield from _class(value)
    elif isinstance(value, FunctionType):
        yield _code(f"{_prefix(value)}{name}{_signature(value)}")
        yield _text(value)
    else:
        yield _alias(name, value)


def _summary(value: Any) -> str:
    """Return the first sentences about a type; of an alias, what it is an alias of."""
    if inspect.isclass(value):
        return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return f"`{re.sub(r'(?:[a-z_]+[.])+', '', str(value))}`"


def _class(value: type) -> Iterator[str]:
    bases = [_public(base).__name__ for base in value.__bases__]
    bases = [base for base in bases if base not in ("object", "Enum", "StrEnum")]
    yield _code(f"class {value.__name__}({', '.join(bases)})" if bases else f"class {value.__name__}")
    yield _text(value)
    if issubclass(value, enum.Enum):
        yield f"Members: {', '.join(f'`{member.name}`' for member in value)}.\n"
        return
    if dataclasses.is_dataclass(value):
        shown = [one for one in dataclasses.fields(value) if one.init and (one.repr or one.compare)]
        fields = "\n".join(f"{field.name}: {field.type}" for field in shown)
        yield _code(fields)
    for name, member in vars(value).items():
        if (name.startswith("_") and name != "__init__") or (name == "__init__" and _made(value)):
            continue
        yield from _member(value, name, member)


def _public(base: type) -> type:
    """Return a base, or the first class above it that a program can name."""
    ours = {id(getattr(leeward, name)) for name in leeward.__all__}
    named = (one for one in base.__mro__ if not one.__module__.startswith("leeward.") or id(one) in ours)
    return base if base.__module__.startswith("leeward.runtime.embedding") else next(named)


def _member(owner: type, name: str, member: Any) -> Iterator[str]:
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if isinstance(member, property):
        returns = inspect.signature(member.fget).return_annotation if member.fget else ""
        yield f"#### `{owner.__name__}.{name}`\n"
        yield _code(f"{name}: {returns}")
        yield _text(member)
    elif callable(getattr(member, "__wrapped__", member)) and member.__doc__:
        yield f"#### `{owner.__name__}.{name}()`\n"
        yield _code(f"{_prefix(member)}{name}{_signature(member)}")
        yield _text(member)


def _made(value: type) -> bool:
    """Whether a class has the `__init__` that a dataclass, a protocol or an exception is given."""
    given = dataclasses.is_dataclass(value) or getattr(value, "_is_protocol", False)
    return given or not inspect.getdoc(value.__init__)  # type: ignore[misc]


def _prefix(value: Any) -> str:
    function = inspect.unwrap(value)
    if inspect.isasyncgenfunction(function):
        return "async with "
    return "await " if inspect.iscoroutinefunction(function) else ""


def _signature(value: Any) -> str:
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    return re.sub(r"<(\w+\.\w+): [^>]*>", r"\1", text)


def _alias(name: str, value: Any) -> str:
    """Return what a type alias or a marker is, with the text below it in its module."""
    names = " or ".join(f"`{getattr(one, '__name__', one)}`" for one in getattr(value, "__args__", ()))
    return "\n".join(filter(None, (f"{names}.\n" if names else "", _below(name))))


def _below(name: str) -> str:
    """Return the text below an assignment, which no object holds."""
    module = leeward if name in leeward._HOMES else importlib.import_module("leeward.runtime.events")
    while home := getattr(module, "_HOMES", {}).get(name):
        module = importlib.import_module(home, module.__name__)
    body = ast.parse(inspect.getsource(module)).body
    for assigned, behind in itertools.pairwise(body):
        targets = getattr(assigned, "targets", [getattr(assigned, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            found = behind.value if isinstance(behind, ast.Expr) else None
            return f"{found.value}\n" if isinstance(found, ast.Constant) else ""
    return ""


def _code(text: str) -> str:
    lines = textwrap.wrap(text, 110, subsequent_indent="    ") if "\n" not in text else [text]
    return "```python\n" + "\n".join(lines) + "\n```\n"


def _text(value: Any) -> str:
    """Return a docstring as Markdown: code in blocks, the errors as a list."""
    text = inspect.getdoc(value) or ""
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith("Raises:"):
            errors = re.sub(r"\n        +", " ", block).split("\n")[1:]
            blocks.append("Raises:\n\n" + "\n".join(f"- {error.strip()}" for error in errors))
        elif block.startswith("    "):
            blocks.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            blocks.append(block)
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    sys.stdout.write("\n".join(reference()))
