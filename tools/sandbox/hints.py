"""What may be at the bottom of a program's failure that its words do not say? That it ran in a sandbox.

Recognised by what programs print. Nothing but a hint depends on it.
"""

from __future__ import annotations

import re

from leeward.security.sandbox import Confinement

__all__ = ["hints_of"]

_NO_NETWORK = re.compile(
    r"(?i)could ?n.t resolve|could not resolve|name resolution|name or service not known|getaddrinfo"
    r"|network is (?:unreachable|down)|ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|connection refused"
    r"|no route to host|failed to connect|unable to connect|failed to establish a new connection|dial tcp"
    r"|socket: (?:operation not permitted|permission denied)|no such host|unknown host"
)
_NO_ACCESS = re.compile(
    r"(?i)read-only file system|EROFS|permission denied|EACCES|operation not permitted|resource busy"
)


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
