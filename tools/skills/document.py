"""Read a skill's `SKILL.md`: front matter between two lines `---`, then Markdown for the model.

The keys are those of the open format for agent skills: `name`, `description`, `license`, `compatibility`,
`metadata` (texts by name) and `allowed-tools`; others are passed over. Of YAML the part is read that these
need: a text in a line, quoted or not, over further lines that are indented, or as a block (`|`, `>`); one
mapping below `metadata`; and a list below `allowed-tools`. Anything else is an error with its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import NoReturn

from leeward.security.lazy import dataclass, regex

__all__ = ["SKILL_FILE", "SKILL_NAME", "SkillDocument", "SkillError", "read_document"]

SKILL_FILE = "SKILL.md"
SKILL_NAME = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")

_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_COMPATIBILITY = 64, 1024, 500
_KEY = regex(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
_BLOCK = regex(r"([|>])([+-]?)")
_COMMENT = regex(r"(?:^|\s)#.*\Z")
_ITEM = regex(r"[^\s,()]+(?:\([^()]*\))?")
# What begins something else than a text in YAML.
_MARKS = ("[", "{", "&", "*", "!", "%", "@", "`", "]", "}", ",")


class SkillError(ValueError):
    """A skill that cannot be used; the message names the file, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """What a `SKILL.md` says. `allowed_tools` is None where it names none; `body` is for the model."""

    name: str
    description: str
    body: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    allowed_tools: tuple[str, ...] | None = None


def read_document(text: str, file: str, folder: str) -> SkillDocument:
    """Return what a `SKILL.md` says; `file` is how messages name it, `folder` the name of its folder.

    Raises:
        SkillError: it is none, or a value in it cannot be used.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    if lines[0].rstrip() != "---" or not end:
        raise SkillError(f"{file}:1: it does not begin with front matter between two lines ---")
    reader = _Reader(file, lines[:end])
    found: dict[str, object] = dict(reader.pairs())
    name, description = reader.text(found, "name"), reader.text(found, "description")
    if len(name) > _LONGEST_NAME or SKILL_NAME.fullmatch(name) is None:
        reader.refuse("name", "a name has up to 64 lower-case letters, digits and single hyphens")
    if name != folder:
        reader.refuse("name", f"the skill is called {name} and its folder {folder}; they have to be the same")
    if not 0 < len(description) <= _LONGEST_DESCRIPTION:
        reader.refuse("description", f"a description has 1 to {_LONGEST_DESCRIPTION:,} characters")
    compatibility = reader.text(found, "compatibility", "")
    if len(compatibility) > _LONGEST_COMPATIBILITY:
        reader.refuse("compatibility", f"it has {_LONGEST_COMPATIBILITY} characters at most")
    metadata = found.get("metadata", {})
    if not isinstance(metadata, dict):
        reader.refuse("metadata", "it holds texts by name, each in a line of its own below it")
    body = "\n".join(lines[end + 1 :]).strip()
    return SkillDocument(
        name,
        description,
        body,
        reader.text(found, "license", ""),
        compatibility,
        MappingProxyType(metadata),
        reader.tools(found),
    )


class _Reader:
    """The lines of a front matter, and where each key is."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self._file, self._lines = file, lines
        self._at: dict[str, int] = {}

    def refuse(self, key: str, why: str) -> NoReturn:
        raise SkillError(f"{self._file}:{self._at.get(key, 0) + 1}: {why}")

    def text(self, found: Mapping[str, object], key: str, missing: str | None = None) -> str:
        value = found.get(key, missing)
        if value is None:
            self.refuse(key, f"the front matter has no {key}")
        if not isinstance(value, str):
            self.refuse(key, f"{key} is a text")
        return value

    def tools(self, found: Mapping[str, object]) -> tuple[str, ...] | None:
        """Return the tools that are allowed: words with blanks or commas between, or a list."""
        value = found.get("allowed-tools")
        if value is None:
            return None
        if isinstance(value, dict):
            self.refuse("allowed-tools", "it names tools: words in a line, or a list below it")
        words = "\n".join(value) if isinstance(value, list) else str(value)
        if words.startswith("[") and words.endswith("]"):
            words = words[1:-1]
        if _ITEM.sub("", words).strip(" ,\n\t"):
            self.refuse("allowed-tools", "a tool is a name, with a pattern in brackets or without")
        return tuple(found[0] for found in _ITEM.finditer(words))

    def pairs(self) -> Iterator[tuple[str, object]]:
        """Yield each key with its value: a text, a mapping of texts, or a list of them."""
        number = 1
        while number < len(self._lines):
            line = self._lines[number]
            if not line.strip() or line.lstrip().startswith("#"):
                number += 1
                continue
            pair = _KEY.fullmatch(line.rstrip())
            if pair is None:
                raise SkillError(f"{self._file}:{number + 1}: a line is `key: value`, or indented below one")
            key, value = pair[1], (pair[2] or "").strip()
            if key in self._at:
                raise SkillError(f"{self._file}:{number + 1}: {key} is there twice")
            self._at[key] = number
            below = self._below(number + 1)
            yield key, self._value(key, value, below)
            number += 1 + len(below)

    def _below(self, number: int) -> list[str]:
        """Return the lines that are indented, or empty in between, from a line on."""
        end = number
        for at, line in enumerate(self._lines[number:], number):
            if line[:1] in (" ", "\t"):
                end = at + 1
            elif line.strip():
                break
        return self._lines[number:end]

    def _value(self, key: str, value: str, below: list[str]) -> object:
        if block := _BLOCK.fullmatch(value):
            return _unfolded(below, is_folded=block[1] == ">")
        rows = [line.strip() for line in below if line.strip() and not line.lstrip().startswith("#")]
        if value or not rows:
            return self._scalar(key, " ".join([value, *rows]))
        if all(row.startswith("- ") for row in rows):
            return [self._scalar(key, row[2:].strip()) for row in rows]
        pairs = [_KEY.fullmatch(row) for row in rows]
        if all(pair is not None for pair in pairs):
            return {pair[1]: self._scalar(key, (pair[2] or "").strip()) for pair in pairs if pair}
        return self._scalar(key, " ".join(rows))

    def _scalar(self, key: str, value: str) -> str:
        """Return a text as it is meant: without its quotes, or without a comment behind it."""
        if value.startswith('"'):
            try:
                text, end = json.JSONDecoder(strict=False).raw_decode(value)
            except ValueError:
                self.refuse(key, "the quoted text is not closed, or has an escape that JSON does not know")
            rest = value[end:]
        elif value.startswith("'"):
            quoted = re.match(r"'((?:[^']|'')*)'", value)
            if quoted is None:
                self.refuse(key, "the quoted text is not closed")
            text, rest = quoted[1].replace("''", "'"), value[quoted.end() :]
        else:
            if value.startswith(_MARKS) and not (key == "allowed-tools" and value.startswith("[")):
                self.refuse(key, "a text that begins like this has to be quoted")
            return _COMMENT.sub("", value).strip()
        if rest.strip() and not rest.lstrip().startswith("#"):
            self.refuse(key, "something follows behind the quoted text")
        return str(text)


def _unfolded(below: list[str], *, is_folded: bool) -> str:
    """Return a block: its lines without their indent; folded, those of a paragraph are one."""
    indent = min((len(line) - len(line.lstrip()) for line in below if line.strip()), default=0)
    lines = [line[indent:].rstrip() for line in below]
    if not is_folded:
        return "\n".join(lines).strip("\n")
    paragraphs = "\n".join(lines).strip("\n").split("\n\n")
    return "\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
