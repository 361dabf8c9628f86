"""The version, and the answer to `--version`, which loads nothing."""

from __future__ import annotations

import os

__all__ = ["VERSION", "tell_version"]

VERSION = "0.1.0"


def tell_version() -> bool:
    """Print the version; return whether standard output took it."""
    answer = f"leeward {VERSION}\n".encode()
    try:
        return os.write(1, answer) == len(answer)
    except OSError:
        return False
