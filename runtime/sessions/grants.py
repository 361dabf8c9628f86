"""Grants of a session: load those stored, list them, and revoke them everywhere.

A grant that outlives its session holds in every other session in its scope, and ends there once it is
revoked: each session looks at what is stored before it judges a call (`Journal.catch_up`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from leeward.memory.grants import GrantStore
from leeward.security.pipeline import Pipeline
from leeward.security.ports import RecordError
from leeward.security.session import Grant, GrantEntry, Revoked, Session
from leeward.security.text import visible

from ..exits import CliError, Exit

__all__ = ["grant_line", "grant_lines", "no_such_grant", "revoke", "revoked", "take_in"]

_ELSEWHERE = "other sessions that run let go of it before their next call"


async def take_in(pipeline: Pipeline) -> None:
    """Let what is stored count in a session before its first call; where that fails, so will the call."""
    with suppress(RecordError):
        await pipeline.catch_up()
        await pipeline.note()


async def revoke(name: str, store: GrantStore, pipeline: Pipeline) -> str:
    """Take a grant back and say what that means; it is on record in the session of `pipeline`.

    Raises:
        CliError: there is no such grant, or it is still stored.
        RecordError: the grants could not be read.
    """
    stored = {one.grant.id: one.grant for one in await store.all()}
    found = stored.get(name) or next((one for one in pipeline.session.grants if one.id == name), None)
    if found is None:
        raise no_such_grant(name)
    await pipeline.note(Revoked(pipeline.session.now, name))
    if any(one.grant.id == name for one in await store.all()):
        why = "it answers nothing more in this session, but that could not be written yet"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", why)
    return revoked(found)


def revoked(grant: Grant) -> str:
    """Say what it means that a grant was revoked."""
    elsewhere = f"; {_ELSEWHERE}" if grant.scope.is_lasting else ""
    return f"revoked: allow {visible(grant.what)}{elsewhere}"


def no_such_grant(name: str) -> CliError:
    """Return the error of a name that no grant has."""
    why = f"there is no grant {visible(name)}"
    return CliError(Exit.NOT_FOUND, "NOT_FOUND", why, suggestion="leeward permissions list")


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
    return f"{grant.id:<11} allow {visible(grant.what)}  for {grant.holds}{visible(place)}{used}"


def _minute(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
