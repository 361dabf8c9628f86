"""What a confined program came to, and what its output alone does not tell of the sandbox it ran in.

A program that meets the sandbox says "permission denied" or "could not resolve host". Whoever reads that
takes it for a fault of the machine, so a hint is added, with the keys that change it where there are any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from leeward.security.sandbox import Confinement

from ..process import ProcessExit

__all__ = ["Ran", "hints_of", "trial_hints_of"]

_NO_NETWORK = re.compile(
    r"(?i)could ?n.t resolve|could not resolve|name resolution|name or service not known|getaddrinfo"
    r"|network is (?:unreachable|down)|ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|connection refused"
    r"|no route to host|failed to connect|unable to connect|failed to establish a new connection|dial tcp"
    r"|socket: (?:operation not permitted|permission denied)|no such host|unknown host"
)
_NO_ACCESS = re.compile(
    r"(?i)read-only file system|EROFS|permission denied|EACCES|operation not permitted|resource busy"
)
_NO_SPACE = re.compile(r"(?i)no space left on device|ENOSPC")
_NO_OWNER = re.compile(r"(?i)value too large for defined data type|EOVERFLOW")


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ran to some end. `blocked` says in sentences what of its doing was undone."""

    finished: ProcessExit
    blocked: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def hints_of(output: str, confinement: Confinement) -> tuple[str, ...]:
    """Return what to say of a failure by what was printed, with the keys that change it."""
    hints = []
    if not confinement.network and _NO_NETWORK.search(output):
        hints.append("no network in the sandbox; see [tools.sandbox] network")
    if _NO_ACCESS.search(output):
        more = "" if confinement.changes_workspace_only else " and what is named in extra_write"
        keys = "[tools.sandbox] extra_read and extra_write"
        hints.append(f"in the sandbox only the workspace{more} can be changed; see {keys}")
    return tuple(hints)


_OF_TRIALS = (
    (_NO_NETWORK, "a trial run has no network"),
    (_NO_ACCESS, "in a trial run only the workspace can be changed"),
    (_NO_SPACE, "what a trial run writes is bounded, so this may be but a part of what the command would do"),
    (_NO_OWNER, "in a trial run files of other users and groups cannot be changed"),
)


def trial_hints_of(output: str) -> tuple[str, ...]:
    """Return what to say of a trial run that failed, by what was printed; no key changes any of it."""
    return tuple(hint for pattern, hint in _OF_TRIALS if pattern.search(output))
