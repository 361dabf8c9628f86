"""Definitions of sub-agents: a Markdown file each, with a front matter of what one is for and what bounds it.

Those of the person lie in `agents/` of the configuration folder, those of a workspace in `.leeward/agents/`,
where the person trusts their contents. Of two with one name the person's own counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from leeward.security.lazy import dataclass, regex
from leeward.security.policy import Autonomy
from leeward.tools.front_matter import FrontMatter, FrontMatterError, tool_names

from ..config import AGENTS_FOLDER, Locations, contents_of, trust_in

__all__ = ["OWN_FOLDER", "AgentDefinition", "definitions", "read_definition"]

OWN_FOLDER = "agents"
_NAME = regex(r"[a-z][a-z0-9_-]{0,31}")
_LARGEST = 64 << 10
_MOST, _MOST_TURNS, _USUAL_TURNS = 50, 200, 20
_LONGEST_DESCRIPTION = 1024
_READING = "read list_directory find_path grep read_overflow memory_search load_skill".split()


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A sub-agent: `text` is its prompt, `tools` are globs of what it may call.

    `model` is as `--model` has it, "" for the one of the session. `place` is its file as it is shown, and
    `is_own` tells that it is the person's, not a workspace's.
    """

    name: str
    description: str
    text: str
    tools: tuple[str, ...]
    autonomy: Autonomy
    max_turns: int
    model: str
    place: str
    is_own: bool


def definitions(places: Locations) -> tuple[dict[str, AgentDefinition], list[str]]:
    """Return the sub-agents by name, and what is wrong with files that are none; this waits for the disk."""
    found: dict[str, AgentDefinition] = {}
    problems: list[str] = []
    for file, name, content in (*_own(places.config / OWN_FOLDER), *_brought(places)):
        try:
            one = read_definition(content, name, file, is_own=Path(file).is_absolute())
        except FrontMatterError as error:
            problems.append(str(error))
        else:
            found.setdefault(one.name, one)
    return found, problems


def _own(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    try:
        files = sorted(folder.glob("*.md"))
    except OSError:
        return
    for file in files[:_MOST]:
        try:
            if file.is_file():
                with file.open("rb") as opened:
                    yield str(file), file.stem, opened.read(_LARGEST + 1)
        except OSError:
            continue


def _brought(places: Locations) -> Iterator[tuple[str, str, bytes]]:
    trust = trust_in(places)
    for name, digest in trust.files.items() if trust.answer is True else ():
        if not name.startswith(f"{AGENTS_FOLDER}/"):
            continue
        content = contents_of(places.workspace, name)
        # What is used is what was trusted: a file that was swapped meanwhile is not.
        if content is not None and hashlib.sha256(content).hexdigest() == digest:
            yield name, Path(name).stem, content


def read_definition(content: bytes, name: str, file: str, *, is_own: bool) -> AgentDefinition:
    """Return what a file defines; `name` is its own without the ending, `file` how messages name it.

    Raises:
        FrontMatterError: it is none, or a value in it cannot be used.
    """
    if len(content) > _LARGEST:
        raise FrontMatterError(f"{file}: it is larger than {_LARGEST >> 10} KiB")
    try:
        front = FrontMatter(content.decode("utf-8"), file)
    except UnicodeDecodeError as error:
        raise FrontMatterError(f"{file}: it is not UTF-8") from error
    description = " ".join(front.text("description").split())
    if not 0 < len(description) <= _LONGEST_DESCRIPTION:
        front.refuse("description", f"a description has 1 to {_LONGEST_DESCRIPTION:,} characters")
    if _NAME.fullmatch(name) is None or front.text("name", name) != name:
        front.refuse("name", "its name is that of its file: up to 32 small letters, digits, - and _")
    if not front.body:
        front.refuse("description", "nothing follows that could be its prompt")
    return AgentDefinition(
        name,
        description,
        front.body,
        _tools(front),
        _autonomy(front),
        _turns(front),
        front.text("model", ""),
        file,
        is_own,
    )


def _tools(front: FrontMatter) -> tuple[str, ...]:
    words = front.words("tools")
    if words is None:
        return tuple(_READING)
    if any("(" in word for word in words):
        front.refuse("tools", "a tool is named alone; what it may be called for is judged as for your model")
    return tuple(dict.fromkeys(name for word in words for name in tool_names(word)))


def _autonomy(front: FrontMatter) -> Autonomy:
    word = front.text("autonomy", Autonomy.SUPERVISED)
    if word not in {*Autonomy}:
        front.refuse("autonomy", f"it is one of {', '.join(Autonomy)}")
    return Autonomy(word)


def _turns(front: FrontMatter) -> int:
    word = front.text("max_turns", str(_USUAL_TURNS))
    if not word.isascii() or not word.isdigit() or not 1 <= int(word[:9]) <= _MOST_TURNS:
        front.refuse("max_turns", f"it is a number from 1 to {_MOST_TURNS}")
    return int(word)
