"""One run of a command: its folder and configuration, its signals, its exit code."""

from .exit_codes import exit_of_denial, exit_of_result, was_asked
from .foreground import model_failure
from .startup import Startup, begin, look, require_model

__all__ = [
    "Startup",
    "begin",
    "exit_of_denial",
    "exit_of_result",
    "look",
    "model_failure",
    "require_model",
    "was_asked",
]
