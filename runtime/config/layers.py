"""Read one layer of configuration (file, environment, flags) and report what is invalid in it.

A layer is what was written, as a tree, with the place of every key. Merging layers, and limiting what a
workspace may set, is done in `load.py`.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from leeward.security.lazy import dataclass, regex

from .errors import ConfigError, ConfigProblem, ValueSource
from .keys import KEYS, SECTIONS, Key, dotted, expected_at, found, nearest, printable
from .toml_lines import KeyPath, key_lines

__all__ = ["ABSENT", "DEFAULT", "Layer", "environment_layer", "file_layer", "flag_layer", "problems_of"]

_PREFIX = "LEEWARD_"
_FILE_VARIABLE = "LEEWARD_CONFIG"
_LARGEST = 1024 * 1024
_MOST = 50
_SECRET_NAME = regex(r"(?i)(?:\w+[_-])?(?:api[_-]?)?(?:key|token|secret|password|passwd)")

DEFAULT = ValueSource("default")


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one layer: tables within tables, and the place of each path in it."""

    tree: Mapping[str, object]
    places: Mapping[KeyPath, ValueSource] = field(default_factory=dict)
    whole: ValueSource = DEFAULT

    def place(self, path: KeyPath) -> ValueSource:
        """Return where a path was set: its own place, or that of the nearest table around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, self.whole)


ABSENT = Layer({})
"""What a file that is not there says."""


def file_layer(path: Path, label: str, *, required: bool) -> Layer:
    """Read a TOML file; one that is not there and need not be says nothing.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        raw = _contents(path)
    except FileNotFoundError:
        if not required and not path.is_symlink():
            return ABSENT
        raise _unusable(label, "there is no such file") from None
    except OSError as error:
        which = "it" if label == str(path) else str(path)
        raise _unusable(label, f"{which} cannot be read: {error.strerror}") from None
    text = _decoded(raw, label)
    tree = _parsed(text, label)
    places = {key: ValueSource(label, line) for key, line in key_lines(text).items()}
    return Layer(tree, places, ValueSource(label))


def _unusable(label: str, reason: str, line: int | None = None) -> ConfigError:
    return ConfigError([ConfigProblem(ValueSource(label, line), "", printable(reason))])


