"""Does a container get hold of the machine it runs on?"""

from __future__ import annotations

import re
from itertools import pairwise

from ..syntax import Word

__all__ = ["host_reason"]

_RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
_STARTS = frozenset({"run", "create", "exec"})
_POWERFUL = re.compile(
    r"--privileged(?:=true)?|--cap-add(?:=.*)?|--device(?:=.*)?|--(?:pid|ipc|uts|userns|net|network)=host"
    r"|--security-opt(?:=.*)?"
)
_SPACES = frozenset({"--pid", "--ipc", "--uts", "--userns"})
_SOURCE = re.compile(
    r"(?:-v|--volume=?|--mount=?(?:.*,)?(?:source|src)=)?(?P<path>/[^:,]*|~[^:,]*|⟨~⟩[^:,]*)(?:[:,].*)?"
)
_OF_THE_HOST = re.compile(
    r"/|/(?:etc|root|home|usr|var|bin|boot|dev|lib|proc|sys|run)(?:/.*)?|/home/[^/]+/?|~/?|⟨~⟩/?|.*\.sock"
)


def host_reason(words: tuple[Word, ...]) -> str | None:
    """Say by what a container gets hold of the machine, or None."""
    texts = [word.text for word in words]
    if texts[0].rpartition("/")[2] not in _RUNTIMES or not _STARTS & set(texts[1:]):
        return None
    for before, text in pairwise(texts):
        if _POWERFUL.fullmatch(text) or (before in _SPACES and text == "host"):
            return f"a container is given power over the machine ({text})"
        is_mount = before in {"-v", "--volume", "--mount"} or text.startswith(
            ("-v/", "--volume=", "--mount=")
        )
        found = _SOURCE.search(text) if is_mount else None
        if found is not None and _OF_THE_HOST.fullmatch(found["path"]):
            return f"a container is given a folder of the machine ({found['path']})"
    return None
