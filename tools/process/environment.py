"""What environment do programs get? One that is made here: never the parent's, which holds its secrets.

Nothing in it waits for a terminal, and of the parent only language, time zone and user are taken over, and
those parts of its PATH that lie where toolchains are.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from leeward.security.paths import is_inside
from leeward.security.sandbox import toolchains

__all__ = ["SEARCH_PATH", "environment", "search_path"]

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for without anything else being said."""

_FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "EDITOR": "false",
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "CI": "1",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
    "PIP_NO_INPUT": "1",
}
_INHERITED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME")


def environment(home: str, parent: Mapping[str, str]) -> dict[str, str]:
    """Return what programs get: fixed values, and only what tells nothing secret of `parent`."""
    inherited = {name: parent[name] for name in _INHERITED if name in parent}
    return {"LANG": "C.UTF-8", **inherited, **_FIXED, "PATH": search_path(home, parent), "HOME": home}


def search_path(home: str, parent: Mapping[str, str]) -> str:
    """Return the PATH of programs: the system's, then as much of the parent's as leads to toolchains at home.

    So no file of a toolchain stands in for a program of the system, and none of the workspace for either.
    """
    at_home = toolchains(home)
    named = (
        posixpath.normpath(entry) for entry in parent.get("PATH", "").split(":") if entry.startswith("/")
    )
    return ":".join((SEARCH_PATH, *dict.fromkeys(entry for entry in named if is_inside(entry, *at_home))))
