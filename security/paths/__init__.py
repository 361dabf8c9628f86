"""Classify paths: inside the workspace, protected, secret, or executed later."""

from .autorun import is_meant_to_run_later, runs_later_reason
from .pattern import literally, matches_parts
from .place import FileState, Preview, ResolvedPath
from .protected_files import OF_GIT, protected_places, protected_reason
from .secret_files import NAMED_SECRET, NOT_TO_BE_READ, secret_places, secret_reason
from .workspace import could_be_path, is_inside, is_user_or_file, locate, writable

__all__ = [
    "NAMED_SECRET",
    "NOT_TO_BE_READ",
    "OF_GIT",
    "FileState",
    "Preview",
    "ResolvedPath",
    "could_be_path",
    "is_inside",
    "is_meant_to_run_later",
    "is_user_or_file",
    "literally",
    "locate",
    "matches_parts",
    "protected_places",
    "protected_reason",
    "runs_later_reason",
    "secret_places",
    "secret_reason",
    "writable",
]
