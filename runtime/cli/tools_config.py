"""The commands `leeward tools` and `leeward config`; of these `config trust`, `set` and `edit` write."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from leeward.security.kinds import Json
from leeward.security.outcome import PermanentFailure
from leeward.security.session import Session
from leeward.tools.process import at_terminal

from ..config import (
    CannotChange,
    ConfigError,
    as_written,
    brought_by,
    config_folder,
    dotted,
    is_private,
    purpose_of,
    replace_file,
    set_trusted,
    text_of,
    toml_value,
    with_value,
)
from ..console import Startup, look
from ..describe import configured_values, effects_of, level_of, tool_line
from ..dry_run import policy_of, specs_of
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer, plain

__all__ = ["config", "tools"]

_EDITORS = ("editor", "nano", "vi", "emacs")
_FIRST = """\
# Your configuration. config.example.toml of the documentation has every key with its default;
# what cannot be used is refused before it is put in place. Another way: leeward config set KEY VALUE
"""


async def tools(options: Options, printer: Printer) -> Exit:
    """List the tools: name, trust, effects, what for."""
    start = look(options)
    session = Session("look", policy_of(start))
    specs = specs_of(start)
    rows: list[dict[str, Json]] = []
    for spec in specs:
        level, why = level_of(spec, session)
        rows.append(
            {
                "name": spec.name,
                "description": spec.description,
                "source": spec.source,
                "level": level.name.lower(),
                "level_from": why,
                "effects": effects_of(spec.effects).split(", "),
                "timeout": spec.timeout,
                "parameters": dict(spec.schema),
            }
        )
    printer.answer("".join(f"{tool_line(spec, session)}\n" for spec in specs))
    for one in rows:
        printer.event({"schema": 1, "type": "tool", **one})
    return printer.finish(Exit.SUCCESS, {"tools": rows})


async def config(options: Options, printer: Printer) -> Exit:
    """Show the values and where each was set, or the files; or record whether a workspace is trusted.

    Raises:
        CliError: the person's answer could not be recorded, or no key begins with what was asked for.
    """
    if options.action == "set":
        return _set(options, printer)
    if options.action == "edit":
        return await trio.to_thread.run_sync(_edit, options, printer)
    start = look(options)
    match options.action:
        case "path":
            answer: dict[str, Json] = {
                "config": str(config_folder() / "config.toml"),
                "read": [str(file) for file in start.loaded.files],
                "data": str(start.places.data),
                "database": str(start.places.database),
            }
            lines = [f"{name:<9} {value}" for name, value in answer.items() if isinstance(value, str)]
            lines += [f"read      {file}" for file in start.loaded.files]
        case "trust" | "distrust":
            answer = _note_trust(start, trusted=options.action == "trust")
            read = "is read as it is now" if answer["trusted"] else "is not read"
            lines = [f"{answer['workspace']}: what it brings {read}", *_brought_lines(start)]
        case _:
            values = configured_values(start.loaded, options.name)
            if not values:
                what = f"no key begins with {options.name}"
                raise CliError(Exit.NOT_FOUND, "NOT_FOUND", what, suggestion="leeward config show")
            answer = {"values": values}
            lines = [f"{key} = {toml_value(one['value'])}  ({one['source']})" for key, one in values.items()]
    printer.answer("".join(f"{plain(line)}\n" for line in lines))
    printer.event({"schema": 1, "type": "config", **answer})
    return printer.finish(Exit.SUCCESS, answer)


def _set(options: Options, printer: Printer) -> Exit:
    """Write one value into the person's file, or into one of its profiles; nothing else in it changes.

    Raises:
        CliError: there is no such key, the value does not fit, or the file cannot be changed so.
    """
    (written,) = options.words
    file = _file(options)
    path, value = as_written(options.name, written)
    whole = ("profiles", options.profile, *path) if options.profile else path
    try:
        replace_file(file, with_value(text_of(file), whole, value))
    except CannotChange as error:
        what = f"the configuration was not changed: {error}"
        raise CliError(Exit.ARG_ERROR, "CONFIG_ERROR", what) from error
    except OSError as error:
        what = f"{file} cannot be written: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", what) from error
    shown = toml_value(value) if not is_private(path) else "(a secret)"
    printer.answer(f"{plain(f'{dotted(whole)} = {shown}, in {file}')}\n")
    answer: dict[str, Json] = {"key": dotted(whole), "file": str(file)}
    printer.event({"schema": 1, "type": "config", **answer})
    return printer.finish(Exit.SUCCESS, answer)


def _file(options: Options) -> Path:
    """Return the person's file."""
    named = options.config or os.environ.get("LEEWARD_CONFIG")
    return Path(os.path.realpath(named or config_folder() / "config.toml"))


