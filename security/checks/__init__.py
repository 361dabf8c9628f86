"""The tables and checks behind the gates `arguments`, `grounding` and `hosts`."""

from .arguments import PATTERNS, rejected_pattern
from .flowing import (
    ACTING,
    carries_out,
    describe_private,
    describe_untrusted,
    foreign_in,
    risky_paths,
    sent_to,
    suspicion_note,
)
from .grounding import UrlQuestion, combined_ask, unreadable_url, url_question
from .leaking import OUTWARD, carried_secret, confidential_source, is_confidential, is_random, let_out
from .network import carries_secret, is_by_host, network_word, refused_host
from .own_words import is_own_words
from .rejections import pattern_errors, rejections
from .sighting import WAY_OUT, destination_question, id_question, negated_question, seen_question
from .suggestion import acceptable_url, asked_to_write, instead_of

__all__ = [
    "ACTING",
    "OUTWARD",
    "PATTERNS",
    "WAY_OUT",
    "UrlQuestion",
    "acceptable_url",
    "asked_to_write",
    "carried_secret",
    "carries_out",
    "carries_secret",
    "combined_ask",
    "confidential_source",
    "describe_private",
    "describe_untrusted",
    "destination_question",
    "foreign_in",
    "id_question",
    "instead_of",
    "is_by_host",
    "is_confidential",
    "is_own_words",
    "is_random",
    "let_out",
    "negated_question",
    "network_word",
    "pattern_errors",
    "refused_host",
    "rejected_pattern",
    "rejections",
    "risky_paths",
    "seen_question",
    "sent_to",
    "suspicion_note",
    "unreadable_url",
    "url_question",
]
