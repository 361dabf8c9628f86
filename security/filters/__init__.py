"""What a text passes before it is seen; the order is `FILTERS` in `pipeline.py`."""

from .cap import cap
from .distill import Excerpt, distill
from .fence import fence, inline, label
from .redact import redact
from .screened import HARD_BOUND, Feeder, Filter, Screened, Source, Stepwise, applied
from .strip import strip

__all__ = [
    "HARD_BOUND",
    "Excerpt",
    "Feeder",
    "Filter",
    "Screened",
    "Source",
    "Stepwise",
    "applied",
    "cap",
    "distill",
    "fence",
    "inline",
    "label",
    "redact",
    "strip",
]
