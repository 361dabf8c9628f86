"""Grants of a session: load those stored, list them, and revoke them everywhere.

A grant that outlives its session holds in every other session in its scope, and ends there once it is
revoked: each session looks at what is stored before it judges a call (`Journal.catch_up`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from leeward.security.ports import RecordError
from leeward.security.session import (
    ConversationCleared,
    Event,
    Grant,
    Granted,
    GrantEntry,
    Revoked,
    Session,
)
from leeward.security.text import visible

from ..exits import CliError, Exit

if TYPE_CHECKING:
    from leeward.memory.grants import GrantStore
    from leeward.security.pipeline import Pipeline

__all__ = ["grant_line", "grant_lines", "grant_named", "revoke", "revoked", "still_given", "take_in"]

_FEW = 8
_ELSEWHERE = "other sessions that run let go of it before their next call"


async def take_in(pipeline: Pipeline) -> None:
    """Let what is stored count in a session before its first call; where that fails, so will the call."""
    with suppress(RecordError):
        await pipeline.catch_up()
        await pipeline.note()


def still_given(events: Iterable[Event]) -> tuple[Granted, ...]:
    """Return how the person gave what they did not take back or forget since, also where it lapsed.

    Grants that outlive their session are not among them: they are taken in from where they are stored.
    """
    given: dict[str, Granted] = {}
    for event in events:
        match event:
            case Granted(stored=False, grant=grant) if not grant.scope.is_lasting:
                given[grant.id] = event
            case Revoked(id=name):
                given.pop(name, None)
            case ConversationCleared():
                given.clear()
    return tuple(given.values())


async def revoke(name: str, store: GrantStore, pipeline: Pipeline) -> str:
    """Take a grant back and say what that means; it is on record in the session of `pipeline`.

    `name` is its id, or the beginning of it.

    Raises:
        CliError: there is no such grant, there are several, or it is still stored.
        RecordError: the grants could not be read.
    """
    stored = [one.grant for one in await store.all()]
    found = grant_named(name, (*stored, *pipeline.session.grants))
    await pipeline.note(Revoked(pipeline.session.now, found.id))
    if any(one.grant.id == found.id for one in await store.all()):
        why = "it answers nothing more in this session, but that could not be written yet"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", why)
    return revoked(found)


def revoked(grant: Grant) -> str:
    """Say what it means that a grant was revoked."""
    elsewhere = f"; {_ELSEWHERE}" if grant.scope.is_lasting else ""
    return f"revoked: allow {visible(grant.what)}{elsewhere}"


def grant_named(name: str, grants: Iterable[Grant]) -> Grant:
    """Return the grant that has this id, or whose id alone begins so.

    Raises:
        CliError: there is none, or there are several.
    """
    fitting = {one.id: one for one in grants if name and one.id.startswith(name)}
    if name in fitting:
        return fitting[name]
    if len(fitting) > 1:
        listed = sorted(fitting)
        more = f" and {len(listed) - _FEW} more" if len(listed) > _FEW else ""
        why = f"{visible(name)} is the beginning of several grants: {', '.join(listed[:_FEW])}{more}"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion="give more of the id")
    if not fitting:
        why = f"there is no grant {visible(name)}"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why, suggestion="leeward permissions list")
    return next(iter(fitting.values()))


def grant_lines(session: Session, stored: Sequence[GrantEntry]) -> Iterator[str]:
    """Yield the grants that hold in a session, with the name each is revoked by."""
    known = {one.grant.id: one for one in stored}
    for grant in session.active_grants():
        yield grant_line(grant, known.get(grant.id))


def grant_line(grant: Grant, stored: GrantEntry | None, where: str | None = None) -> str:
    """Return a grant on one line: its name, the rule, where it holds and until when, and when it was used."""
    used = ""
    if stored is not None:
        last = stored.last_used
        used = "  (not used yet)" if last is None else f"  (last used {_minute(last)})"
    place = f" in {where}" if where is not None else ""
    return (
        f"{grant.id:<11} allow {visible(grant.what)}{grant.purpose}  for {grant.holds}{visible(place)}{used}"
    )


def _minute(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
