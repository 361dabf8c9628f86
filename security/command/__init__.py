"""A shell line as the actions it consists of, and what the machine was asked about them.

How a line is judged stands in `verdict.py` and `reach.py`; the gate `commands` puts the two together.
"""

from .nouns import CommandFacts, CommandLine
from .read import parse_command
from .rules import DEFAULT_CONFIRM, ShellRules

__all__ = ["DEFAULT_CONFIRM", "CommandFacts", "CommandLine", "ShellRules", "parse_command"]
