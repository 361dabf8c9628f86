"""What the person allows, as one frozen value; `runtime/policy.py` builds it from the configuration.

Command entries are compared with what was read of a line, never with its text:

blocked_commands   never run: the words of an entry, in any order behind the program's name
allowed_commands   run without a question: the words of an entry, globs, a last `*` for any further
confirm_patterns   always asked about: a construct ("$(", "`", "<(", ">(", "<<<") or words as above
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from .kinds import FenceMode, Runs
from .lazy import dataclass, regex
from .trust import Origin, TrustLevel

__all__ = [
    "DEFAULT_CONFIRM",
    "FOREIGN",
    "GIT_SETTINGS",
    "HISTORY",
    "KEEP",
    "LEND",
    "NETWORK",
    "NOT_HEARD",
    "NOT_YOURS",
    "RANDOM_ADDITION",
    "SEEN",
    "AgentFrame",
    "AnomalyLimits",
    "Autonomy",
    "BreakerLimits",
    "CallHook",
    "CallLimits",
    "FenceRules",
    "Policy",
    "Rule",
    "RuleAction",
    "Sandboxing",
    "ScopedSecret",
    "ShellRules",
    "blocked_by",
    "command_entry_problem",
    "confirmed_by",
    "entry_words",
]


KEEP = "keep"
"""The name under which rules, questions and records speak of keeping what a trial run changed."""

GIT_SETTINGS = "git config"
"""The name by which rules and questions speak of what a run changed in the settings of repositories."""

NETWORK = "network"
"""The name under which questions, grants and records speak of the hosts that a command may reach."""

LEND = "lend"
"""The rule by which a command line is asked about that is lent a secret."""

FOREIGN = "not_given"
"""The rule by which `flow` asks about places and ids alone: trust in each of them answers it."""

NOT_YOURS = "not_yours"
"""The rule by which `flow` asks about what a call says and does; nobody answers that beforehand."""

SEEN = "seen"
"""The rule by which `grounding` asks about a value that a text showed."""

RANDOM_ADDITION = "random_addition"
"""The rule by which `leaks` asks about what a URL carries; one yes is enough for a host."""

HISTORY = "history"
"""The rule by which is asked once a session whether commands may read a history that holds secret files."""

NOT_HEARD = "not_heard"
"""The rule by which `hooks` denies a call that a hook has not answered for yet."""

DEFAULT_CONFIRM = ("$(", "`", "<(", ">(", "<<<", "eval")

_OPERATOR = regex(r"[;|&<>]+")
_CONSTRUCTS = frozenset({"$(", "`", "<(", ">(", "<<<", "<<"})


@dataclass(frozen=True, slots=True)
class ShellRules:
    """`[tools.shell]` as far as the gate needs it.

    With `confirms_by_default`, what is to be confirmed is our list, which is empty where commands run on
    trial: what such constructs do is shown there.
    """

    blocked: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    confirm: tuple[str, ...] = DEFAULT_CONFIRM
    confirms_by_default: bool = False


def blocked_by(argv: tuple[str, ...], rules: ShellRules) -> str | None:
    """Return the entry of `blocked_commands` that speaks of an action, or None."""
    return next((entry for entry in rules.blocked if _speaks_of(entry_words(entry), argv)), None)


def confirmed_by(
    actions: tuple[tuple[str, ...], ...], constructs: frozenset[str], rules: ShellRules
) -> str | None:
    """Return the entry of `confirm_patterns` that speaks of a line, or None."""
    for entry in rules.confirm:
        if entry.strip() in _CONSTRUCTS:
            if entry.strip() in constructs:
                return entry
        elif any(_speaks_of(entry_words(entry), argv) for argv in actions):
            return entry
    return None


def command_entry_problem(entry: str) -> str | None:
    """Say why an entry of one of the lists can speak of nothing, or None."""
    if entry.strip() in _CONSTRUCTS:
        return None
    if not entry.isprintable():
        return "the entry holds control characters"
    try:
        words = shlex.split(entry)
    except ValueError:
        return "a quotation in the entry is not closed"
    if not words or words == ["*"]:
        return "the entry names no command"
    if any(_OPERATOR.fullmatch(word) for word in words):
        return "each command of a line is looked at alone, so an entry holds no operators"
    return None


@lru_cache(maxsize=256)
def entry_words(entry: str) -> list[str]:
    """Return an entry as the words it consists of."""
    try:
        return shlex.split(entry)
    except ValueError:
        return entry.split()


def _speaks_of(words: list[str], argv: tuple[str, ...]) -> bool:
    """Whether a program by any path has every word of an entry among its own; flags may be joined."""
    if not words or not argv:
        return False
    program = argv[0].rpartition("/")[2]
    if program.startswith("git-") and words[0] == "git":
        argv = (program := "git", argv[0].rpartition("/")[2].removeprefix("git-"), *argv[1:])
    if not any(fnmatchcase(name, words[0]) for name in (argv[0], program)):
        return False
    return all(_has(word, argv[1:], program) for word in words[1:] if word != "*")


def _has(word: str, rest: tuple[str, ...], program: str) -> bool:
    if re.fullmatch(r"-[A-Za-z]+", word) and set(word[1:]) <= set(_flags(rest, program)):
        return True
    if word in _LETTERS and (_LETTERS[word] in _flags(rest, program) or any(map(_cuts(word), rest))):
        return True
    if program in _CUTS_VERBS and _is_cut_verb(word, rest):
        return True
    # An open word shows its pieces between marks; a rule means what it says without them.
    return any(fnmatchcase(text, word) or fnmatchcase(text.translate(_MARKS), word) for text in rest)


# What nearly every program calls the same, by its long name.
_LETTERS = {
    "--recursive": "r",
    "--force": "f",
    "--all": "a",
    "--verbose": "v",
    "--interactive": "i",
    "--quiet": "q",
}
_EITHER_CASE = frozenset({"rm", "cp", "ls", "grep", "srm"})
_CUTS_VERBS = frozenset({"npm", "hg", "ip", "tc", "nmcli", "btrfs"})
_SHORTEST_VERB = 2


def _flags(rest: tuple[str, ...], program: str) -> Iterator[str]:
    """Yield the letters of the options among words, those of long ones and of their abbreviations too."""
    for text in rest:
        if re.match(r"-[A-Za-z]", text):
            yield from text[1:]
            if program in _EITHER_CASE:
                yield from re.findall("[rR]", text.swapcase())
        for name, letter in _LETTERS.items():
            if _cuts(name)(text):
                yield letter
                yield from "R" if letter == "r" else ""


def _cuts(name: str) -> Callable[[str], bool]:
    """Return what tells whether a word is a long option or its beginning."""
    return lambda text: len(text) > len("--") and name.startswith(text)


def _is_cut_verb(word: str, rest: tuple[str, ...]) -> bool:
    """Whether the first word that is no option is the beginning of a command's name."""
    verb = next((text for text in rest if not text.startswith("-")), "")
    return len(verb) >= _SHORTEST_VERB and word.startswith(verb)


