"""Rules, grants, and the Asks they answer in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .answers import (
        APPROVAL,
        CHANGED_SINCE,
        Asks,
        answers_for_changes,
        grants_behind,
        lapsed_behind,
        open_hosts,
        recheck,
        resolve_asks,
        who_lets_it_run,
    )
    from .grants import Always, Patterns, granted_by, problem_with, proposed_grants, wider_grants
    from .lending import is_of_lent, lending_word, lent_names, lent_to, reads_lent
    from .matching import JUDGED, holding_back, matched, pattern_problem
    from .narrowing import narrowed, outside

__all__ = [
    "APPROVAL",
    "CHANGED_SINCE",
    "JUDGED",
    "Always",
    "Asks",
    "Patterns",
    "answers_for_changes",
    "granted_by",
    "grants_behind",
    "holding_back",
    "is_of_lent",
    "lapsed_behind",
    "lending_word",
    "lent_names",
    "lent_to",
    "matched",
    "narrowed",
    "open_hosts",
    "outside",
    "pattern_problem",
    "problem_with",
    "proposed_grants",
    "reads_lent",
    "recheck",
    "resolve_asks",
    "who_lets_it_run",
    "wider_grants",
]

_HOMES = {
    "APPROVAL": ".answers",
    "Always": ".grants",
    "Asks": ".answers",
    "CHANGED_SINCE": ".answers",
    "JUDGED": ".matching",
    "Patterns": ".grants",
    "answers_for_changes": ".answers",
    "granted_by": ".grants",
    "grants_behind": ".answers",
    "holding_back": ".matching",
    "lapsed_behind": ".answers",
    "lending_word": ".lending",
    "is_of_lent": ".lending",
    "lent_names": ".lending",
    "lent_to": ".lending",
    "matched": ".matching",
    "narrowed": ".narrowing",
    "open_hosts": ".answers",
    "outside": ".narrowing",
    "pattern_problem": ".matching",
    "problem_with": ".grants",
    "proposed_grants": ".grants",
    "reads_lent": ".lending",
    "recheck": ".answers",
    "resolve_asks": ".answers",
    "who_lets_it_run": ".answers",
    "wider_grants": ".grants",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
