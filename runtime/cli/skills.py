"""`leeward skills`: which skills there are, what one says, how far each is trusted; add or remove one.

A skill that is added is copied as it is, and quarantined until the person raises it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from leeward.security.kinds import Json
from leeward.security.text import visible
from leeward.security.trust import TrustLevel
from leeward.tools.skills import Skill, SkillError, Skills, digest_of, read_skill

from ..console import look
from ..conversation import SKILLS_FOLDER, list_skills, skill_parents, skill_store
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer

__all__ = ["skills"]


async def skills(options: Options, printer: Printer) -> Exit:
    """List, show, trust, add or remove skills.

    Raises:
        CliError: there is no such skill, it cannot be used, or the disk refuses.
    """
    return await trio.to_thread.run_sync(partial(_skills, options, printer))


def _skills(options: Options, printer: Printer) -> Exit:
    places = look(options).places
    found = Skills(skill_parents(places), skill_store(places), _nothing)
    try:
        match options.action:
            case "list":
                return _list(found, printer)
            case "add":
                return _add(Path(options.name), places.config / SKILLS_FOLDER, printer)
            case "remove":
                return _remove(options.name, places.config / SKILLS_FOLDER, printer)
            case "trust":
                return _trust(found, options, printer)
            case _:
                return _show(found, options.name, printer)
    except SkillError as error:
        raise CliError(Exit.ARG_ERROR, "SKILL_ERROR", visible(str(error))) from error
    except OSError as error:
        what = visible(f"nothing was changed: {error.filename or options.name}: {error.strerror}")
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", what) from error


async def _nothing(_: Skill) -> None:
    """No session is there that could follow a skill."""


def _folder(found: Skills, name: str) -> Path:
    folder = found.folders().get(name)
    if folder is None:
        what = visible(f"there is no skill {name}")
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", what, suggestion="leeward skills list")
    return folder


def _row(name: str, folder: Path, level: str, digest: str = "") -> dict[str, Json]:
    return {"name": name, "folder": str(folder), "level": level, "digest": digest}


def _print(printer: Printer, rows: Sequence[dict[str, Json]], data: dict[str, Json]) -> Exit:
    for row in rows:
        printer.event({"schema": 1, "type": "skill", **row})
    return printer.finish(Exit.SUCCESS, data)


def _list(found: Skills, printer: Printer) -> Exit:
    listed = list_skills(found)
    printer.answer("".join(f"{one.line}\n" for one in listed) or "there are no skills\n")
    rows = [_row(one.name, one.folder, one.level, one.digest) for one in listed]
    return _print(printer, rows, {"skills": [*rows]})


def _show(found: Skills, name: str, printer: Printer) -> Exit:
    """Show what a skill says, for the person to read before they trust it."""
    skill = read_skill(_folder(found, name))
    document, level = skill.document, found.store.level(skill.folder, skill.digest)
    uses = "any" if document.allowed_tools is None else " ".join(document.allowed_tools) or "none"
    head = {
        "name": name,
        "level": level.name.lower(),
        "folder": str(skill.folder),
        "digest": skill.digest,
        "description": document.description,
        "license": document.license,
        "compatibility": document.compatibility,
        "tools": uses,
        "secrets": " ".join(document.secrets),
        "files": ", ".join(sorted(skill.files)),
    }
    lines = [f"{key:<14} {value}" for key, value in head.items() if value]
    raises = f"leeward skills trust {name} LEVEL --seal {skill.seal} raises it as it is here"
    shown = (*lines, "", *document.body.rstrip().split("\n"), "", raises)
    printer.answer("".join(f"{visible(line)}\n" for line in shown))
    row = _row(name, skill.folder, level.name.lower(), skill.digest)
    return _print(
        printer, [row], {**head, "seal": skill.seal, "files": sorted(skill.files), "body": document.body}
    )


def _trust(found: Skills, options: Options, printer: Printer) -> Exit:
    """Note how far a skill is trusted as it was shown; what cannot be used can be blocked, too."""
    folder, level = _folder(found, options.name), TrustLevel[options.level.upper()]
    if level is TrustLevel.BLOCKED:
        digest, held = _digest(folder), ""
    else:
        skill = read_skill(folder)
        if level < TrustLevel.QUARANTINED:
            _check_seal(skill, options.seal)
        digest, held = skill.digest, ", as it is now: whatever changes in its folder quarantines it"
    found.store.set(folder, digest, level)
    printer.answer(f"{options.name} is {options.level}{held}\n")
    row = _row(options.name, folder, options.level, digest)
    return _print(printer, [row], row)


def _digest(folder: Path) -> str:
    """Return the digest that a block holds for wherever these bytes lie; "" of what has none."""
    try:
        return digest_of(folder)
    except SkillError:
        return ""


def _check_seal(skill: Skill, given: str) -> None:
    """Refuse to trust what the person was not shown: a folder may change from one moment to the next.

    Raises:
        CliError: no seal was given, or another.
    """
    if given == skill.seal:
        return
    name = skill.document.name
    why = "changed since you were shown it" if given else "may have changed since you were shown it"
    how = f"leeward skills show {name} shows it with its --seal"
    raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"{name} {why}; nothing was noted", suggestion=how)


def _add(source: Path, own: Path, printer: Printer) -> Exit:
    """Copy a folder to the person's skills: what was read is what is written."""
    source = source.resolve()
    skill = read_skill(source)
    target = own / skill.document.name
    if target.exists():
        what = f"there is a skill {skill.document.name} already"
        raise CliError(Exit.ARG_ERROR, "SKILL_ERROR", what, suggestion=f"leeward skills remove {target.name}")
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".adding-", dir=own))
    try:
        for name, content in skill.contents().items():
            file = made / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o755 if name in skill.runs else 0o644)
        made.chmod(0o755)
        made.rename(target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    printer.answer(
        f"{target.name} was added to {own}, quarantined; leeward skills show {target.name} shows it, and how "
        "to trust it\n"
    )
    row = _row(target.name, target, "quarantined", skill.digest)
    return _print(printer, [row], row)


def _remove(name: str, own: Path, printer: Printer) -> Exit:
    folder = own / name
    if Path(name).name != name or not folder.is_dir() or folder.is_symlink():
        what = visible(f"there is no skill {name} in {own}")
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", what, suggestion="leeward skills list")
    shutil.rmtree(folder)
    printer.answer(f"{name} was removed from {own}\n")
    row = _row(name, folder, "removed")
    return _print(printer, [row], row)
