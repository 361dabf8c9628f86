"""The tables and questions behind the gates `arguments` and `grounding`."""

from .arguments import PATTERNS, Rejection, rejected_pattern
from .grounding import DOUBTS, Doubt, destination_doubt, unread_url, url_doubt
from .suggestion import instead_of, passing_url

__all__ = [
    "DOUBTS",
    "PATTERNS",
    "Doubt",
    "Rejection",
    "destination_doubt",
    "instead_of",
    "passing_url",
    "rejected_pattern",
    "unread_url",
    "url_doubt",
]
