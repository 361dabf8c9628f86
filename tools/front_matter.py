"""Read the front matter of a Markdown file: the lines between two lines `---`.

Of YAML the part is read that such files need: a text in a line, quoted or not, over further lines that are
indented, or as a block (`|`, `>`); one mapping of texts below a key; and a list of texts below one. Anything
else is an error with its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NoReturn

from leeward.security.lazy import regex

__all__ = ["FrontMatter", "FrontMatterError", "tool_names"]

_KEY = regex(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
_BLOCK = regex(r"([|>])([+-]?)")
_COMMENT = regex(r"(?:^|\s)#.*\Z")
_ITEM = regex(r"[^\s,()]+(?:\([^()]*\))?")
# What begins something else than a text in YAML.
_MARKS = ("[", "{", "&", "*", "!", "%", "@", "`", "]", "}", ",")

# What other programs call the tools that such files name.
_OTHER_NAMES = {
    "bash": ("shell",),
    "glob": ("find_path",),
    "ls": ("list_directory",),
    "edit": ("edit", "multi_edit"),
    "multiedit": ("multi_edit",),
    "webfetch": ("fetch", "web_scrape"),
}


class FrontMatterError(ValueError):
    """A file that cannot be used; the message names it, and the line."""


def tool_names(word: str) -> tuple[str, ...]:
    """Return our names of a tool that a file names, as other programs may call it."""
    return _OTHER_NAMES.get(word.lower(), (word.lower(),))


class FrontMatter:
    """The values of a front matter by key, and the `body` behind it. `file` is how messages name the file."""

    def __init__(self, text: str, file: str) -> None:
        """Read a file.

        Raises:
            FrontMatterError: it has no front matter, or a line of that cannot be read.
        """
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
        if lines[0].rstrip() != "---" or not end:
            raise FrontMatterError(f"{file}:1: it does not begin with front matter between two lines ---")
        self._file, self._lines = file, lines[:end]
        self._at: dict[str, int] = {}
        self.body: str = "\n".join(lines[end + 1 :]).strip()
        self.values: dict[str, object] = dict(self._pairs())

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise what says why the value of a key cannot be used."""
        raise FrontMatterError(f"{self._file}:{self._at.get(key, 0) + 1}: {why}")

    def text(self, key: str, missing: str | None = None) -> str:
        """Return a text; a key that is missing is an error, unless `missing` is given for it."""
        value = self.values.get(key, missing)
        if value is None:
            self.refuse(key, f"the front matter has no {key}")
        if not isinstance(value, str):
            self.refuse(key, f"{key} is a text")
        return value

    def mapping(self, key: str) -> dict[str, str]:
        """Return texts by name; empty where the key is missing."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "it holds texts by name, each in a line of its own below it")
        return value

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return words with blanks or commas between, or of a list; None where the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, dict):
            self.refuse(key, "it names tools: words in a line, or a list below it")
        words = "\n".join(value) if isinstance(value, list) else str(value)
        if words.startswith("[") and words.endswith("]"):
            words = words[1:-1]
        if _ITEM.sub("", words).strip(" ,\n\t"):
            self.refuse(key, "a tool is a name, with a pattern in brackets or without")
        return tuple(found[0] for found in _ITEM.finditer(words))

    def _pairs(self) -> Iterator[tuple[str, object]]:
        """Yield each key with its value: a text, a mapping of texts, or a list of them."""
        number = 1
        while number < len(self._lines):
            line = self._lines[number]
            if not line.strip() or line.lstrip().startswith("#"):
                number += 1
                continue
            pair = _KEY.fullmatch(line.rstrip())
            if pair is None:
                raise FrontMatterError(
                    f"{self._file}:{number + 1}: a line is `key: value`, or indented below one"
                )
            key, value = pair[1], (pair[2] or "").strip()
            if key in self._at:
                raise FrontMatterError(f"{self._file}:{number + 1}: {key} is there twice")
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
            if value.startswith(_MARKS) and not (value.startswith("[") and value.endswith("]")):
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
