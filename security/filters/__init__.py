"""The filters a text passes before the model sees it; their order is `FILTERS` in `pipeline.py`."""

from .cap import cap
from .distill import Excerpt, distill
from .fence import fence, inline, label
from .redact import redact
from .screened import (
    HARD_BOUND,
    Distillation,
    Distilled,
    Feeder,
    Filter,
    Screened,
    Source,
    Stepwise,
    applied,
)
from .strip import strip
from .suspect import suspect, suspicion_in

__all__ = [
    "HARD_BOUND",
    "Distillation",
    "Distilled",
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
    "suspect",
    "suspicion_in",
]
