"""What waits for its first use: names of heavy packages, and regular expressions."""

from .names import LazyModule, lazy_names
from .regex import regex

__all__ = ["LazyModule", "lazy_names", "regex"]
