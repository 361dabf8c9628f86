"""The configuration keys: type, default, range, meaning, and what a workspace may set.

Models and nothing else: `load.py` layers them, `keys.py` lists them, `reference.py` writes them down for
people. A key is described once, here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self, TypeAlias

import ada_url
from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from leeward.memory.overflow import MAX_TOTAL
from leeward.security.lazy import regex
from leeward.security.permissions import pattern_problem
from leeward.security.policy import KEEP

from .hooks import HookSection
from .narrowing import LOWER, NO_HIGHER_AUTONOMY, ONLY_ASK_OR_DENY, STAYS_ON, STRONGER_MARKS, WEAKER_TRUST
from .sections import (
    AgentSection,
    CommandEntry,
    CostSection,
    FetchSection,
    FileSection,
    RetrySection,
    SandboxSection,
    ShellSection,
    UrlGroundingSection,
)
from .servers import McpSection
from .types import (
    AuthHeader,
    Expected,
    Factory,
    FallbackName,
    FieldValue,
    Gathered,
    HeaderName,
    HeaderValue,
    Level,
    ModelId,
    ModelName,
    PathText,
    PluginName,
    Private,
    ProviderName,
    ProxyUrl,
    QueryName,
    ReachRule,
    RequestField,
    SecretName,
    Section,
    ServerName,
    ServerUrl,
    ToolGlob,
    TrustName,
    VariableName,
    zero_means,
)

__all__ = [
    "ONE_LAYER",
    "Config",
    "PermissionRule",
    "ProviderSection",
    "SecretSection",
]

_WEEK = 7 * 24 * 3600
_MOST_KEPT = 1 << 40  # bytes; the budget for all of them, or the disk, is full before


ONE_LAYER: Mapping[str, bool] = MappingProxyType({"layer": True})
"""The validation context of a single layer: keys that must fit together may come from several."""


def _mismatch(key: str, expected: str, *, beside: str = "") -> PydanticCustomError:
    """Return the error of a value that is good alone but not beside its neighbours."""
    context = {"key": key, "expected": expected, "beside": beside or key}
    return PydanticCustomError("mismatch", "{key}: expected {expected}", context)


_LOOPBACK = regex(r"localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\]")


class ProviderSection(Section):
    """A service that answers for models. The key itself is never part of the configuration."""

    name: Annotated[ProviderName, Field(description="What it is called in PROVIDER:NAME.")]
    kind: Annotated[Literal["openai", "anthropic", "gemini"], Field(description="The dialect it speaks.")] = (
        "openai"
    )
    base_url: Annotated[
        ServerUrl, Field(description="Where its interface begins; without one, at the dialect's own service.")
    ] = ""
    model: Annotated[ModelId, Field(description="The model meant where only the provider is named.")] = ""
    api_key_env: Annotated[
        VariableName, Field(description="The environment variable that holds the key.")
    ] = ""
    api_key_file: Annotated[
        PathText,
        Field(description="A file that holds the key and that only you may read (mode 0600)."),
        Private(),
    ] = ""
    auth_header: Annotated[
        AuthHeader,
        Field(description='The header of the key, behind "Bearer" in Authorization; none: the usual one.'),
    ] = ""
    headers: Annotated[
        Mapping[HeaderName, HeaderValue], Field(description="Further headers of each request.")
    ] = {}
    query: Annotated[
        Mapping[QueryName, HeaderValue], Field(description="What each address ends in, such as api-version.")
    ] = {}
    body: Annotated[
        Mapping[RequestField, FieldValue],
        Field(description="Further fields of each request, as the service documents them."),
    ] = {}
    pictures: Annotated[
        Literal["", "on", "off"],
        Field(description="Whether its models take pictures; none: where base_url is empty."),
    ] = ""

    fence: Annotated[
        Literal["", "delimit", "datamark", "encode"],
        Field(description="How all text of others is marked for its models; none: as [security.fence] says."),
    ] = ""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name in {"offline", "scripted"}:
            raise _mismatch("name", "another name: this one is built in")
        if self.api_key_env and self.api_key_file:
            raise _mismatch("api_key_file", "either api_key_env or api_key_file, not both")
        url = ada_url.URL(self.base_url or "https://the.service")
        has_key = bool(self.api_key_env or self.api_key_file)
        if has_key and url.protocol == "http:" and not _LOOPBACK.fullmatch(url.hostname):
            raise _mismatch("base_url", "an https URL, for the key would travel in the clear")
        return self


class SecretSection(Section):
    """A secret that is lent for some hosts; its value is never part of the configuration."""

    env: Annotated[VariableName, Field(description="The environment variable that holds it.")] = ""
    file: Annotated[
        PathText, Field(description="A file that holds it and that only you may read (mode 0600)."), Private()
    ] = ""
    hosts: Annotated[
        tuple[ReachRule, ...], Field(strict=False, description="Where it may be sent, over https.")
    ]
    programs: Annotated[
        tuple[CommandEntry, ...],
        Field(strict=False, description="Command lines that are lent it, by the words they begin with."),
    ] = ()
    user: Annotated[str, Field(description="The name that git gives with it."), Expected("a text")] = "git"
    show_output: Annotated[
        bool, Field(description="Show what such a program prints; it may print it in any form.")
    ] = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.env) == bool(self.file):
            raise _mismatch("file" if self.env else "env", "either env or file", beside="hosts")
        if not self.hosts:
            raise _mismatch("hosts", "at least one host")
        return self


class LlmSection(Section):
    """Which model answers, and how it is reached."""

    model: Annotated[
        ModelName, Field(description='The model to talk to, as "PROVIDER:NAME"; without one, "offline".')
    ] = ""
    fallback: Annotated[
        tuple[FallbackName, ...],
        Field(strict=False, description="Who answers when the model cannot, in this order."),
    ] = ()
    retries: Annotated[
        int, Field(ge=0, le=100, description="How often a request that failed in passing is sent again.")
    ] = 4
    retry_seconds: Annotated[
        float, Field(ge=0, le=_WEEK, description="Seconds after a failure in which it is sent again.")
    ] = 120.0
    stall_timeout: Annotated[
        float, Field(gt=0, le=_WEEK, description="Seconds a model's server may say nothing.")
    ] = 180.0
    proxy: Annotated[ProxyUrl, Field(description="The proxy for model traffic.")] = ""
    ca_file: Annotated[
        PathText, Field(description="Certificates (PEM) to trust for model traffic, beside the public ones.")
    ] = ""
    providers: Annotated[
        tuple[ProviderSection, ...], Field(strict=False, description="The services that answer for models.")
    ] = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [provider.name for provider in self.providers]
        if len(set(names)) < len(names):
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            raise _mismatch("providers", f'one provider named "{twice}", not two')
        return self


class PermissionRule(Section):
    """What is allowed, asked or denied. Deny beats ask beats allow, whatever their order."""

    tool: Annotated[ToolGlob, Field(description="The tool it speaks of; * and ? are wildcards.")]
    match: Annotated[
        str | None,
        Field(description="Only calls whose command, URL or path matches; without it, all calls."),
        Expected("a pattern such as git status, docs.example.com/* or src/**"),
    ] = None
    action: Annotated[Literal["allow", "ask", "deny"], Field(description="What is done with such a call.")]
    force: Annotated[
        bool, Field(description="Ask even at full autonomy; without anybody to ask, deny. Only for ask.")
    ] = False

    folder: Annotated[
        str | None,
        Field(
            description="For allow: where commands start, a path pattern; without it, the workspace's root."
        ),
        Expected("a path pattern such as packages/* or ~/src/**"),
    ] = None

    command: Annotated[
        str | None,
        Field(description="For allow keep: which commands may change these paths; without it, any."),
        Expected("a pattern such as make * or ruff format *"),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.folder is not None and (self.action != "allow" or self.match is None):
            raise _mismatch("folder", 'no folder here: only a rule with match that says "allow" has one')
        problem = None if self.folder is None else _pattern_problem(f"./{self.folder}")
        if problem is not None:
            raise _mismatch("folder", f"a pattern that can match something: {problem}")
        is_keep = self.tool == KEEP and self.action == "allow" and self.match is not None
        if self.command is not None and not is_keep:
            raise _mismatch("command", 'no command here: only a rule with match that allows "keep" has one')
        problem = None if self.command is None else _pattern_problem(self.command)
        if problem is not None:
            raise _mismatch("command", f"a pattern that can match something: {problem}")
        if self.force and self.action != "ask":
            raise _mismatch("force", 'no force here: only a rule that says "ask" can force it')
        problem = None if self.match is None else _pattern_problem(self.match)
        if problem is not None:
            raise _mismatch("match", f"a pattern that can match something: {problem}")
        return self


def _pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern; it is shown wherever its rule decides, so it must be showable."""
    return pattern_problem(pattern) if pattern.isprintable() else "the pattern holds control characters"


