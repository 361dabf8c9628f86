"""What does the table say of a program that only reads, and what does it read below a folder?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..programs import Parsed, passes_over_hidden, table
from .paths import Below

__all__ = ["Program", "below_of", "program_of", "versions"]

_SIMPLE = re.compile(r"[A-Za-z0-9_.*?-]+")


@dataclass(frozen=True, slots=True)
class Program:
    """A line of the table."""

    options: str
    operands: str
    recursive: tuple[str, ...] = ()
    default: str = ""
    check: str = ""
    instead: tuple[str, ...] = ()
    quoted: bool = False
    ordered: bool = False
    follows: bool = False
    names: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    signs: str = ""
    members: bool = False


@lru_cache(maxsize=1)
def _programs() -> dict[str, Program]:
    found: dict[str, Program] = {}
    for group, lines in table("programs.toml").items():
        if group == "version":
            continue
        for name, line in lines.items():
            fields: dict[str, Any] = dict(line)
            for key in ("recursive", "instead", "names", "endings"):
                fields[key] = tuple(fields.get(key, "").split())
            found[name] = Program(**fields)
    return found


@lru_cache(maxsize=1)
def versions() -> dict[str, frozenset[str]]:
    """Return the options with which a program only tells its version, by program."""
    found: dict[str, set[str]] = {}
    for options, names in table("programs.toml")["version"].items():
        for name in names.split():
            found.setdefault(name, set()).update(options.split())
    return {name: frozenset(options) for name, options in found.items()}


def program_of(name: str) -> Program | None:
    """Return what the table says of a program."""
    return _programs().get(name)


def below_of(name: str, parsed: Parsed, found: Program) -> Below:
    """Return what a program that goes through folders opens there."""
    given = [value.text for option, value, _ in parsed.options if option in found.names and value is not None]
    names = tuple(text for text in given if not text.startswith("!"))
    # A pattern of names that is given brings hidden ones back.
    passes = name == "rg" and passes_over_hidden(parsed) and not names
    return Below(found.follows, not passes, names if all(map(_SIMPLE.fullmatch, names)) else ())
