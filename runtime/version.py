"""Which version is this? Its own file, for looking it up costs more than the rest of a start."""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["VERSION"]

VERSION = version("leeward")
