"""Permissions a person gave for longer than one call: the rule, its scope and its expiry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from ..kinds import UNKNOWN, Effect, Kind
from ..lazy import dataclass
from ..paths import literally
from ..policy import Rule, RuleAction

__all__ = ["ENDORSEMENT", "OPEN", "Grant", "GrantEntry", "Scope", "effect_words"]

OPEN = 2**62
"""In the place of the number of a change: a call is at work that may make one at any time."""

ENDORSEMENT = "trust:"
"""The text before a kind where a grant is about a value of it; no tool can be called so."""


class Scope(StrEnum):
    """Where a grant holds: in this session, in this workspace, or everywhere."""

    SESSION = "session"
    WORKSPACE = "workspace"
    EVERYWHERE = "everywhere"

    @property
    def is_lasting(self) -> bool:
        """Whether a grant with this scope outlives its session."""
        return self is not Scope.SESSION


_PLACES = {
    Scope.SESSION: "this session",
    Scope.WORKSPACE: "this workspace",
    Scope.EVERYWHERE: "every workspace",
}


_DOING = {
    Effect.CREATE: "create",
    Effect.WRITE: "write",
    Effect.EXECUTE: "execute",
    Effect.SEND: "send",
    Effect.BRING_IN: "bring_in",
}


def effect_words(effects: Effect) -> str:
    """Return what a call does beyond reading, as a grant names it: "bring_in send"."""
    return " ".join(sorted(word for effect, word in _DOING.items() if effect in effects))


@dataclass(frozen=True, slots=True)
class Grant:
    """An allow rule that the person gave in a session; `until` is seconds since the epoch (None: no end).

    It answers for commands that start in `folder`, an absolute path with links resolved. None is the root of
    the workspace it is used in, which is what a grant means that was given at the root. Where `tool` is
    `keep`, it answers for paths that commands like `command` change in a trial run.

    `files` are those that the commands run by name, with the hash of what each held (`CommandFacts.code`);
    `mark` is a number that every later change by a call is higher than. None: it is bound to no file, as
    those of earlier releases, which have none on record. Trust in a value is for calls with the `effect` of
    the one it was given for ("send", "bring_in send"); "" is for any, as in earlier releases.
    """

    id: str
    tool: str
    match: str | None
    scope: Scope = Scope.SESSION
    until: float | None = None
    folder: str | None = None
    command: str | None = None
    files: tuple[tuple[str, str], ...] | None = None
    mark: int = 0
    effect: str = ""

    @property
    def rule(self) -> Rule:
        """The rule; its place is where it holds, with the name by which it can be revoked."""
        name = f" ({self.id})" if self.id else ""
        folder = None if self.folder is None else literally(self.folder)
        where = f"{self.holds}{name}"
        return Rule(self.tool, RuleAction.ALLOW, self.match, where=where, folder=folder, command=self.command)

    def endorses(self, kind: Kind, value: str, effects: Effect) -> bool:
        """Whether it is the person's trust in a value of a kind, in canonical form, for what a call does."""
        if self.tool != f"{ENDORSEMENT}{kind}" or self.match != value:
            return False
        doing = effect_words(effects)
        # A query of a place is no leave to send to it, nor the reverse; reading does nothing to it.
        return self.effect in ("", doing) or not doing

    @property
    def what(self) -> str:
        """What it allows, as a person reads it; a folder is named where it is not the workspace's root."""
        if self.tool.startswith(ENDORSEMENT):
            kind = self.tool.removeprefix(ENDORSEMENT).replace("_", " ")
            return f"the {kind} {self.match}, whatever showed it"
        what = f"every call of {self.tool}" if self.match is None else f"{self.tool} {self.match}"
        what += f" changed by {self.command}" if self.command is not None else ""
        return what if self.folder is None else f"{what} in {self.folder}"

    @property
    def purpose(self) -> str:
        """For which calls a trusted value is trusted, as a person reads it; "" for all."""
        does = " and ".join(word.replace("_", " ") for word in self.effect.split())
        return f", in calls that {does}" if does else ""

    @property
    def holds(self) -> str:
        """Where and until when: "this workspace until 2027-01-31 12:00 UTC"."""
        place = _PLACES[self.scope]
        if self.until is None:
            return place
        return f"{place} until {datetime.fromtimestamp(self.until, UTC):%Y-%m-%d %H:%M} UTC"

    def holds_at(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.until is None or now < self.until

    def changed_since(self, code: Mapping[str, str], changed: Mapping[str, int]) -> tuple[str, ...]:
        """Return the files that hold something else than they did, where a call changed them since.

        What a person edits alone is theirs. What both changed counts as changed by a call: whatever tools of
        the person did to it afterwards, nobody was shown what the call wrote.
        """
        if self.files is None:
            return ()
        held = dict(self.files)
        return tuple(
            path
            for path, number in changed.items()
            if number > self.mark and path in code.keys() | held.keys()
            if code.get(path, "") != held.get(path, "") or code.get(path) == UNKNOWN
        )


@dataclass(frozen=True, slots=True)
class GrantEntry:
    """A grant that outlives its session, as it is stored. Times are seconds since the epoch.

    `workspace` is the only one it holds in, `call` the one it was given in answer to.
    """

    grant: Grant
    workspace: str | None
    granted_at: float
    session: str
    call: str | None
    last_used: float | None
