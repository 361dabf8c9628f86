"""Build the frozen Policy from the merged configuration; every path is absolute.

It also words the question to ask before working in an unusual folder. Nothing is decided here; the gates
decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from leeward.memory.checkpoints import JOURNALS
from leeward.memory.database import BACKUP_SUFFIX, SIDES
from leeward.memory.sessions import LOCKS
from leeward.security.kinds import FenceMode
from leeward.security.policy import (
    DEFAULT_CONFIRM,
    AnomalyLimits,
    Autonomy,
    BreakerLimits,
    CallHook,
    CallLimits,
    FenceRules,
    Policy,
    Rule,
    RuleAction,
    Sandboxing,
    ScopedSecret,
    ShellRules,
)
from leeward.security.trust import TrustLevel
from leeward.tools.skills import SkillStore

from .config import WORKSPACE_FILE, AnomalySection, Config, Loaded, printable
from .installation import running_code

SKILL_LEVELS = "skills.json"
"""The file of the data folder that knows how far each skill is trusted."""
SKILLS_FOLDER, WORKSPACE_SKILLS = "skills", ".agents/skills"
"""The folders of skills below the configuration folder and below a workspace."""

__all__ = ["SKILLS_FOLDER", "SKILL_LEVELS", "WORKSPACE_SKILLS", "to_policy", "workspace_question"]


def to_policy(
    loaded: Loaded,
    *,
    workspace: Path,
    home: Path,
    headless: bool,
    data_dir: Path,
    config_dir: Path,
    also: Loaded | None = None,
) -> Policy:
    """Return what the person allows, as the gates see it.

    Secret are the data folder, the database and the key files; not to be written are these, the
    configuration and everything it names that runs or is relied on. The files that `also` names are
    guarded like those of `loaded`; of all else it decides nothing.
    """
    config = loaded.config
    security, tools = config.security, config.tools
    grounding = security.pre_execution_verify.url_grounding
    guarding = [one for one in (loaded, also) if one is not None]
    secret = _secret_files([one.config for one in guarding], workspace, data_dir, config_dir)
    protected = [
        *secret,
        config_dir,
        *chain.from_iterable(_protected_files(one, workspace) for one in guarding),
    ]
    return Policy(
        workspace=os.path.realpath(workspace),
        home=os.path.realpath(home),
        autonomy=Autonomy(config.permissions.autonomy),
        headless=headless,
        rules=_rules(loaded),
        allowed_paths=_both_names(map(Path, tools.shell.allowed_paths)),
        secret_paths=_both_names(secret),
        protected_paths=_both_names(protected),
        deny_read=_globs(tools.file.deny_read, workspace, home),
        allow_read=_globs(tools.file.allow_read, workspace, home),
        levels=MappingProxyType({name: TrustLevel[word.upper()] for name, word in security.trust.items()}),
        url_grounding=grounding.enabled,
        search_tools=frozenset(grounding.search_tools),
        allow_networks=tools.fetch.allow_networks,
        allow_http=tools.fetch.allow_http,
        domain_allowlist=tools.fetch.domain_allowlist,
        domain_denylist=tools.fetch.domain_denylist,
        max_bytes=tools.overflow.max_overflow_bytes,
        threshold=tools.overflow.threshold,
        calls=_call_limits(config),
        anomaly=_anomaly_limits(tools.anomaly),
        breaker=BreakerLimits(security.breaker.consecutive, security.breaker.total),
        fence=_fence_rules(config),
        shell=_shell_rules(config),
        sandbox=_sandboxing(config),
        secrets=_lent_secrets(config),
        hooks=_call_hooks(config),
    )


def _secret_files(configs: Iterable[Config], workspace: Path, data_dir: Path, config_dir: Path) -> list[Path]:
    """Name what no call may read, besides what is secret by its name."""
    secret = [data_dir, config_dir / "keys"]
    for config in configs:
        secret += _database_files(config)
        secret += [Path(one.api_key_file) for one in config.llm.providers if one.api_key_file]
        secret += [Path(one.file) for one in config.secrets.values() if one.file]
    # What the person blocked is read by no way.
    skills = (config_dir / SKILLS_FOLDER, workspace / WORKSPACE_SKILLS)
    return [*secret, *SkillStore(data_dir / SKILL_LEVELS).blocked(skills)]


def _protected_files(loaded: Loaded, workspace: Path) -> Iterator[Path]:
    """Yield the configuration and the files it names that run or are relied on: no call may write them."""
    config = loaded.config
    yield from loaded.files
    yield workspace / Path(WORKSPACE_FILE).parent
    named = (config.llm.ca_file, config.tools.fetch.ca_file, config.tools.audit.heads)
    yield from (Path(file) for file in named if file)
    yield from running_code(config, workspace)
    yield from _hook_files(config, workspace)


def _rules(loaded: Loaded) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            rule.tool,
            RuleAction(rule.action),
            rule.match,
            rule.force,
            where=loaded.sources[f"permissions.rules.{index}"],
            folder=rule.folder,
            command=rule.command,
        )
        for index, rule in enumerate(loaded.config.permissions.rules)
    )


def _call_hooks(config: Config) -> tuple[CallHook, ...]:
    """Return which hooks are asked before calls of which tools."""
    asked = (one for one in config.hooks.items() if one[1].on == "before_call")
    return tuple(CallHook(name, hook.tools) for name, hook in asked)


def _hook_files(config: Config, workspace: Path) -> Iterator[Path]:
    """Yield the files that hooks consist of by their command lines, also where there are none yet."""
    for word in (word for hook in config.hooks.values() for word in hook.command):
        path = workspace / word
        if not path.is_dir() and ("/" in word or path.exists()):
            yield path


def _shell_rules(config: Config) -> ShellRules:
    shell = config.tools.shell
    return ShellRules(
        shell.blocked_commands,
        shell.allowed_commands,
        shell.confirm_patterns,
        confirms_by_default=shell.confirm_patterns == DEFAULT_CONFIRM,
    )


def _sandboxing(config: Config) -> Sandboxing:
    """Return what is configured of the sandbox; which one works here is found later."""
    shell, sandbox = config.tools.shell, config.tools.sandbox
    return Sandboxing(
        network=sandbox.network,
        extra_read=_real(sandbox.extra_read),
        extra_write=_real(sandbox.extra_write),
        asks_first=shell.trial == "ask",
        overlay=shell.overlay,
        allow_hosts=sandbox.allow_hosts,
    )


def _lent_secrets(config: Config) -> tuple[ScopedSecret, ...]:
    """Return which secrets are lent to what, without their values."""
    lent = config.secrets.items()
    return tuple(ScopedSecret(name, one.hosts, one.programs, one.show_output) for name, one in lent)


def _fence_rules(config: Config) -> FenceRules:
    fence = config.security.fence
    web, mcp = FenceMode(fence.web), FenceMode(fence.mcp)
    workspace, tool = FenceMode(fence.workspace), FenceMode(fence.tool)
    providers = {one.name: FenceMode(one.fence) for one in config.llm.providers if one.fence}
    return FenceRules(web, mcp, workspace, tool, MappingProxyType(providers))


def _call_limits(config: Config) -> CallLimits:
    agent = config.agent
    return CallLimits(agent.max_tool_calls_per_turn, agent.max_tool_calls_per_session)


def _anomaly_limits(anomaly: AnomalySection) -> AnomalyLimits:
    return AnomalyLimits(
        enabled=anomaly.enabled,
        window_size=anomaly.window_size,
        failure_threshold=anomaly.failure_threshold,
        min_samples=anomaly.min_samples,
        auto_block=anomaly.auto_block,
    )


def _database_files(config: Config) -> list[Path]:
    """Name a database outside of the data folder, and what SQLite and we keep beside it."""
    if not config.storage.path:
        return []
    return [Path(config.storage.path + end) for end in (*SIDES, BACKUP_SUFFIX, LOCKS, JOURNALS)]


def _both_names(paths: Iterable[Path]) -> tuple[str, ...]:
    """Name each path as it is written and as it lies on disk, for gates look at both names of a path."""
    names = (name for path in paths for name in (os.path.normpath(path), os.path.realpath(path)))
    return tuple(dict.fromkeys(names))


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


def _globs(patterns: Iterable[str], workspace: Path, home: Path) -> tuple[str, ...]:
    """Name what globs mean as it is written and as it lies on disk; a bare name is the same anywhere."""
    found: list[str] = []
    for pattern in patterns:
        found.append(pattern)
        if "/" not in pattern.rstrip("/"):
            continue
        whole = f"{home}{pattern[1:]}" if pattern.startswith("~/") else str(workspace / pattern)
        parts = whole.split("/")
        fixed = next((at for at, part in enumerate(parts) if set("*?[") & set(part)), len(parts))
        real = os.path.realpath("/".join(parts[:fixed]) or "/")
        found.append("/".join((re.sub(r"([*?\[])", r"[\1]", real.rstrip("/")), *parts[fixed:])))
    return tuple(dict.fromkeys(found))


def workspace_question(workspace: Path, home: Path, config_dir: Path, data_dir: Path) -> str | None:
    """Return the question to ask before working in a folder, or None where none needs to be asked.

    It needs a yes where "inside the workspace" would mean nearly everything, or Leeward itself.
    """
    shown = printable(str(workspace))
    if Path(os.path.realpath(workspace)).parent == Path(os.path.realpath(workspace)):
        return f"{shown} is the root of the file system: every file would count as part of the work. Go on?"
    if _is_within(workspace, home) and _is_within(home, workspace):
        return f"{shown} is your home: every file of yours would count as part of the work. Go on?"
    if _is_within(home, workspace):
        return f"{shown} contains your home: every file of yours would count as part of the work. Go on?"
    for folder, what in ((config_dir, "configuration"), (data_dir, "data")):
        if _is_within(folder, workspace):
            return f"{shown} contains Leeward's own {what} ({printable(str(folder))}). Go on?"
        if _is_within(workspace, folder):
            return f"{shown} lies in the folder of Leeward's own {what} ({printable(str(folder))}). Go on?"
    return None


def _is_within(inner: Path, outer: Path) -> bool:
    """Whether a path is another or lies below it, whatever links or spellings lead there."""
    real, root = Path(os.path.realpath(inner)), Path(os.path.realpath(outer))
    if real.is_relative_to(root):
        return True
    # On a file system that folds case, two spellings of one folder differ as text.
    return any(place.exists() and root.exists() and place.samefile(root) for place in (real, *real.parents))
