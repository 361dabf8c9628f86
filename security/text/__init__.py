"""Characters, escape sequences, wildcards, secrets and masks in text."""

from .ansi import Stripper
from .mask import mask_of, use_mask_key
from .nonce import margin_of, mark_in, new_nonce, with_margins, without_margins, without_nonces
from .scripts import find_look_alikes, look_alike_flags, mixes_scripts, skeleton
from .secrets import Redactor, mask_form, redact_text
from .unicode import (
    CONTROLS,
    INVISIBLE,
    find_control,
    find_invisible,
    find_tag,
    folded,
    hidden_spans,
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
    "find_look_alikes",
    "find_tag",
    "folded",
    "hidden_spans",
    "is_invisible",
    "is_ordinary",
    "look_alike_flags",
    "margin_of",
    "mark_in",
    "mask_form",
    "mask_of",
    "mixes_scripts",
    "new_nonce",
    "redact_text",
    "skeleton",
    "use_mask_key",
    "visible",
    "wildcard_expression",
    "wildcard_tokens",
    "with_margins",
    "without_invisible",
    "without_margins",
    "without_nonces",
]