class PermissionsSection(Section):
    """What may be done without asking."""

    autonomy: Annotated[
        Literal["readonly", "supervised", "full"],
        Field(description="How much is done without asking."),
        NO_HIGHER_AUTONOMY,
    ] = "supervised"
    rules: Annotated[
        tuple[PermissionRule, ...],
        Field(strict=False, description="Answers given in advance. Rules of all layers hold together."),
        Gathered(),
        ONLY_ASK_OR_DENY,
    ] = ()


class BreakerSection(Section):
    """After how many denials everything but reading is asked about, until you say yes once."""

    consecutive: Annotated[
        int,
        Field(ge=1, le=1000, description="Denials by gates in a row; your own no is none."),
        LOWER,
    ] = 3
    total: Annotated[int, Field(ge=1, le=100_000, description="Denials by gates in one session."), LOWER] = 20


class PreExecutionVerifySection(Section):
    """What is verified before a call runs."""

    url_grounding: UrlGroundingSection = UrlGroundingSection()


Marking: TypeAlias = Literal["delimit", "datamark", "encode"]


class FenceSection(Section):
    """How text of others is marked for the model, by its origin."""

    web: Annotated[Marking, Field(description="Pages and what else the web brings."), STRONGER_MARKS] = (
        "datamark"
    )
    mcp: Annotated[Marking, Field(description="What MCP servers bring."), STRONGER_MARKS] = "datamark"
    workspace: Annotated[Marking, Field(description="Files, and what programs print."), STRONGER_MARKS] = (
        "delimit"
    )
    tool: Annotated[Marking, Field(description="What else tools say, and summaries."), STRONGER_MARKS] = (
        "delimit"
    )


