"""The tables and questions behind the gates `arguments` and `grounding`."""

from .arguments import PATTERNS, Rejection, rejected_pattern
from .grounding import DOUBTS, UrlQuestion, destination_question, unread_url, url_question
from .suggestion import instead_of, passing_url

__all__ = [
    "DOUBTS",
    "PATTERNS",
    "Rejection",
    "UrlQuestion",
    "destination_question",
    "instead_of",
    "passing_url",
    "rejected_pattern",
    "unread_url",
    "url_question",
]