_MARKS = str.maketrans("", "", "⟨⟩")


class Autonomy(StrEnum):
    """How much is done without asking."""

    READONLY = "readonly"
    SUPERVISED = "supervised"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class AgentFrame:
    """A sub-agent that calls come through: its name, and the call that started it.

    `tools` are the globs of what it may call, `autonomy` is how far it goes without a question.
    """

    name: str
    call: str
    tools: tuple[str, ...]
    autonomy: Autonomy


class RuleAction(StrEnum):
    """What a permission rule says of the calls it matches."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """One permission rule. `match` is held against canonical actions, never against raw text.

    `where` is its file and line ("config.toml:12"), or the scope of a grant. `folder` is a path
    pattern: an allow rule answers for commands that start there, without it at the workspace's root. A rule
    about keeping what a trial run changed speaks of paths; `command` is then a pattern of the commands that
    ran.
    """

    tool: str
    action: RuleAction
    match: str | None = None
    force: bool = False
    where: str = ""
    folder: str | None = None
    command: str | None = None

    def __str__(self) -> str:
        matching = f" {self.match}" if self.match is not None else ""
        matching += f" changed by {self.command}" if self.command is not None else ""
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

    `level` is what keeps programs in (`sandbox/confinement.py` names the levels), as it was found at start.
    `answers` tells that it holds so well that it answers what `commands` asks: the person wished it, the
    self-test found no way out, and only the workspace can be changed. `rung` is the strictest that a command
    can be run in here, as a probe found it; with `asks_first` the person wants to be asked before that, too.
    With `overlay`, what an allowed command writes to the workspace is applied when it has ended, where that
    can be had. `allow_hosts` are the hosts that commands may reach where they have no network, as
    `url/reach.py` reads them. Paths are absolute and resolved.
    """

    level: str = "none"
    network: bool = False
    extra_read: tuple[str, ...] = ()
    extra_write: tuple[str, ...] = ()
    answers: bool = False
    rung: Runs = Runs.REAL
    asks_first: bool = False
    overlay: bool = True
    allow_hosts: tuple[str, ...] = ()

    @property
    def by_host(self) -> bool:
        """Whether commands reach single hosts, and nothing else."""
        return self.rung is Runs.TRIAL and not self.network


