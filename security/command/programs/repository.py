"""Tell a plain git repository from one that may make git run something or read elsewhere.

A plain form of git is run without a question only where all the settings are known to do neither, and where
no part of `.git` leads out of it. `tools/repository.py` looks; this file says what is plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "ODD_SETTING",
    "PLAIN_SETTINGS",
    "UNREAD_PARTS",
    "is_plain_head",
    "leads_elsewhere",
    "odd_settings",
    "setting_names",
    "settings_in",
]

_HEADER = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_UNSURE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]|\\$")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

PLAIN_SETTINGS = (
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode"
    r"|autocrlf|eol|safecrlf|quotepath)|user\.(?:name|email)|init\.defaultbranch"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune|gh-resolved)"
    r"|branch\..+\.(?:remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base)"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|fetch\.prune"
)
"""What `git clone` and everyday use write down: none of it starts a program or names a file."""

_PLAIN_SETTING = re.compile(PLAIN_SETTINGS)
# A symbolic reference that leads elsewhere, or what git does not take for a repository, makes it walk up.
_HEAD = re.compile(r"(?:ref: refs/heads/[^\x00-\x20\x7f]+|[0-9a-f]{40})\n?")

UNREAD_PARTS = frozenset({"hooks", "lfs", "annex"})
"""Parts of `.git` that no plain form of git reads: hooks are switched off, the rest is of other programs."""

_LEADING = frozenset(
    "commondir gitdir config.worktree worktrees modules objects/info/alternates "
    "objects/info/http-alternates".split()
)


def odd_settings(config: str) -> tuple[str, ...]:
    """Return the names of settings that are not plain in the text of a configuration, each once.

    What does not read as a configuration is named as well: git may read it otherwise.
    """
    names = setting_names(config)
    return tuple(
        dict.fromkeys(name for name in names if name is ODD_SETTING or not _PLAIN_SETTING.fullmatch(name))
    )


def is_plain_head(text: str) -> bool:
    """Whether git takes a folder with this `HEAD` for a repository, on a branch or a commit of its own."""
    return _HEAD.fullmatch(text) is not None


def leads_elsewhere(part: str) -> bool:
    """Whether a part of `.git`, by its path in there, says where else git is to look."""
    return part.lower() in _LEADING


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
