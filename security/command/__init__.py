"""A shell line as the actions it consists of."""

from .parse import CommandLine, parse_command

__all__ = ["CommandLine", "parse_command"]
