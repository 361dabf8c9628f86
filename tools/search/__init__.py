"""Finding paths and lines: the tools find_path and grep."""

from .gitignore import Ignored
from .tools import Search
from .walk import SKIPPED_FOLDERS

__all__ = ["SKIPPED_FOLDERS", "Ignored", "Search"]
