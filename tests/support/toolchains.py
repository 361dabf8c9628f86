"""Scan this machine's toolchains for secrets once per process, not once per sandbox.

There are tens of thousands of files below an interpreter, and a sandbox whose data folder is new, as that of
every test is, remembers nothing of them. No test changes anything there, or gives a secret a name there.
"""

from __future__ import annotations

import os

from leeward.runtime.installation import installation
from leeward.security.paths import is_inside, secret_reason
from leeward.security.policy import Policy
from leeward.security.sandbox import SYSTEM_FOLDERS, Spot
from leeward.tools.process import find_programs
from leeward.tools.sandbox.known_toolchains import KnownToolchains
from leeward.tools.sandbox.toolchains import ToolchainSecrets


def look_once_at_toolchains(*, now: bool = False) -> None:
    """Have every sandbox of this process take as known what lies where this process finds its programs.

    It is looked for when the first one asks, or `now`, for all that will be forked. Where the configuration
    names secrets of its own, a sandbox looks for itself.
    """
    nobody = Policy("/nonexistent/ws", "/nonexistent")
    readable = (*installation(), *find_programs(os.environ, nobody).readable)
    tops = tuple(top for top in dict.fromkeys(readable) if not is_inside(top, *SYSTEM_FOLDERS))
    secrets = ToolchainSecrets(lambda path: secret_reason(path, nobody))
    look, found = ToolchainSecrets._look, dict[str, tuple[Spot, ...]]()

    def _look(self: ToolchainSecrets, top: str, real: str, known: KnownToolchains | None) -> tuple[Spot, ...]:
        if top not in tops or self.has_rules:
            return look(self, top, real, known)
        if top not in found:
            found[top] = look(secrets, top, real, None)
        return found[top]

    ToolchainSecrets._look = _look  # type: ignore[method-assign]
    if now:
        secrets.spots(tops)
