"""Find where a value was first seen: keyed hashes of the tokens of every text, and what they imply."""

from .index import Sighting, TokenIndex
from .moments import is_moment
from .outward import sent_mark
from .sentences import affirmed
from .tokens import actionable_in, forms_of, number_form
from .values import (
    Values,
    act_marks,
    path_marks,
    private_sighting,
    text_marks,
    used_marks,
    word_marks,
)

__all__ = [
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
