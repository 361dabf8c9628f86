"""Goes on as if nothing had been between: what was allowed elsewhere still is, and what ran still runs."""

from __future__ import annotations

from dataclasses import replace

from leeward.security.session import Event, Resumed, Session, apply_events


def resumed(session: Session, event: Event) -> Session:
    return replace(session, now=event.at) if isinstance(event, Resumed) else apply_events(session, event)
