"""The commands `leeward tools` and `leeward config`. Only `config trust` and `config set` write anything."""

from __future__ import annotations

import os
from pathlib import Path

from leeward.security.kinds import Json
from leeward.security.session import Session

from ..config import (
    CannotChange,
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
        CliError: the person's answer could not be recorded.
    """
    if options.action == "set":
        return _set(options, printer)
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
            values = configured_values(start.loaded)
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
    if len(options.words) != 2:
        raise CliError(Exit.ARG_ERROR, "USAGE", "usage: leeward config set KEY VALUE")
    key, written = options.words
    named = options.config or os.environ.get("LEEWARD_CONFIG")
    file = Path(os.path.realpath(named or config_folder() / "config.toml"))
    path, value = as_written(key, written)
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