def _contents(path: Path) -> bytes:
    """Read a regular file up to a byte beyond the largest size; a pipe must not hang the start."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file")
        with open(handle, "rb", closefd=False) as file:
            return file.read(_LARGEST + 1)
    finally:
        os.close(handle)


def _decoded(raw: bytes, label: str) -> str:
    if len(raw) > _LARGEST:
        raise _unusable(label, "it is larger than 1 MiB")
    if b"\0" in raw:
        raise _unusable(label, "it is binary, not text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unusable(label, f"byte 0x{raw[error.start]:02x} is not UTF-8", line) from None


def _parsed(text: str, label: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _unusable(label, "not TOML: tables or lists are nested too deep") from None
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.DOTALL)
        last = text.rstrip().count("\n") + 1
        reason, line = (found[1], int(found[2] or last)) if found else (str(error), last)
        raise _unusable(label, f"not TOML: {reason}", line) from None
    except ValueError:
        raise _unusable(label, "not TOML: a number is too long") from None


def environment_layer(
    environment: Mapping[str, str], spared: Iterable[str]
) -> tuple[Layer, list[ConfigProblem]]:
    """Read the `LEEWARD_*` variables, and name those that are not Leeward's.

    `LEEWARD_AGENT__MAX_TURNS` is `agent.max_turns`. `spared` names variables that mean something
    else, such as a provider's key.
    """
    tree: dict[str, object] = {}
    places: dict[KeyPath, ValueSource] = {}
    problems: list[ConfigProblem] = []
    passed_over = {_FILE_VARIABLE, *spared}
    for name in sorted(environment):
        if not name.startswith(_PREFIX) or name in passed_over:
            continue
        source = ValueSource(f"environment {name}")
        path = tuple(name.removeprefix(_PREFIX).lower().split("__"))
        key = _key_of(path)
        if key is None or name != name.upper():
            problems.append(ConfigProblem(source, "", "unknown variable", hint=_meant_variable(name)))
            continue
        _put(tree, path, _read_value(environment[name], key, path))
        places[path] = source
    return Layer(tree, places, ValueSource("environment")), problems


def flag_layer(flags: Mapping[str, object]) -> tuple[Layer, list[ConfigProblem]]:
    """Read values given by dotted key; None means that the flag was not given. Strings may be TOML values."""
    tree: dict[str, object] = {}
    places: dict[KeyPath, ValueSource] = {}
    problems: list[ConfigProblem] = []
    for name, value in flags.items():
        path = tuple(name.split("."))
        key = _key_of(path)
        if key is None:
            problems.append(
                ConfigProblem(
                    ValueSource("flag"), printable(name), "unknown key", hint=_meant_key(path, is_full=True)
                )
            )
        elif value is not None:
            _put(tree, path, _read_value(value, key, path) if isinstance(value, str) else value)
            places[path] = ValueSource("flag")
    return Layer(tree, places, ValueSource("flag")), problems


def _key_of(path: KeyPath) -> Key | None:
    """Return the key a path names, as a whole or as one entry of a table with free names."""
    table = KEYS.get(path[:-1])
    return KEYS.get(path) or (table if table is not None and table.is_table and path[-1] else None)


def _put(tree: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Set a path in a tree; a value in the place of a table is left there to be complained about."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            return
    tree[path[-1]] = {**tree.get(path[-1], {}), **value} if isinstance(value, dict) else value


def _read_value(text: str, key: Key, path: KeyPath) -> object:
    """Read a TOML value; where a string is wanted, and where it is not TOML, take the words as they are."""
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    wants_words = key.is_text or path != key.path
    if set(read) != {"value"} or (wants_words and not isinstance(read["value"], str)):
        return text
    return read["value"]


def _meant_variable(name: str) -> str:
    names = [_FILE_VARIABLE.removeprefix(_PREFIX).lower(), *("__".join(map(str, path)) for path in KEYS)]
    close = nearest(name.removeprefix(_PREFIX), names)
    return f"did you mean {_PREFIX}{close.upper()}?" if close else ""


def _meant_key(path: KeyPath, *, is_full: bool = False) -> str:
    """Find what a misspelt key may have meant: a sibling, else a key of that name in another table.

    In a file a sibling has no table before its name; where there is none around it, `is_full`.
    """
    parent, name = path[:-1], str(path[-1])
    siblings = _names_in(parent)
    close = nearest(name, siblings)
    if close is not None:
        return f"did you mean {dotted((*parent, close)) if is_full else close}?"
    elsewhere = [dotted(other) for other in (*KEYS, *SECTIONS) if other and other[-1] == name]
    return f"did you mean {elsewhere[0]}?" if elsewhere else ""


def _names_in(parent: KeyPath) -> list[str]:
    section = SECTIONS.get(parent)
    if section is None and len(parent) > 1 and parent[:-1] in KEYS:
        section = KEYS[parent[:-1]].entry
    return list(section.model_fields) if section is not None else []


def problems_of(error: ValidationError, layer: Layer) -> list[ConfigProblem]:
    """Put a model's complaints into problems, in the order of the lines."""
    complaints: list[dict[str, Any]] = [dict(one) for one in error.errors(include_url=False)]
    complaints.sort(key=lambda one: layer.place(one["loc"]).line or 0)
    problems = [_problem(one, layer) for one in complaints[:_MOST]]
    if len(complaints) > _MOST:
        problems.append(ConfigProblem(layer.whole, "", f"{len(complaints) - _MOST} more problems"))
    return problems


def _problem(complaint: dict[str, Any], layer: Layer) -> ConfigProblem:
    """Put one complaint of pydantic into our words."""
    loc: KeyPath = complaint["loc"]
    context: dict[str, Any] = complaint.get("ctx", {})
    if complaint["type"] == "extra_forbidden":
        return _unknown(loc, layer)
    if complaint["type"] == "missing":
        return ConfigProblem(layer.place(loc), dotted(loc), "nothing", expected_at(loc))
    if complaint["type"] == "mismatch":
        return _mismatch(loc, complaint["input"], context, layer)
    value, expected = complaint["input"], expected_at(loc)
    hint = str(context["error"]) if isinstance(context.get("error"), ValueError) else _meant_word(value, loc)
    # pydantic puts "[key]" behind the name of an entry where that name itself is wrong.
    shown = dotted(loc[:-1] if loc[-1] == "[key]" else loc)
    return ConfigProblem(layer.place(loc), shown, found(value, loc), expected, hint)


def _unknown(loc: KeyPath, layer: Layer) -> ConfigProblem:
    if _SECRET_NAME.fullmatch(str(loc[-1])):
        hint = "name its variable in api_key_env or its file in api_key_file"
        what = "keys and passwords do not belong in the configuration"
        return ConfigProblem(layer.place(loc), dotted(loc), what, hint=hint)
    return ConfigProblem(layer.place(loc), dotted(loc), "unknown key", hint=_meant_key(loc))


def _mismatch(loc: KeyPath, table: Mapping[str, Any], context: dict[str, Any], layer: Layer) -> ConfigProblem:
    """Blame the key the model names, at the place of its neighbour if only that one was set."""
    path = (*loc, context["key"])
    place = layer.place(path)
    if place == DEFAULT:
        place = layer.place((*loc, context["beside"]))
    return ConfigProblem(place, dotted(path), found(table.get(context["key"]), path), context["expected"])


def _meant_word(value: object, loc: KeyPath) -> str:
    words = re.findall(r'"(\w+)"', expected_at(loc))
    close = nearest(value, words) if isinstance(value, str) and "not shown" not in found(value, loc) else None
    return f'did you mean "{close}"?' if close else ""
