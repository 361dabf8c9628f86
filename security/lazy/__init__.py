"""What waits for its first use: names of heavy packages, regular expressions, methods of dataclasses."""

from .dataclass import dataclass
from .names import LazyModule, Loads, lazy_names
from .regex import regex

__all__ = ["LazyModule", "Loads", "dataclass", "lazy_names", "regex"]
