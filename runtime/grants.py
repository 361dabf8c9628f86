"""Which grants does a session hold, and what becomes of one that is taken back?

A grant that outlives its session is taken in by every later one it holds in. One that is revoked answers
nothing more in any running session of this process; sessions of other processes have read it already, and
let go of it when they next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import trio

from leeward.memory import GrantStore, StoredGrant
from leeward.security import Grant, Pipeline, Revoked, Session, visible

from .exits import CliError, Exit

__all__ = ["grant_line", "grant_lines", "holding", "no_such_grant", "revoke", "revoked", "take_in"]

_ELSEWHERE = "a session that runs in another process lets go of it at its next start"

_HOLDERS: trio.lowlevel.RunVar[list[tuple[Path, Callable[[], Pipeline]]]] = trio.lowlevel.RunVar("holders")


@contextmanager
def holding(database: Path, pipeline: Callable[[], Pipeline]) -> Iterator[None]:
    """Let a session that runs hear of what is revoked while the block lasts."""
    holders = _HOLDERS.get([])
    _HOLDERS.set(holders)
    holder = (database, pipeline)
    holders.append(holder)
    try:
        yield
    finally:
        holders.remove(holder)


async def take_in(store: GrantStore, pipeline: Pipeline) -> None:
    """Let the stored grants that hold in a session's workspace count in it.

    Raises:
        RecordError: they could not be read.
    """
    session = pipeline.session
    known = {grant.id for grant in session.grants}
    stored = await store.holding_in(session.policy.workspace)
    await pipeline.note(*(one.taken_in(session.now) for one in stored if one.grant.id not in known))


async def revoke(name: str, store: GrantStore, pipeline: Pipeline, database: Path) -> str:
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
    for where, holder in tuple(_HOLDERS.get([])):
        other = holder()
        if where == database and any(grant.id == name for grant in other.session.grants):
            await other.note(Revoked(other.session.now, name))
    if any(one.grant.id == name for one in await store.all()):
        why = "it answers nothing more in this session, but that could not be written yet"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", why)
    return revoked(found)


def revoked(grant: Grant) -> str:
    """Say what it means that a grant was revoked."""
    elsewhere = f"; {_ELSEWHERE}" if grant.scope.is_lasting else ""
    return f"revoked: {visible(str(grant.rule))}{elsewhere}"


def no_such_grant(name: str) -> CliError:
    """Return the error of a name that no grant has."""
    why = f"there is no grant {visible(name)}"
    return CliError(Exit.NOT_FOUND, "NOT_FOUND", why, suggestion="leeward permissions list")


def grant_lines(session: Session, stored: Sequence[StoredGrant]) -> Iterator[str]:
    """Yield the grants that hold in a session, with the name each is revoked by."""
    known = {one.grant.id: one for one in stored}
    for grant in session.active_grants():
        yield grant_line(grant, known.get(grant.id))


def grant_line(grant: Grant, stored: StoredGrant | None, where: str | None = None) -> str:
    """Return a grant on one line: its name, the rule, where it holds and until when, and when it was used."""
    match = "" if grant.match is None else f" {grant.match}"
    used = ""
    if stored is not None:
        last = stored.last_used
        used = "  (not used yet)" if last is None else f"  (last used {_minute(last)})"
    place = f" in {where}" if where is not None else ""
    return f"{grant.id:<11} {visible(f'allow {grant.tool}{match}')}  for {grant.holds}{visible(place)}{used}"


def _minute(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
