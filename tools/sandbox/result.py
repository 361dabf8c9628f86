"""The result of a confined program: how it ended, and notices about its sandbox.

A program that is stopped by the sandbox prints "permission denied" or "could not resolve host", which looks
like a fault of the machine. So a hint is added, with the configuration keys that change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass, regex

if TYPE_CHECKING:
    from leeward.security.sandbox import Confinement

    from ..process import ProcessExit

__all__ = ["Ran", "hints_of", "overlay_hints_of", "reading_hints_of", "trial_hints_of"]

_NO_NETWORK = regex(
    r"(?i)could ?n.t resolve|could not resolve|name resolution|name or service not known|getaddrinfo"
    r"|network is (?:unreachable|down)|ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|connection refused"
    r"|no route to host|failed to connect|unable to connect|failed to establish a new connection|dial tcp"
    r"|socket: (?:operation not permitted|permission denied)|no such host|unknown host"
)
_NO_ACCESS = regex(
    r"(?i)read-only file system|EROFS|permission denied|EACCES|operation not permitted|resource busy"
)
_NO_SPACE = regex(r"(?i)no space left on device|ENOSPC")
_NO_LINK = regex(r"hardlink different from source")
_NO_OWNER = regex(r"(?i)value too large for defined data type|EOVERFLOW")


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
        hints.append("no network in the sandbox; see [tools.sandbox] allow_hosts and network")
    if _NO_ACCESS.search(output):
        more = "" if confinement.changes_workspace_only else " and what is named in extra_write"
        keys = "[tools.sandbox] extra_read and extra_write"
        hints.append(f"in the sandbox only the workspace{more} can be changed; see {keys}")
    return tuple(hints)


# An overlay gives a file another inode once it has a second name, which git takes for a race. No setting of
# git, and no variable, has it copy instead.
_OF_OVERLAYS = (
    (_NO_SPACE, "what it writes is bounded, so this may be but a part of what the command would do"),
    (_NO_OWNER, "over an overlay files of other users and groups cannot be changed"),
    (
        _NO_LINK,
        "an overlay makes no hard links to files that are there; git clone --no-hardlinks copies them",
    ),
)
_OF_TRIALS = (
    (_NO_NETWORK, "a trial run has no network but to hosts that are allowed"),
    (_NO_ACCESS, "in a trial run only the workspace can be changed"),
)


def overlay_hints_of(output: str) -> tuple[str, ...]:
    """Return what to say of a program that failed over an overlay, by what was printed."""
    return tuple(hint for pattern, hint in _OF_OVERLAYS if pattern.search(output))


def trial_hints_of(output: str) -> tuple[str, ...]:
    """Return what to say of a trial run that failed, by what was printed; no key changes any of it."""
    hints = tuple(hint for pattern, hint in _OF_TRIALS if pattern.search(output))
    return (*hints, *overlay_hints_of(output))


def reading_hints_of(output: str) -> tuple[str, ...]:
    """Return what to say of a read-only run that failed for want of a network."""
    return ("a read-only run has no network",) if _NO_NETWORK.search(output) else ()