class SecuritySection(Section):
    """Whom to trust, and how far."""

    trust: Annotated[
        Mapping[TrustName, Level],
        Field(description="The trust level of a tool or of a source, by its name."),
        WEAKER_TRUST,
    ] = {}
    breaker: BreakerSection = BreakerSection()
    fence: FenceSection = FenceSection()
    pre_execution_verify: PreExecutionVerifySection = PreExecutionVerifySection()


class AnomalySection(Section):
    """When a tool that keeps failing is blocked."""

    enabled: Annotated[bool, Field(description="Watch how often each tool fails."), STAYS_ON] = True
    window_size: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description="How many of the model's last calls count; one tried again counts once.",
        ),
    ] = 20
    failure_threshold: Annotated[
        float,
        Field(gt=0, le=1, description="The share of failures and refusals that is too much."),
        LOWER,
    ] = 0.7
    min_samples: Annotated[
        int,
        Field(ge=1, le=10_000, description="Calls before the window counts; at most window_size."),
        LOWER,
    ] = 5
    auto_block: Annotated[
        bool, Field(description="Block the tool for the session; else only say so."), STAYS_ON
    ] = True

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Self:
        if self.min_samples > self.window_size and info.context is not ONE_LAYER:
            most = f"no more than window_size, which is {self.window_size}"
            raise _mismatch("min_samples", most, beside="window_size")
        return self


