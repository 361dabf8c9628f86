"""Knowledge about single programs: tables, and readers of their options."""

from .find import find_starts, find_terms, search_runs
from .git import (
    git_folder,
    git_notes,
    git_runs,
    without_globals,
)
from .options import (
    Parsed,
    comes_in,
    is_code,
    is_stream,
    is_verb_open,
    may_be_options,
    parse_options,
    without_start,
)
from .tables import groups_of, lines_of, table

__all__ = [
    "Parsed",
    "comes_in",
    "find_starts",
    "find_terms",
    "git_folder",
    "git_notes",
    "git_runs",
    "groups_of",
    "is_code",
    "is_stream",
    "is_verb_open",
    "lines_of",
    "may_be_options",
    "parse_options",
    "search_runs",
    "table",
    "without_globals",
    "without_start",
]