@dataclass(frozen=True, slots=True)
class ScopedSecret:
    """`[secrets.NAME]`: a secret that is lent for some hosts; its value is known to no gate.

    `hosts` are rules as `url/reach.py` reads them, `programs` the first words of the command lines that are
    lent it. With `shows_output` what these print is shown like that of any other.
    """

    name: str
    hosts: tuple[str, ...]
    programs: tuple[str, ...] = ()
    shows_output: bool = False


@dataclass(frozen=True, slots=True)
class CallHook:
    """A hook that is asked before calls: of the tools that a glob of `tools` names."""

    name: str
    tools: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class FenceRules:
    """How text of others is marked for the model: by whose words it is, or by who answers for the model."""

    web: FenceMode = FenceMode.DATAMARK
    mcp: FenceMode = FenceMode.DATAMARK
    workspace: FenceMode = FenceMode.DELIMIT
    tool: FenceMode = FenceMode.DELIMIT
    providers: Mapping[str, FenceMode] = field(default_factory=lambda: MappingProxyType({}))

    def mode_of(self, origin: Origin, model: str) -> FenceMode:
        """Return the mode for a text, shown to a model (PROVIDER:NAME)."""
        provider = model.partition(":")[0]
        if provider in self.providers:
            return self.providers[provider]
        if origin in {Origin.WEB, Origin.MCP}:
            return self.web if origin is Origin.WEB else self.mcp
        is_file = origin in {Origin.WORKSPACE, Origin.PROJECT, Origin.SECRET}
        return self.workspace if is_file else self.tool


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything a gate may know of what the person allows.

    Paths are absolute and resolved. `secret_paths` may be neither read nor written by any tool,
    `protected_paths` not written; both hold folders and single files beside the built-in ones of
    `paths/secret_files.py` and `protected_files.py`. `deny_read` and `allow_read` are globs of
    `[tools.file]`: what no tool reads, and what a name alone does not make secret. `levels` maps a tool's
    name or its source to a trust level. `headless` tells that nobody can be asked. `search_tools` names tools
    whose results become known URLs; `allow_http` and the two lists hold patterns as `url/hosts.py` reads
    them. `max_bytes` is the most of one output that is looked at at all, and `threshold` the number of
    characters above which it is stored and shown shortened. `shell` is what `[tools.shell]` says of
    commands, `sandbox` what keeps the programs they start in, `secrets` what may be lent to them, and `fence`
    how text of others is marked. `hooks` are asked before calls, in this order.
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
    secrets: tuple[ScopedSecret, ...] = ()
    fence: FenceRules = field(default_factory=FenceRules)
    hooks: tuple[CallHook, ...] = ()

    def hooks_on(self, tool: str) -> tuple[str, ...]:
        """Return the names of the hooks that are asked before calls of a tool, in order."""
        found = (hook for hook in self.hooks if any(fnmatchcase(tool, glob) for glob in hook.tools))
        return tuple(hook.name for hook in found)

    @property
    def shell_rules(self) -> ShellRules:
        """What `[tools.shell]` says of commands where these run in what can be had here."""
        is_tried = self.shell.confirms_by_default and self.sandbox.rung is not Runs.REAL
        return replace(self.shell, confirm=()) if is_tried else self.shell
