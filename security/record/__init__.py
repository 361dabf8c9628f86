"""What is written down of a judgement, and how it is read back."""

from .decisions import words_of
from .journal import Book, tell
from .replay import OF_THE_CALL, not_looked_up, reread, standpoint, untold

__all__ = ["OF_THE_CALL", "Book", "not_looked_up", "reread", "standpoint", "tell", "untold", "words_of"]
