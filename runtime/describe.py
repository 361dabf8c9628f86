"""Format a session's state for `/status`, `/tools`, `/memory` and the matching commands.

Pure: from values to text. Everything that a model or a page may have written is escaped visibly. Audit
records are formatted in `audit/text.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from leeward.security.filters import HARD_BOUND
from leeward.security.kinds import Effect, Json, Runs
from leeward.security.pipeline import GATES
from leeward.security.policy import NETWORK, Policy, RuleAction
from leeward.security.sandbox import SandboxLevel
from leeward.security.text import visible
from leeward.security.trust import TrustLevel, min_trust
from leeward.security.url import host_warning
from leeward.tools.process import UpperBounds, size_text

from .config import KEYS, dotted, is_private, toml_value

if TYPE_CHECKING:
    from leeward.memory.notes import StoredNote
    from leeward.security.call import ToolSpec
    from leeward.security.session import Session
    from leeward.tools.distill import RuleSet
    from leeward.tools.sandbox import Sandbox

    from .config import Config, Loaded

__all__ = [
    "bound_lines",
    "bounds_of",
    "config_lines",
    "configured_values",
    "effects_of",
    "gates_off",
    "known_lines",
    "level_of",
    "limits_word",
    "no_trials_word",
    "note_line",
    "note_lines",
    "permission_lines",
    "sandbox_word",
    "status_lines",
    "tool_line",
    "trust_line",
]

_WIDTH = 140


def effects_of(effects: Effect) -> str:
    """Return effects as words: "read, bring in"."""
    return ", ".join(str(effect.name).lower().replace("_", " ") for effect in effects) or "none"


def level_of(spec: ToolSpec, session: Session) -> tuple[TrustLevel, str]:
    """Return the level a tool has now, and why: the session's own word, else the weakest declared."""
    word = session.level_of(spec.name)
    if word is not None and session.trust_in(spec) is word[0]:
        return word
    levels = session.policy.levels
    configured = [levels[key] for key in (spec.name, spec.source) if key in levels]
    return min_trust(spec.level, *configured), "the configuration" if configured else spec.source


def tool_line(spec: ToolSpec, session: Session) -> str:
    """Return a tool on one line: name, level, effects, the first sentence of what it is for."""
    level, _ = level_of(spec, session)
    summary = visible(_first_words(spec))
    return _cut(f"{spec.name:<16} {level.name.lower():<11} {effects_of(spec.effects)} · {summary}")


def _first_words(spec: ToolSpec) -> str:
    """Return the first line of what a tool is for; of another program's, of what that says between marks."""
    text = spec.description.partition("»")[2] if spec.definition else spec.description
    return text.partition("\n")[0].partition("«END:")[0]


def trust_line(spec: ToolSpec, session: Session) -> str:
    """Return how far a tool is trusted, and why."""
    level, why = level_of(spec, session)
    return f"{spec.name:<16} {level.name.lower():<12} {visible(why)}"


def gates_off(session: Session) -> tuple[str, ...]:
    """Return the gates that the configuration switched off."""
    off = {"grounding": not session.policy.url_grounding, "anomaly": not session.policy.anomaly.enabled}
    return tuple(gate.__name__ for gate in GATES if off.get(gate.__name__, False))


def status_lines(session: Session, model: str, filters: RuleSet | None = None) -> Iterator[str]:
    """Yield what `/status` says; `filters` are the rules for outputs, None where all are built in."""
    policy, breaker = session.policy, session.breaker
    yield f"session     {session.id}"
    yield f"model       {visible(model)}"
    yield f"autonomy    {policy.autonomy}"
    yield f"workspace   {visible(policy.workspace)}"
    yield f"sandbox     {sandbox_word(policy)}"
    yield f"gates       {len(GATES)} in order; off: {', '.join(gates_off(session)) or 'none'}"
    yield f"calls       {_used(session)}"
    yield f"outputs     {_shown(session)}"
    yield f"filters     {_filters(filters)}"
    tripped = "; tripped; a yes or /trust reset lifts it" if breaker.tripped else ""
    yield (
        f"breaker     {breaker.consecutive} of {policy.breaker.consecutive} denials in a row, "
        f"{breaker.total} of {policy.breaker.total} in all{tripped}"
    )
    yield f"urls        {len(session.ledger)} known"
    yield f"labels      {', '.join(sorted(session.labels)) or 'none: nothing was read'}"
    yield f"grants      {'; '.join(visible(str(one.rule)) for one in session.active_grants()) or 'none'}"
    windows = [f"{tool} {session.anomaly.told(tool)}" for tool in session.anomaly.windows]
    yield f"windows     {'; '.join(windows) or 'nothing ran yet'}"
    for tool, (level, cause) in session.levels.items():
        yield f"trust       {tool} {level.name.lower()}: {visible(cause)}"


