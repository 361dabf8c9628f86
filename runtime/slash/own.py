"""Commands that are Markdown files: the person's own, and those of a workspace they trust.

`/review src` sends what `commands/review.md` of the configuration folder holds, as if it were typed: that is
the person's. What `.leeward/commands/review.md` of a workspace holds is the project's: it goes along marked
as data, and only if the very bytes that are sent are those the person trusts.

`$1` to `$9` are the words behind the command and `$ARGUMENTS` all of them; where neither is, they come below
the text. A first line that is a heading says what the command is for, and is not sent. A built-in command
comes before the person's of the same name, and theirs before a workspace's.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass, regex
from leeward.security.paths import secret_reason

from ..config import COMMANDS_FOLDER, Trust, contents_of

if TYPE_CHECKING:
    from leeward.security.policy import Policy

__all__ = ["OwnCommand", "own_commands", "project_commands", "read_own", "read_project_command"]

FOLDER = "commands"
_NAME = regex(r"[a-z][a-z0-9_-]{0,31}")
_PLACE = regex(r"\$(ARGUMENTS\b|[1-9])")
_LARGEST = 64 << 10


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command, what it is for, and what it sends."""

    name: str
    summary: str
    text: str

    def filled(self, argument: str) -> str:
        """Return what is sent with these words behind the command."""
        words = argument.split()

        def word(found: re.Match[str]) -> str:
            if found[1] == "ARGUMENTS":
                return argument
            return "".join(words[int(found[1]) - 1 : int(found[1])])

        text = _PLACE.sub(word, self.text)
        is_placed = _PLACE.search(self.text) is not None
        return text if is_placed or not argument else f"{text}\n\n{argument}"


def own_commands(config: Path) -> list[OwnCommand]:
    """Return the commands there are, by name; one that cannot be read says so in its summary."""
    try:
        found = sorted(
            entry.name.removesuffix(".md") for entry in os.scandir(config / FOLDER) if _is_file(entry)
        )
    except OSError:
        return []
    commands: list[OwnCommand] = []
    for name in filter(_NAME.fullmatch, found):
        try:
            one = read_own(config, name)
        except (OSError, ValueError) as error:
            one = OwnCommand(name, f"cannot be used: {error}", "")
        commands += [one] if one is not None else []
    return commands


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".md") and entry.is_file()


def read_own(config: Path, name: str) -> OwnCommand | None:
    """Return a command, or None where no file has its name.

    Raises:
        OSError, ValueError: it cannot be read, is empty, too large, no file, or no UTF-8.
    """
    file = config / FOLDER / f"{name}.md"
    if not _NAME.fullmatch(name) or not file.exists():
        return None
    state = file.stat()
    if not stat.S_ISREG(state.st_mode) or state.st_size > _LARGEST:
        raise ValueError(f"{file} is no file of at most {_LARGEST >> 10} KiB")
    return _read(name, file.read_bytes(), str(file))


def read_project_command(name: str, trust: Trust, policy: Policy) -> OwnCommand | None:
    """Return a command of the workspace, or None where no file has its name.

    Raises:
        ValueError: it is not as the person trusts it, holds secrets, is empty, too large, or no UTF-8.
    """
    file, workspace = f"{COMMANDS_FOLDER}/{name}.md", Path(policy.workspace)
    # Read once: what is compared with the digest is what is sent, whatever is put there meanwhile.
    data = contents_of(workspace, file) if _NAME.fullmatch(name) else None
    if data is None:
        return None
    if trust.files.get(file) != hashlib.sha256(data).hexdigest():
        raise ValueError(
            f"{file} is not what you trusted; read it, and answer for it as it is now: leeward config trust"
        )
    if secret_reason(os.path.realpath(workspace / file), policy) is not None:
        raise ValueError(f"{file} leads to a file of secrets")
    if len(data) > _LARGEST:
        raise ValueError(f"{file} is larger than {_LARGEST >> 10} KiB")
    return _read(name, data, file)


def project_commands(trust: Trust, policy: Policy) -> list[OwnCommand]:
    """Return the commands of the workspace that can be used, by name."""
    folder, commands = f"{COMMANDS_FOLDER}/", []
    for file in sorted(file for file in trust.files if file.startswith(folder)):
        name = file.removeprefix(folder).removesuffix(".md")
        try:
            one = read_project_command(name, trust, policy)
        except ValueError as error:
            one = OwnCommand(name, f"cannot be used: {error}", "")
        commands += [one] if one is not None else []
    return commands


def _read(name: str, data: bytes, file: str) -> OwnCommand:
    try:
        text = data.decode("utf-8").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8") from error
    first, _, rest = text.partition("\n")
    summary = first.lstrip("#").strip() if first.startswith("#") else ""
    text = rest.strip() if summary else text
    if not text:
        raise ValueError(f"{file} holds nothing to send")
    return OwnCommand(name, summary or f"what {FOLDER}/{name}.md says", text)
