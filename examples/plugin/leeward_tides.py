"""Three tools about tides in a package of their own; `test_leeward_tides.py` beside it tests them."""

from __future__ import annotations

from pathlib import Path

from leeward import Effect, PermanentFailure, ResourceId, Text, ToolExecutor, Url, WorkspacePath, tool

__all__ = ["executors", "tide_log", "tide_page", "tide_times"]

_HIGH_WATER = {"DE-HUS": "01:12, 13:38", "DK-ESB": "02:04, 14:29"}


@tool(effects=Effect.READ, idempotent=True)
async def tide_times(port: ResourceId) -> str:
    """Today's high water at a port, by its code."""
    try:
        return _HIGH_WATER[port]
    except KeyError:
        raise PermanentFailure(f"no port has the code {port}; there are {', '.join(_HIGH_WATER)}") from None


@tool(effects=Effect.WRITE)
def tide_log(path: WorkspacePath, line: Text) -> str:
    """Add a line to a log of tides."""
    # A plain `def` runs in a thread, so it may wait for the disk.
    with Path(path.real).open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")
    return f"added to {path.text}"


@tool(effects=Effect.SEND | Effect.BRING_IN)
async def tide_page(page: Url) -> str:
    """Say which station a page is about."""
    return f"the station {page.segments[-1] if page.segments else 'of ' + page.host}"


def executors() -> list[ToolExecutor]:
    """Return the tools; what the entry point of the package names."""
    return [tide_times, tide_log, tide_page]