def sandbox_word(policy: Policy) -> str:
    """Say in one line what keeps programs in."""
    sandbox = policy.sandbox
    if sandbox.level == SandboxLevel.NONE:
        return "none: programs run with all your rights"
    network = "network on" if sandbox.network else "no network"
    if sandbox.by_host and sandbox.allow_hosts:
        network = f"{network} but {len(sandbox.allow_hosts)} allowed hosts ({', '.join(sandbox.allow_hosts)})"
    more = len(sandbox.extra_write) + len(policy.allowed_paths)
    changes = f"the workspace and {more} more can be changed" if more else "only the workspace can be changed"
    answers = "; commands run without a question" if sandbox.answers else ""
    first = " after a yes" if sandbox.asks_first else " first"
    read = "" if sandbox.asks_first else "; commands run read-only first"
    tried = {Runs.TRIAL: f"; commands run on trial{first}", Runs.READ_ONLY: read}
    return f"{sandbox.level}: {network}, {changes}{answers}{tried.get(sandbox.rung, '')}"


def no_trials_word(sandbox: Sandbox) -> str:
    """Say in one line what commands do instead of running on trial, and why."""
    text = f"no trial runs: {sandbox.trials.problem}"
    if not sandbox.reading.problem:
        return f"{text}; commands run read-only, and ask before they write"
    return f"{text}; no read-only runs: {sandbox.reading.problem}; commands ask before they run"


def limits_word(sandbox: Sandbox) -> str:
    """Say in one line how much of the machine a command may use, and what sees to it."""
    limits = sandbox.limits
    text = f"a command may use {size_text(limits.memory)} of memory, and {limits.tasks} processes and threads"
    if not sandbox.uncounted_because:
        return f"{text}; the kernel holds it to that by a control group"
    return f"{text}; its reaper counts, for there is no control group: {visible(sandbox.uncounted_because)}"


def bounds_of(config: Config, sandbox: Sandbox) -> dict[str, Json]:
    """Return what a command is held to: numbers, by the key that changes each."""
    shell, limits = config.tools.shell, sandbox.limits
    return {
        "tools.shell.memory": limits.memory,
        "tools.shell.processes": limits.tasks,
        "tools.shell.timeout": shell.timeout,
        "tools.shell.max_jobs": shell.max_jobs,
        "tools.shell.longest_job": shell.longest_job,
        "tools.shell.trial_bytes": UpperBounds.of(shell.trial_bytes).size,
        "tools.overflow.threshold": config.tools.overflow.threshold,
        "tools.overflow.max_overflow_bytes": config.tools.overflow.max_overflow_bytes or HARD_BOUND,
    }


def bound_lines(config: Config, sandbox: Sandbox) -> Iterator[str]:
    """Yield what a command is held to, each with the key that raises it."""
    shell, overflow, limits = config.tools.shell, config.tools.overflow, sandbox.limits
    kept = size_text(overflow.max_overflow_bytes or HARD_BOUND)
    lines = {
        f"{size_text(limits.memory)} of memory": "[tools.shell] memory",
        f"{limits.tasks} processes and threads": "[tools.shell] processes",
        f"{shell.timeout:g} s, and as long on each processor": "[tools.shell] timeout",
        f"{shell.max_jobs} in the background": "[tools.shell] max_jobs",
        f"{shell.longest_job:g} s there": "[tools.shell] longest_job",
        f"{size_text(UpperBounds.of(shell.trial_bytes).size)} written on trial": "[tools.shell] trial_bytes",
        f"{overflow.threshold} characters shown": "[tools.overflow] threshold",
        f"{kept} of output kept": "[tools.overflow] max_overflow_bytes",
    }
    for number, (what, key) in enumerate(lines.items()):
        yield f"{'' if number else 'bounds':<12}{what:<36} {key}"


