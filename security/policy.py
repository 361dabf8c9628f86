"""What the person allows: one frozen value, made from configuration.

It holds no defaults of its own choosing beyond the documented ones; `runtime/config.py` fills it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from .level import TrustLevel
from .rules import ShellRules

__all__ = [
    "AnomalyLimits",
    "Autonomy",
    "BreakerLimits",
    "CallLimits",
    "Policy",
    "Rule",
    "RuleAction",
    "Sandboxing",
]


class Autonomy(StrEnum):
    """How much is done without asking."""

    READONLY = "readonly"
    SUPERVISED = "supervised"
    FULL = "full"


class RuleAction(StrEnum):
    """What a permission rule says of the calls it matches."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """One permission rule. `match` is held against canonical actions, never against raw text.

    `where` is the file and line it stands on ("config.toml:12"), or the scope of a grant. `folder` is a path
    pattern: an allow rule answers for commands that start there, without it at the workspace's root.
    """

    tool: str
    action: RuleAction
    match: str | None = None
    force: bool = False
    where: str = ""
    folder: str | None = None

    def __str__(self) -> str:
        matching = f" {self.match}" if self.match is not None else ""
        force = " (force)" if self.force else ""
        inside = f" in {self.folder}" if self.folder is not None else ""
        return f"{self.action} {self.tool}{matching}{inside}{force}"


@dataclass(frozen=True, slots=True)
class AnomalyLimits:
    """`[tools.anomaly]`: when a tool has failed too often."""

    enabled: bool = True
    window_size: int = 20
    failure_threshold: float = 0.7
    min_samples: int = 5
    auto_block: bool = True


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """`[security.breaker]`: how many denials a session may collect before all but reading is asked about."""

    consecutive: int = 3
    total: int = 20


@dataclass(frozen=True, slots=True)
class CallLimits:
    """`[agent]`: how many calls may be made, and how often the same one with the same result."""

    per_turn: int = 50
    per_session: int = 500
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Sandboxing:
    """`[tools.sandbox]`: what programs may reach, and what of it was found to hold.

    `level` is what keeps programs in (`confine.py` names the levels), as it was found at start. `answers`
    tells that it holds so well that it answers what `commands` asks: the person wished it, the self-test
    found no way out, and only the workspace can be changed. Paths are absolute and resolved.
    """

    level: str = "none"
    network: bool = False
    extra_read: tuple[str, ...] = ()
    extra_write: tuple[str, ...] = ()
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything a gate may know of what the person allows.

    Paths are absolute and resolved. `secret_paths` may be neither read nor written by any tool,
    `protected_paths` not written; both hold folders and single files beside the built-in ones of
    `workspace.py`. `deny_read` and `allow_read` are globs of `[tools.file]`: what no tool reads, and what
    a name alone does not make secret. `levels` maps a tool's name or its source to a trust level.
    `headless` tells that nobody can be asked. `search_tools` names tools whose results become known URLs;
    `allow_http` and the two lists hold patterns as `domains.py` reads them. `max_bytes` is the most of
    one output that is looked at at all, and `threshold` the number of characters above which it is stored
    and shown shortened. `shell` is what `[tools.shell]` says of commands, `sandbox` what keeps the
    programs they start in.
    """

    workspace: str
    home: str
    autonomy: Autonomy = Autonomy.SUPERVISED
    headless: bool = False
    rules: tuple[Rule, ...] = ()
    allowed_paths: tuple[str, ...] = ()
    secret_paths: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    allow_read: tuple[str, ...] = ()
    levels: Mapping[str, TrustLevel] = field(default_factory=lambda: MappingProxyType({}))
    url_grounding: bool = True
    search_tools: frozenset[str] = frozenset()
    allow_networks: tuple[str, ...] = ()
    allow_http: tuple[str, ...] = ()
    domain_allowlist: tuple[str, ...] = ()
    domain_denylist: tuple[str, ...] = ()
    max_bytes: int = 10 * 1024 * 1024
    threshold: int = 50_000
    calls: CallLimits = CallLimits()
    anomaly: AnomalyLimits = AnomalyLimits()
    breaker: BreakerLimits = BreakerLimits()
    shell: ShellRules = field(default_factory=ShellRules)
    sandbox: Sandboxing = Sandboxing()
