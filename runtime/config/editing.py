"""Change one value of a configuration file, and leave every other character as it is.

The text is changed by lines, then read again: where it does not say what was meant and nothing else, nothing
is written. A file is replaced as a whole, once it was read as a configuration.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .errors import ConfigError, ConfigProblem, ValueSource
from .layers import flag_layer
from .load import load
from .reference import toml_key, toml_value
from .toml_lines import Placed, placed_in

__all__ = ["CannotChange", "as_written", "replace_file", "text_of", "with_value"]


_MARK = "\ufeff"
"""What some editors begin a file of UTF-8 with."""


class CannotChange(ValueError):
    """A change that cannot be made by lines; the message says what to do by hand."""


def text_of(file: Path) -> str:
    """Return the text of a configuration file, "" where there is none.

    Raises:
        CannotChange: it cannot be read.
    """
    try:
        # As bytes: reading as text would turn the line ends of a file from Windows into others.
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CannotChange(f"{file} cannot be read: {error}") from error


def as_written(key: str, text: str) -> tuple[tuple[str, ...], object]:
    """Return the path of a key and the value that a person wrote for it, as flags have it.

    Raises:
        ConfigError: there is no such key.
    """
    layer, problems = flag_layer({key: text})
    if problems:
        raise ConfigError(problems)
    path = tuple(key.split("."))
    value: Any = layer.tree
    for name in path:
        value = value[name]
    return path, value


def with_value(text: str, path: tuple[str, ...], value: object) -> str:
    """Return a text in which the key at a path has a value: in its place, else in its table, else at the end.

    Raises:
        CannotChange: it is not TOML, or the key is part of an inline table or of something that is no table.
    """
    mark, text = text[: text.startswith(_MARK)], text.removeprefix(_MARK)
    try:
        before, placed = tomllib.loads(text), [*placed_in(text.replace("\r\n", "\n"))]
    except ValueError as error:
        raise CannotChange(f"it is not TOML: {error}") from error
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    try:
        literal, meant = toml_value(value), _plain(value)
    except (TypeError, ValueError) as error:
        raise CannotChange(f"{'.'.join(path)} takes neither dates nor numbers without end") from error
    changed = ending.join(_changed(lines, placed, path, literal))
    wanted = _with(before, path, meant)
    try:
        found = tomllib.loads(changed)
    except ValueError:
        found = None
    if wanted is None or found != wanted:
        key = ".".join(path)
        raise CannotChange(f"{key} is written in a way that cannot be changed by lines; change it by hand")
    return mark + changed


def _changed(lines: list[str], placed: list[Placed], path: tuple[str, ...], value: str) -> list[str]:
    line = f"{toml_key(path[-1])} = {value}"
    own = next((one for one in placed if not one.is_header and one.path == path), None)
    if own is not None:
        head, comment = lines[own.first - 1].partition("=")[0], _comment(lines, own)
        return [*lines[: own.first - 1], f"{head}= {value}{comment}", *lines[own.last :]]
    table = path[:-1]
    is_there = any(one.path == table and one.is_header for one in placed)
    if table and is_there:
        # The keys below a header belong to it until the next one.
        last = max(one.last for one in placed if (one.path if one.is_header else one.path[:-1]) == table)
        return [*lines[:last], line, *lines[last:]]
    if len(path) == 1:
        return [line, *lines]
    header = f"[{'.'.join(map(toml_key, table))}]"
    body = "\n".join(lines).rstrip("\n")
    return [*(body.split("\n") if body else []), *([""] if body else []), header, line, ""]


def _comment(lines: list[str], own: Placed) -> str:
    """Return the comment behind a value of one line, with the blanks before it.

    Raises:
        CannotChange: the value has several lines, and a comment in it would be lost.
    """
    line = lines[own.first - 1]
    if own.first != own.last:
        if any("#" in one for one in lines[own.first - 1 : own.last]):
            raise CannotChange(f"{'.'.join(map(str, own.path))} may hold comments in it; change it by hand")
        return ""
    for at, char in enumerate(line):
        if char == "#" and _is_comment_at(line, at):
            bare = line[:at].rstrip()
            return line[len(bare) :]
    return ""


def _is_comment_at(line: str, at: int) -> bool:
    """Whether what is before a number sign is a statement of its own."""
    try:
        return bool(tomllib.loads(line[:at]))
    except ValueError:
        return False


def _with(tree: Mapping[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any] | None:
    """Return a tree with a value at a path, None where something on the way is no table."""
    first, *rest = path
    if not rest:
        return {**tree, first: value}
    inner = tree.get(first, {})
    changed = _with(inner, tuple(rest), value) if isinstance(inner, dict) else None
    return None if changed is None else {**tree, first: changed}


def _plain(value: object) -> object:
    """Return a value as TOML gives it back."""
    return tomllib.loads(f"value = {toml_value(value)}")["value"]


def _in_file(error: ConfigError, name: str, file: Path) -> Iterator[ConfigProblem]:
    for one in error.problems:
        is_ours = one.source.file == name
        yield replace(one, source=ValueSource(str(file), one.source.line)) if is_ours else one


def replace_file(file: Path, text: str) -> None:
    """Put a text in the place of a file, once it was read as a configuration; readers see either.

    Raises:
        ConfigError: it is no configuration; the file is as it was.
        OSError: it cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    made = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
            opened.write(text)
        try:
            load(file=made, environment={})
        except ConfigError as error:
            raise ConfigError(_in_file(error, name, file)) from error
        if file.exists():
            made.chmod(file.stat().st_mode & 0o7777)
        made.replace(file)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