class OverflowSection(Section):
    """What is too long to show at once."""

    threshold: Annotated[
        int,
        Field(ge=1, le=10_000_000, description="Characters above which an output is cut and kept aside."),
        LOWER,
    ] = 50_000
    retention_days: Annotated[
        int,
        Field(ge=0, le=36_500, description="Days a kept output can be read back; 0: until the next start."),
    ] = 7
    max_overflow_bytes: Annotated[
        int,
        Field(ge=0, le=_MOST_KEPT, description=f"Bytes kept of one output; 0 is the most, {_MOST_KEPT}."),
        zero_means(_MOST_KEPT),
        LOWER,
    ] = 10 * 1024 * 1024
    max_total_bytes: Annotated[
        int,
        Field(
            ge=1,
            le=_MOST_KEPT,
            description="Bytes all kept outputs take on disk, compressed; those read longest ago go first.",
        ),
    ] = MAX_TOTAL


class AuditSection(Section):
    """What was decided and done, signed."""

    heads: Annotated[
        PathText,
        Field(
            description="A file for signed heads of the audit, a line each; elsewhere, it shows a cut end."
        ),
    ] = ""


class ToolsSection(Section):
    """What a model may ask for."""

    executors: Annotated[
        tuple[Factory, ...],
        Field(strict=False, description='Your own tools, each as "package.module:factory"; verified.'),
    ] = ()
    plugins: Annotated[
        tuple[PluginName, ...],
        Field(strict=False, description="Installed plug-ins to use, by name; installed is not enabled."),
    ] = ()
    retry: RetrySection = RetrySection()
    shell: ShellSection = ShellSection()
    sandbox: SandboxSection = SandboxSection()
    file: FileSection = FileSection()
    fetch: FetchSection = FetchSection()
    anomaly: AnomalySection = AnomalySection()
    overflow: OverflowSection = OverflowSection()
    audit: AuditSection = AuditSection()


class MemorySection(Section):
    """What is remembered of sessions."""

    retention_days: Annotated[
        int, Field(ge=1, le=36_500, description="Days a session that is not resumed is kept.")
    ] = 90


class StorageSection(Section):
    """Where sessions, the audit and kept outputs are stored."""

    path: Annotated[
        PathText, Field(description="The database file; without one, leeward.db in the data folder.")
    ] = ""


class TerminalSection(Section):
    """How the chat behaves at your terminal."""

    notify: Annotated[
        Literal["off", "bell", "osc9"],
        Field(description="How you are notified that a turn of more than 10 seconds has ended, or asks."),
    ] = "off"
    editing: Annotated[Literal["emacs", "vi"], Field(description="The keys that edit a message.")] = "emacs"
    theme: Annotated[
        Literal["auto", "dark", "light"],
        Field(description="The background that code is coloured for; auto goes by COLORFGBG."),
    ] = "auto"


class Config(Section):
    """The whole configuration."""

    agent: AgentSection = AgentSection()
    llm: LlmSection = LlmSection()
    cost: CostSection = CostSection()
    permissions: PermissionsSection = PermissionsSection()
    security: SecuritySection = SecuritySection()
    tools: ToolsSection = ToolsSection()
    mcp: McpSection = McpSection()
    hooks: Annotated[
        Mapping[ServerName, HookSection],
        Field(description="Programs of yours that are run before and after calls and turns, by name."),
    ] = {}
    memory: MemorySection = MemorySection()
    storage: StorageSection = StorageSection()
    secrets: Annotated[
        Mapping[SecretName, SecretSection],
        Field(description="What is lent to single programs and executors, by names of your choice."),
    ] = {}
    terminal: TerminalSection = TerminalSection()