def _edit(options: Options, printer: Printer) -> Exit:
    """Have a draft of the person's file edited, and put it in place once it can be read.

    Raises:
        CliError: nobody could edit it, or what was written cannot be used; the draft is kept then.
    """
    file = _file(options)
    draft, editor = file.with_name(f"{file.name}.draft"), _editor()
    try:
        before = text_of(file)
        if not draft.exists():
            _write_draft(draft, before or _FIRST)
        _run(editor, draft)
        text = text_of(draft)
        is_changed = text not in {before, _FIRST}
        if is_changed:
            replace_file(file, text)
        draft.unlink()
    except ConfigError:
        printer.warn(f"{file} is as it was; leeward config edit opens what you wrote, kept in {draft}")
        raise
    except CannotChange as error:
        raise CliError(Exit.ARG_ERROR, "CONFIG_ERROR", str(error)) from error
    except OSError as error:
        what = f"{error.filename or file} cannot be written: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", what) from error
    printer.answer(f"{plain(f'{file} was changed' if is_changed else 'nothing was changed')}\n")
    answer: dict[str, Json] = {"file": str(file), "changed": is_changed}
    printer.event({"schema": 1, "type": "config", **answer})
    return printer.finish(Exit.SUCCESS, answer)


def _write_draft(draft: Path, text: str) -> None:
    draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # It may hold keys.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
        opened.write(text)


def _editor() -> list[str]:
    """Return the command of the person's editor.

    Raises:
        CliError: there is no terminal, or no editor.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        why, how = "an editor needs a terminal", "leeward config set KEY VALUE"
        raise CliError(Exit.PRECONDITION, "INPUT_REQUIRED", why, suggestion=how)
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    words = shlex.split(named) or [name for name in _EDITORS if shutil.which(name)][:1]
    if not words:
        why = "no editor was found"
        raise CliError(Exit.PRECONDITION, "NOT_FOUND", why, suggestion="name yours in EDITOR")
    return words


def _run(editor: Sequence[str], draft: Path) -> None:
    """Run an editor at the terminal, to its end.

    Raises:
        CliError: it could not be started, or says that it failed.
    """
    try:
        code = at_terminal([*editor, str(draft)])
    except PermanentFailure as error:
        raise CliError(Exit.PRECONDITION, "NOT_FOUND", f"{editor[0]}: {error}") from error
    if code:
        why = f"{editor[0]} ended with exit code {code}; nothing was changed, and the draft is kept: {draft}"
        raise CliError(Exit.GENERAL_ERROR, "EDITOR_FAILED", why)


def _brought_lines(start: Startup) -> list[str]:
    names = brought_by(start.places.workspace, nested=True)
    return [f"  {name:<32}  {purpose_of(name)}" for name in names]


def _note_trust(start: Startup, *, trusted: bool) -> dict[str, Json]:
    try:
        set_trusted(start.places.data, start.places.workspace, trusted)
    except OSError as error:
        why = f"could not be noted: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", why) from error
    return {"workspace": str(start.places.workspace), "trusted": trusted}
