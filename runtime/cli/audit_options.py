"""What may be said behind `leeward audit`? Imports the standard library only, like `cli.py`."""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

__all__ = ["FORMATS", "add_audit", "moment"]

FORMATS = ("jsonl", "csv", "otel")
"""The forms in which the audit is exported."""

_SPAN = re.compile(r"(\d{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def moment(text: str, now: Callable[[], float] = time.time) -> float:
    """Return what `--since` means in seconds since the epoch: `2h` ago, or a date with or without a time.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return now() - int(span[1]) * _SECONDS[span[2]]
    try:
        found = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError("expected a time: 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00")
    return found


def add_audit(
    commands: Any, shared: dict[str, Any], parser: type[argparse.ArgumentParser], count: Callable[[str], int]
) -> None:
    """Add the command with its actions; `count` reads a whole number from 1."""
    audit = commands.add_parser("audit", **shared, help="what was decided and done, and why")
    words = "list|show|why|tail|verify|export|replay|stats"
    actions = audit.add_subparsers(dest="action", metavar=words, required=True, parser_class=parser)
    listing = actions.add_parser("list", **shared, help="the newest records")
    tail = actions.add_parser("tail", **shared, help="records as they come, from every process")
    for one, limit in ((listing, 50), (tail, 10)):
        one.add_argument("--limit", metavar="N", type=count, default=limit, help=f"how many ({limit})")
        _filters(one, "session", "kind", "tool", "denied")
    _filters(listing, "since")
    listing.add_argument("--egress", action="store_true", help="only what was opened, or would have been")
    show = actions.add_parser("show", **shared, help="all records about one call")
    show.add_argument("name", metavar="CALL", help="its id, how it begins, or: last")
    why = actions.add_parser("why", **shared, help="what every gate said, and what would have allowed it")
    help_of_call = "its id, how it begins, or: last (the last that was refused or asked about)"
    why.add_argument("name", metavar="CALL", nargs="?", default="", help=help_of_call)
    verify = actions.add_parser("verify", **shared, help="whether any record was changed, or is missing")
    verify.add_argument("--head", metavar="LINE|FILE", help="a signed head from a second place")
    export = actions.add_parser("export", **shared, help="all of it, for other programs")
    export.add_argument("--format", dest="form", choices=FORMATS, default="jsonl", help="jsonl, if left out")
    _filters(export, "session", "since", "kind")
    replay = actions.add_parser("replay", **shared, help="what the configuration (--config) would decide")
    _filters(replay, "session", "since")
    stats = actions.add_parser("stats", **shared, help="calls, refusals, questions and failures, counted")
    _filters(stats, "session", "since", "tool")


def _filters(parser: argparse.ArgumentParser, *names: str) -> None:
    add: dict[str, Callable[[], object]] = {
        "session": lambda: parser.add_argument("--session", metavar="ID", help="of this session only"),
        "since": lambda: parser.add_argument(
            "--since", metavar="WHEN", type=moment, help="from then on: 2h, 7d, 2026-01-31"
        ),
        "kind": lambda: parser.add_argument(
            "--kind", dest="kinds", metavar="KIND", action="append", help="decision, outcome, egress, …"
        ),
        "tool": lambda: parser.add_argument("--tool", metavar="TOOL", help="about this tool only"),
        "denied": lambda: parser.add_argument("--denied", action="store_true", help="only what was refused"),
    }
    for name in names:
        add[name]()
