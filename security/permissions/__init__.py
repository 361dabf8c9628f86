"""Rules, grants, and the questions they answer in advance."""

from .answers import APPROVAL, Asks, answered, grants_behind, reconsidered
from .grants import Always, Patterns, granted_by, problem_with, proposed_grants, wider_grants
from .matching import JUDGED, holding_back, matched, pattern_problem

__all__ = [
    "APPROVAL",
    "JUDGED",
    "Always",
    "Asks",
    "Patterns",
    "answered",
    "granted_by",
    "grants_behind",
    "holding_back",
    "matched",
    "pattern_problem",
    "problem_with",
    "proposed_grants",
    "reconsidered",
    "wider_grants",
]
