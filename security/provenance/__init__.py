"""Find where a value was first seen: keyed hashes of the tokens of every text, and what they imply."""

from .index import MOST_TOKENS, Sighting, TokenIndex
from .moments import is_moment
from .outward import Outward, sent_mark
from .sentences import affirmed
from .tokens import actionable_in, forms_of, number_form
from .values import (
    OwnWords,
    Values,
    act_marks,
    path_marks,
    private_sighting,
    text_marks,
    used_marks,
    word_marks,
)

__all__ = [
    "MOST_TOKENS",
    "Outward",
    "OwnWords",
    "Sighting",
    "TokenIndex",
    "Values",
    "act_marks",
    "actionable_in",
    "affirmed",
    "forms_of",
    "is_moment",
    "number_form",
    "path_marks",
    "private_sighting",
    "sent_mark",
    "text_marks",
    "used_marks",
    "word_marks",
]
