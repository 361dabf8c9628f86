"""What waits for its first use: names of heavy packages, regular expressions, methods of dataclasses."""

from .dataclass import dataclass
from .names import LazyModule, lazy_names
from .regex import regex

__all__ = ["LazyModule", "dataclass", "lazy_names", "regex"]
