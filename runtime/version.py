"""The version of the installed package.

It has a file of its own because looking it up costs more than the rest of a start.
"""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["VERSION"]

VERSION = version("leeward")
