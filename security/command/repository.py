"""Which settings of a git repository could make git run something, though it only looks?

Forms that only read are printed with pagers, hooks and monitors off (`git.py`). What is left is what
no option switches off, and whatever brings in settings that were not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["ODD_SETTING", "ONLY_BLAME", "running_settings", "setting_names", "settings_in"]

_HEADER = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_UNSURE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]|\\$")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_RUNNING = re.compile(
    r"filter\..*\.(?:clean|smudge|process)|blame\.ignorerevsfile|include(?:if)?\..*|core\.(?:worktree|alternaterefscommand)"
    r"|extensions\.(?:worktreeconfig|partialclone)|remote\..*\.(?:promisor|vcs|uploadpack)"
)


def running_settings(config: str) -> tuple[str, ...]:
    """Return the names of such settings in the text of a repository's configuration, each once.

    What does not read as a configuration is named as well: git may read it otherwise.
    """
    names = setting_names(config)
    return tuple(dict.fromkeys(name for name in names if name is ODD_SETTING or _RUNNING.fullmatch(name)))


ONLY_BLAME = "blame.ignorerevsfile"
"""A setting that only `blame` obeys: it prints a line of the file, and no option switches that off."""

ODD_SETTING = "a line that cannot be read"
"""What `setting_names` yields for a line that does not read as a setting."""


def setting_names(config: str) -> Iterator[str]:
    """Yield every key as `section.subsection.key`, in lower case."""
    return (name for name, _ in settings_in(config))


def settings_in(config: str) -> Iterator[tuple[str, str]]:
    """Yield every key, as `setting_names` does, and its value without quotes."""
    section = ""
    for line in config.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"):
        if _UNSURE.search(line):
            # What continues a line depends on where comments and quotes are: no setting needs it.
            yield ODD_SETTING, ""
            continue
        rest = line.strip()
        while rest.startswith("[") and (header := _HEADER.match(rest)) is not None:
            section = ".".join(filter(None, header.groups())).lower()
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        key = _KEY.match(rest)
        if key is None or not section:
            yield ODD_SETTING, ""
        else:
            value = rest[key.end() :].partition("=")[2].strip()
            yield f"{section}.{key[0].lower()}", value.strip('"')
