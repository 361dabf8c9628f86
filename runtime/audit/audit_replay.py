"""`leeward audit replay`: what would the configuration of today, or another one, have decided?

What is judged, and by what, is told in `replay.py`. Configuration files are read; nothing else is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from leeward.memory.audit import AuditLogger, RecordFilter
from leeward.security.kinds import Json
from leeward.security.policy import Policy
from leeward.security.session import Configured, Decided, Session
from leeward.security.text import visible

from ..config import is_trusted, load
from ..console import Start, look
from ..exits import Exit
from ..options import Options
from ..policy import to_policy
from ..printer import Printer
from ..sessions import recorded
from .query import filter_of
from .replay import Replayed, replayed

__all__ = ["replay"]

_AT_ONCE = 20  # calls judged between two points at which others may run
_LONGEST = 100


@dataclass(slots=True)
class _Count:
    """How many decisions were made again, and what came of that."""

    sessions: int = 0
    decisions: int = 0
    changed: int = 0
    untold: int = 0

    def as_json(self) -> dict[str, Json]:
        return {
            "sessions": self.sessions,
            "decisions": self.decisions,
            "changed": self.changed,
            "untold": self.untold,
        }


async def replay(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Judge the calls of one session, or of all, again, and tell what would be another decision.

    Raises:
        CliError: there is no such session, or the configuration cannot be used.
        RecordError: the records cannot be read.
    """
    wanted, start = await filter_of(options, opened), look(options)
    sessions = await opened.reports.sessions(wanted)
    count, told = _Count(), list[Json]()
    for session in sessions:
        count.sessions += 1
        async for one in _replayed(session, opened, start, options):
            count.decisions += 1
            count.changed += one.is_changed
            count.untold += one.new is None
            if one.is_changed or one.untold:
                told.append({"session": session, **one.as_json()})
                printer.event({"schema": 1, "type": "replayed", "session": session, **one.as_json()})
                printer.answer("".join(f"{line}\n" for line in _lines(session, one)))
    printer.answer(_summary(count))
    return printer.finish(Exit.SUCCESS, {**count.as_json(), "calls": told})


def _summary(count: _Count) -> str:
    untold = f", {count.untold} cannot be told" if count.untold else ""
    sessions = f"{count.sessions} session{'s' if count.sessions != 1 else ''}"
    return f"{count.decisions} decisions in {sessions}: {count.changed} would be others{untold}\n"


def _lines(session: str, one: Replayed) -> Iterator[str]:
    """Yield a decision that would be another one, or of which not all can be told."""
    decided, new = one.decided, one.new
    hop = f" (hop {decided.hop})" if decided.hop else ""
    about = visible(decided.arguments)[:_LONGEST]
    yield f"{visible(decided.call)}  {visible(decided.tool)}{hop}  {about}  {session}"
    yield f"  was {visible(str(one.old))}; would be {'open: see below' if new is None else visible(str(new))}"
    was = {said.gate: said.word for said in one.was}
    for said in one.now:
        if said.gate in one.untold:
            yield f"    {said.gate}: cannot be told: {visible(one.untold[said.gate])}"
        elif was.get(said.gate) != said.word:
            rule = f" ({visible(said.rule)})" if said.rule else ""
            yield f"    {said.gate}: was {was.get(said.gate, 'not asked')}, would be {said.word}{rule}"


async def _replayed(
    session: str, opened: AuditLogger, start: Start, options: Options
) -> AsyncIterator[Replayed]:
    """Yield the decisions of a session, made again; what a fork was given by another is folded before."""
    root, recalled = await recorded(opened, session)
    events = list(recalled)
    given = len(events) - len(await opened.events_of(session))
    policies = _Policies(start, options)
    first = Configured(0.0, "", workspace=await _workspace(session, opened), home=str(start.places.home))
    began = Session(session, policies.of(first), root=root if root != session else "", counting=0)
    skipped = sum(isinstance(event, Decided) for event in events[:given])
    for number, one in enumerate(replayed(began, events, policies.of)):
        if number % _AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        if number >= skipped and (options.since is None or one.decided.at >= options.since):
            yield one


async def _workspace(session: str, opened: AuditLogger) -> str:
    """Return where a session was, which an older one says only where it began."""
    begun = await opened.reports.after(RecordFilter(session, ("session",)), 0, 1)
    return str(begun[0].body.get("workspace", "/")) if begun else "/"


class _Policies:
    """What the configuration allows, in whichever workspace a session was."""

    def __init__(self, start: Start, options: Options) -> None:
        self._start = start
        self._options = options
        self._known: dict[tuple[str, str, bool], Policy] = {}

    def of(self, configured: Configured) -> Policy:
        """Return what is allowed in the place that an event names; links are as they were then."""
        workspace, home, headless = configured.workspace, configured.home, configured.headless
        key = (workspace, home, headless)
        if key not in self._known:
            self._known[key] = replace(self._read(*key), workspace=workspace, home=home)
        return self._known[key]

    def _read(self, workspace: str, home: str, headless: bool) -> Policy:
        places, options = self._start.places, self._options
        trusted = is_trusted(places.data, Path(workspace)) is True
        loaded = load(file=options.config, workspace=Path(workspace), trusted=trusted, flags=options.flags())
        return to_policy(
            loaded,
            workspace=Path(workspace),
            home=Path(home),
            headless=headless,
            data_dir=places.data,
            config_dir=places.config,
        )
