"""What is known of single programs, as tables and as readers of their options."""

from .awk_sed import AWK_OPTIONS, SED_OPTIONS, awk_runs, edited_by_sed, sed_runs
from .conditions import CHECKS
from .find import EXECUTING, PLAIN, find_starts, find_terms, found_name, removing_what_it_prints, search_runs
from .git import git_folder, git_notes, git_runs, plain_form, shown_by, without_globals
from .narrowing import Branch, NameTest, branches, is_hit, tests_of
from .neutral import as_run, passes_over_hidden
from .options import Parsed, parse_options, tail
from .repository import (
    ODD_SETTING,
    PLAIN_SETTINGS,
    UNREAD_PARTS,
    is_plain_head,
    leads_elsewhere,
    odd_settings,
    setting_names,
    settings_in,
)
from .tables import lines_of, table
from .telling import comes_in, is_code, is_stream, is_verb_open, may_be_options

__all__ = [
    "AWK_OPTIONS",
    "CHECKS",
    "EXECUTING",
    "ODD_SETTING",
    "PLAIN",
    "PLAIN_SETTINGS",
    "SED_OPTIONS",
    "UNREAD_PARTS",
    "Branch",
    "NameTest",
    "Parsed",
    "as_run",
    "awk_runs",
    "branches",
    "comes_in",
    "edited_by_sed",
    "find_starts",
    "find_terms",
    "found_name",
    "git_folder",
    "git_notes",
    "git_runs",
    "is_code",
    "is_hit",
    "is_plain_head",
    "is_stream",
    "is_verb_open",
    "leads_elsewhere",
    "lines_of",
    "may_be_options",
    "odd_settings",
    "parse_options",
    "passes_over_hidden",
    "plain_form",
    "removing_what_it_prints",
    "search_runs",
    "sed_runs",
    "setting_names",
    "settings_in",
    "shown_by",
    "table",
    "tail",
    "tests_of",
    "without_globals",
]
