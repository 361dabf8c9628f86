"""The ruling on a command line, its explanation, and what could be run instead."""

from .assessment import assess
from .code import ANYWHERE
from .explanation import explain, is_shown_in_full
from .matching import covers_words, matches_words
from .network import hosts_of, reach_of, urls_by_proxy
from .suggest import suggestion_for
from .survey import surveyed, wanted
from .verdict import Ruling, Say, effects_of, ruling_of

__all__ = [
    "ANYWHERE",
    "Ruling",
    "Say",
    "assess",
    "covers_words",
    "effects_of",
    "explain",
    "hosts_of",
    "is_shown_in_full",
    "matches_words",
    "reach_of",
    "ruling_of",
    "suggestion_for",
    "surveyed",
    "urls_by_proxy",
    "wanted",
]