def _used(session: Session) -> str:
    limits = session.policy.calls
    used, turn = session.calls_this_session, session.calls_this_turn
    return f"{used} used, {limits.per_session - used} left; this turn {turn} of {limits.per_turn}"


def _shown(session: Session) -> str:
    came, shown = session.chars_in, session.chars_out
    saved = f", {100 - shown * 100 // came} % less" if came > shown else ""
    return f"{came} characters came, {shown} were shown to the model{saved}"


def _filters(rules: RuleSet | None) -> str:
    if rules is None:
        return "the built-in ones"
    off = [name for name, rule in rules.rules.items() if not rule.enabled]
    parts = [
        f"{whose}: {', '.join(names)}"
        for whose, names in (
            ("yours", rules.of_layer("yours")),
            ("of this workspace, folding only", rules.of_layer("workspace")),
            ("off", off),
        )
        if names
    ]
    return "; ".join(("the built-in ones", *parts))


def known_lines(session: Session) -> Iterator[str]:
    """Yield every URL and destination that is known, how it became so, and what is odd about its host."""
    entries = session.ledger.entries()
    for known, provenance in entries:
        warning = host_warning(known.host)
        yield f"{provenance:<24} {visible(known.text)}{f'  ({visible(warning)})' if warning else ''}"
    if not entries:
        yield "no URL is known; one becomes so when you write it"


def permission_lines(policy: Policy) -> Iterator[str]:
    """Yield the autonomy level and every rule with its place."""
    yield f"autonomy {policy.autonomy}"
    for action in (RuleAction.DENY, RuleAction.ASK, RuleAction.ALLOW):
        for rule in policy.rules:
            if rule.action is action:
                yield f"{visible(str(rule))}  ({visible(rule.where)})"
    if not policy.rules:
        yield "no rules; the defaults hold"
    for host in policy.sandbox.allow_hosts:
        yield f"{NETWORK} {host}  ([tools.sandbox] allow_hosts)"


def note_line(note: StoredNote) -> str:
    """Return a note on one line: its id, when it was saved, what led to it, where it holds, its beginning."""
    at = time.strftime("%Y-%m-%d", time.localtime(note.saved_at))
    where = "everywhere" if note.workspace is None else "here"
    return _cut(f"{note.id}  {at}  {note.origin:<9}  {where:<10}  {visible(note.text)}")


def note_lines(note: StoredNote) -> Iterator[str]:
    """Yield all of a note."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(note.saved_at))
    where = "everywhere" if note.workspace is None else note.workspace
    yield f"{note.id}, saved {at} in session {note.session}"
    yield f"holds {visible(where)}; the least trusted text that led to it: {note.origin}"
    yield from (f"  │ {visible(line)}" for line in note.text.split("\n"))


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def config_lines(loaded: Loaded, begins: str = "") -> list[str]:
    """Return values with where each was set: those that are not the default, or all whose key begins so."""
    return [
        visible(f"{key} = {toml_value(one['value'])}  ({one['source']})")
        for key, one in configured_values(loaded, begins).items()
        if begins or one["source"] != "default"
    ]


def configured_values(loaded: Loaded, begins: str = "") -> dict[str, dict[str, Any]]:
    """Return value and source of each key that begins so; what may hold a secret is named, not shown."""
    found: dict[str, dict[str, object]] = {}
    dumped = loaded.config.model_dump(mode="json")
    for path in (path for path in KEYS if dotted(path).startswith(begins)):
        value: Any = dumped
        for part in path:
            value = value[part]
        key = dotted(path)
        found[key] = {"value": _masked(value, path), "source": loaded.sources[key]}
    return found


def _masked(value: Any, path: tuple[str | int, ...]) -> Any:
    """Replace what may hold a secret, however deep, by a word that says so."""
    if isinstance(value, Mapping):
        return {name: _masked(inner, (*path, name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner, (*path, index)) for index, inner in enumerate(value)]
    return "(not shown)" if value and is_private(path) else value
