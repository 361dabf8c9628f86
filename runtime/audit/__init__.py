"""`leeward audit`, /audit and /why."""

from .query import explanation_of, records_of
from .text import record_lines, record_text

__all__ = ["explanation_of", "record_lines", "record_text", "records_of"]
