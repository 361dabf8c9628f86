"""The parsed command line as one value. Imports the standard library only."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from leeward.security.lazy import dataclass

from .exits import CommandRun

__all__ = ["Options", "Output"]

Output: TypeAlias = Literal["text", "json", "jsonl"]


@dataclass(frozen=True, slots=True)
class Options:
    """The command line, read; what was not given is None, empty or False.

    `command` is the first word ("" where there was none), `action` the second of `audit`, `config` and
    `permissions`, `name` the session, call or grant that is asked about. `urls` and `seen` are what the
    person gave and what was read before a `call` or `check`, `rung` what commands can run in for the latter.
    `timeout` is in seconds. `trust_workspace` answers for what the workspace brings, in this run.
    `session`, `kinds`, `tool`, `denied` and `since` (seconds since the epoch) say which records are meant,
    `form` is how they are exported, `head` a signed head of the audit, or the file that holds it.
    `output_schema` is the file with the JSON Schema that the answer to `prompt` must fit.
    `report` is where a JUnit report of `scripts` goes, of which as many as `jobs` are run at once.
    `key` names a run whose steps are done once, `on_unknown` is `repeat` or `skip` for a call of it that may
    have run.
    `resume` is the session to resume, "" the latest; `turn` the one behind which it is forked.
    `line` and `exit_code` are the command whose output a file holds, and how it ended.
    `words`, `url` and `level` are the command line, the address and the trust of a server.
    `older_than` (days) and `kept` (overflow, transcripts, audit) say what `storage prune` may delete.
    """

    command: str = ""
    config: Path | None = None
    workspace: Path | None = None
    profile: str | None = None
    model: str | None = None
    autonomy: str | None = None
    output: Output = "text"
    timeout: float | None = None
    max_turns: int | None = None
    trust_workspace: bool = False
    quiet: bool = False
    verbose: bool = False
    prompt: str | None = None
    scripts: tuple[str, ...] = ()
    jobs: int | None = None
    report: Path | None = None
    key: str | None = None
    on_unknown: str | None = None
    output_schema: Path | None = None
    action: str = ""
    tool: str = ""
    seal: str = ""
    arguments: str = ""
    batch: str | None = None
    name: str = ""
    limit: int = 50
    egress: bool = False
    session: str | None = None
    kinds: tuple[str, ...] = ()
    denied: bool = False
    since: float | None = None
    form: str = ""
    head: str | None = None
    older_than: float | None = None
    kept: tuple[str, ...] = ()
    resume: str | None = None
    turn: int | None = None
    urls: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    rung: str | None = None
    line: str = ""
    exit_code: int = 0
    words: tuple[str, ...] = ()
    url: str = ""
    level: str = ""
    request: CommandRun = field(default_factory=CommandRun)

    def flags(self) -> dict[str, object]:
        """Return what flags say of the configuration, by dotted key; None where one was not given."""
        return {
            "profile": self.profile,
            "llm.model": self.model,
            "permissions.autonomy": self.autonomy,
            "agent.max_turns": self.max_turns,
        }
