"""Copy from a person's git settings their identity and what executes nothing, into files for programs.

A program in a sandbox sees no home, so git finds neither a name nor an address there. The person's own files
are read here, not by git: nothing is started, and what a workspace says decides nothing. Taken over are the
keys of one list, with values that are one line; everything else in the files, by any name, is left
out. Git gets the result as settings of the system, so a repository's own and what a line sets with
`git config --global` outweigh it, as they outweigh the person's; variables for single settings would outweigh
the repository's. An `include` is replaced by its file; an `includeIf` stays one, and leads to a file made in
the same way, so git itself finds out whether it holds.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field

from leeward.security.lazy import dataclass, regex

__all__ = ["git_settings", "settings_of"]

_WORDS = regex(
    r"user\.useconfigonly|core\.(?:autocrlf|eol|safecrlf|quotepath|abbrev|whitespace)"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)|fetch\.(?:prune|prunetags)"
    r"|rebase\.(?:autosquash|autostash|updaterefs|missingcommitscheck)"
    r"|merge\.(?:conflictstyle|ff|log|renames|stat|directoryrenames)"
    r"|diff\.(?:algorithm|renames|context|interhunkcontext|mnemonicprefix|noprefix|colormoved|indentheuristic)"
    r"|log\.(?:date|decorate|abbrevcommit|follow)"
    r"|status\.(?:short|branch|showuntrackedfiles|relativepaths|showstash)"
    r"|branch\.(?:autosetupmerge|autosetuprebase)|commit\.(?:cleanup|verbose)"
    r"|grep\.(?:linenumber|column|fullname|patterntype|extendedregexp)|apply\.(?:whitespace|ignorewhitespace)"
)
_SORTS = regex(r"(?:branch|tag)\.sort")
_TEXTS = regex(r"(?:user|author|committer)\.(?:name|email)|init\.defaultbranch")
_WORD = regex(r"[A-Za-z0-9 .,:;%+/_=-]{0,128}")
# By `signature` git starts a program that checks it.
_SORT = regex(r"-?(?:v(?:ersion)?:)?(?:refname|committerdate|authordate|creatordate|taggerdate)")
_TEXT = regex(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,512}")

_SYSTEM = "/etc/gitconfig"
_LONGEST, _MOST_FILES, _DEEPEST = 256 * 1024, 32, 10

_HEADER = regex(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\[^\n])*)")?[ \t]*\]')
_KEY = regex(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_SKIPPED = regex(r"(?:\s+|[#;][^\n]*)*")
_LINE = regex(r"[^\n]*")
# The end of a line behind a backslash is none.
_ESCAPED = {"\n": "", "n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


def git_settings(parent: Mapping[str, str], home: str) -> dict[str, str]:
    """Return files for git by their names, which include each other; the first is the one to begin with.

    Args:
        parent: the person's environment, which may say where their settings lie.
        home: the person's home.
    """
    named = parent.get("GIT_CONFIG_GLOBAL")
    config = parent.get("XDG_CONFIG_HOME") or f"{home}/.config"
    places = [f"{config}/git/config", f"{home}/.gitconfig"] if named is None else [named]
    taken = _Taken(home)
    first = taken.reserve()
    system = f"[include]\n\tpath = {_quoted(_SYSTEM)}\n"
    taken.files[first] = system + "".join(taken.text_of(place, 0) for place in places)
    return taken.files


@dataclass(slots=True)
class _Taken:
    """What is made of a person's files; `files` are those to be written."""

    home: str
    files: dict[str, str] = field(default_factory=dict)
    looked_at: int = 0

    def reserve(self) -> str:
        """Return the name of a further file."""
        name = f"gitconfig{len(self.files) or ''}"
        self.files[name] = ""
        return name

    def text_of(self, path: str, depth: int) -> str:
        """Return what is taken over of a file and of those it includes; nothing of one git would not read."""
        self.looked_at += 1
        if depth > _DEEPEST or self.looked_at > _MOST_FILES:
            return ""
        try:
            settings = tuple(settings_of(_content(path)))
        except (OSError, ValueError):
            return ""
        return "".join(self._taken(setting, path, depth) for setting in settings)

    def _taken(self, setting: tuple[str, str | None, str, str], path: str, depth: int) -> str:
        section, condition, key, value = setting
        if (section, key) == ("include", "path") and condition is None:
            return self.text_of(self._place(value, path), depth + 1)
        if (section, key) == ("includeif", "path") and condition is not None:
            return self._conditional(condition, value, path, depth)
        name = f"{section}.{key}"
        rules = ((_WORDS, _WORD), (_SORTS, _SORT), (_TEXTS, _TEXT))
        is_sound = any(names.fullmatch(name) and rule.fullmatch(value) for names, rule in rules)
        if condition is not None or not is_sound:
            return ""
        return f"[{section}]\n\t{key} = {_quoted(value)}\n"

    def _conditional(self, condition: str, value: str, path: str, depth: int) -> str:
        """Return an include under the same condition, with places in it that mean the same from elsewhere."""
        kind, colon, pattern = condition.partition(":")
        if kind in {"gitdir", "gitdir/i"} and pattern.startswith(("~/", "./")):
            base = self.home if pattern.startswith("~") else posixpath.dirname(os.path.realpath(path))
            pattern = f"{base.rstrip('/')}/{pattern[2:]}"
        if _TEXT.fullmatch(condition) is None or self.looked_at >= _MOST_FILES:
            return ""
        text = self.text_of(self._place(value, path), depth + 1)
        if not text:
            return ""
        name = self.reserve()
        self.files[name] = text
        return f"[includeIf {_quoted(kind + colon + pattern)}]\n\tpath = {name}\n"

    def _place(self, value: str, path: str) -> str:
        if value.startswith("~/"):
            return f"{self.home}/{value[2:]}"
        return posixpath.join(posixpath.dirname(path), value)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _content(path: str) -> str:
    """Return the text of a plain file.

    Raises:
        OSError: it is none, or too long.
        ValueError: no file can have this name.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
            raise OSError("no plain file that is short enough")
        return os.read(handle, _LONGEST).decode("utf-8", "surrogateescape")
    finally:
        os.close(handle)


def settings_of(text: str) -> Iterator[tuple[str, str | None, str, str]]:
    """Yield section, subsection, key and value of each setting in a text, as git reads it (config.c).

    Raises:
        ValueError: git would not read it either.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    section, below, at = "", None, 0
    while (at := _end(_SKIPPED, text, at)) < len(text):
        header = _HEADER.match(text, at)
        if header is not None:
            section, at = header[1].lower(), header.end()
            below = None if header[2] is None else re.sub(r"\\(.)", r"\1", header[2])
            continue
        key = _KEY.match(text, at)
        if key is None or not section:
            raise ValueError("no line of a configuration")
        at, value = key.end(), "true"
        if text[at : at + 1] == "=":
            value, at = _value(text, at + 1)
        elif text[at : at + 1] not in {"", "\n", "#", ";"}:
            raise ValueError("a key without a value")
        yield section, below, key[1].lower(), value


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int) -> tuple[str, int]:
    """Return a value, and where what follows it begins."""
    found, spaces, is_quoted = "", "", False
    while at < len(text) and (character := text[at]) != "\n":
        at += 1
        if not is_quoted and character in "#;":
            return found, _end(_LINE, text, at)
        if not is_quoted and character in " \t":
            spaces += character if found else ""
            continue
        found, spaces = found + spaces, ""
        if character == '"':
            is_quoted = not is_quoted
        elif character == "\\":
            found += _escaped(text[at : at + 1])
            at += 1
        else:
            found += character
    if is_quoted:
        raise ValueError("a quotation that is not closed")
    return found, at


def _escaped(character: str) -> str:
    if character not in _ESCAPED:
        raise ValueError("an escape that there is not")
    return _ESCAPED[character]
