"""Characters, terminal escape sequences, wildcards, secrets and masks in a text."""

from .ansi import Stripper
from .nonce import mark_in, new_nonce
from .secrets import Redactor, redact_text
from .unicode import (
    CONTROLS,
    INVISIBLE,
    find_control,
    find_invisible,
    find_tag,
    folded,
    is_invisible,
    is_ordinary,
    visible,
    without_invisible,
)
from .wildcards import WildcardToken, wildcard_expression, wildcard_tokens

__all__ = [
    "CONTROLS",
    "INVISIBLE",
    "Redactor",
    "Stripper",
    "WildcardToken",
    "find_control",
    "find_invisible",
    "find_tag",
    "folded",
    "is_invisible",
    "is_ordinary",
    "mark_in",
    "new_nonce",
    "redact_text",
    "visible",
    "wildcard_expression",
    "wildcard_tokens",
    "without_invisible",
]
