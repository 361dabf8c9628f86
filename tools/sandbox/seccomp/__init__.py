"""System call filters for programs in the sandbox, and system call numbers."""

from .filter import Sockets, filter_program, noticing_program, reading_program
from .system_calls import MACHINES

__all__ = ["MACHINES", "Sockets", "filter_program", "noticing_program", "reading_program"]
