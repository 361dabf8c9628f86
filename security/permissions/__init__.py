"""Rules, grants, and the questions they answer in advance."""

from .answers import APPROVAL, Asks, grants_behind, recheck, resolve_asks, who_lets_it_run
from .grants import Always, Patterns, granted_by, problem_with, proposed_grants, wider_grants
from .matching import JUDGED, holding_back, matched, pattern_problem

__all__ = [
    "APPROVAL",
    "JUDGED",
    "Always",
    "Asks",
    "Patterns",
    "granted_by",
    "grants_behind",
    "holding_back",
    "matched",
    "pattern_problem",
    "problem_with",
    "proposed_grants",
    "recheck",
    "resolve_asks",
    "who_lets_it_run",
    "wider_grants",
]
