"""Models of the smaller configuration sections: limits, files, network, commands and the sandbox.

Models and nothing else. What all keys have in common is in `models.py`; how patterns of commands and paths
are read is in `security/policy.py` and `security/paths/pattern.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from leeward.security.filters import HARD_BOUND
from leeward.security.policy import DEFAULT_CONFIRM, command_entry_problem
from leeward.tools.process import Limits, UpperBounds

from .narrowing import (
    ASKS_FIRST,
    LOWER,
    LOWER_FROM_ENDLESS,
    MORE,
    NARROWER_HOSTS,
    STAYS_OFF,
    STAYS_ON,
    SUBSET,
    lower_from,
)
from .types import (
    Expected,
    HostPattern,
    KnownPlace,
    ListedHost,
    ModelGlob,
    Network,
    PathText,
    ReachRule,
    Section,
    ToolName,
    zero_means,
)

__all__ = [
    "DEFAULT_CACHES",
    "AgentSection",
    "CostSection",
    "FetchSection",
    "FileSection",
    "PriceSection",
    "RetrySection",
    "SandboxSection",
    "ShellSection",
    "UrlGroundingSection",
]


DEFAULT_CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")

_WEEK = 7 * 24 * 3600


def _is_entry(text: str) -> str:
    problem = command_entry_problem(text)
    if problem is not None:
        raise PydanticCustomError("command", "{problem}", {"problem": problem})
    return text


CommandEntry = Annotated[
    str, AfterValidator(_is_entry), Expected("the words of a command, such as git push or npm publish *")
]


def _is_folder_name(text: str) -> str:
    if not text.isprintable() or "/" in text or text in {"", ".", "..", ".git"}:
        raise PydanticCustomError("folder", "{problem}", {"problem": "it is no name of such a folder"})
    return text


FolderName = Annotated[
    str, AfterValidator(_is_folder_name), Expected("the name of a folder, without a slash")
]


class ShellSection(Section):
    """Programs."""

    timeout: Annotated[float, Field(gt=0, le=_WEEK, description="Seconds a command may run."), LOWER] = 30.0
    max_jobs: Annotated[
        int, Field(ge=0, le=64, description="Commands that may run in the background at once."), LOWER
    ] = 4
    longest_job: Annotated[
        float, Field(gt=0, le=_WEEK, description="Seconds a command may run in the background."), LOWER
    ] = 3600.0
    memory: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 50,
            description="Bytes of memory a command may use in all; 0: half the machine, at most 4 GiB.",
        ),
        lower_from(lambda: Limits().memory),
    ] = 0
    processes: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 22,
            description="Processes and threads a command may have; 0: 1,024, and 128 for each processor.",
        ),
        lower_from(lambda: Limits().tasks),
    ] = 0
    trial_bytes: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 50,
            description="Bytes, kept in memory, a command may write on trial; 0: a quarter of the machine's.",
        ),
        lower_from(lambda: UpperBounds().size),
    ] = 0
    trial: Annotated[
        Literal["auto", "ask", "off"],
        Field(
            description="Run commands that nobody allowed on trial first: what they changed is shown then, "
            "and kept or discarded. ask: only after a yes; off: never."
        ),
        ASKS_FIRST,
    ] = "auto"
    overlay: Annotated[
        bool,
        Field(
            description="Hold what allowed commands write to the workspace apart until they have ended. "
            "Where something untrusted was read, or a file written that runs later, that is done whatever "
            "this says."
        ),
        STAYS_ON,
    ] = True
    caches: Annotated[
        tuple[FolderName, ...],
        Field(
            strict=False,
            description="Names of folders of which nothing is kept, and nobody asked, after a run on trial.",
        ),
        SUBSET,
    ] = DEFAULT_CACHES
    checkpoints: Annotated[
        bool, Field(description="Keep what calls change in the workspace, so that /undo takes it back.")
    ] = True
    checkpoint_bytes: Annotated[
        int,
        Field(ge=0, le=1 << 32, description="Bytes of files kept of one state of the workspace, at most."),
    ] = 64 * 1024 * 1024
    allowed_paths: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Folders outside the workspace that may be used without asking."),
        SUBSET,
    ] = ()
    blocked_commands: Annotated[
        tuple[CommandEntry, ...],
        Field(strict=False, description="Commands that never run, however they are wrapped or quoted."),
        MORE,
    ] = ()
    allowed_commands: Annotated[
        tuple[CommandEntry, ...],
        Field(strict=False, description="Commands that run without a question; a last * for any words."),
        SUBSET,
    ] = ()
    confirm_patterns: Annotated[
        tuple[CommandEntry, ...],
        Field(
            strict=False,
            description="Constructs and commands that are always asked about; on trial, by default, none.",
        ),
        MORE,
    ] = DEFAULT_CONFIRM


def _is_path_glob(text: str) -> str:
    problem = None
    if not text.strip("/") or not text.isprintable():
        problem = "there is no name in it"
    elif text.startswith("~") and not text.startswith("~/"):
        problem = "it names another user's home; write the whole path"
    elif text.count("[") != text.count("]"):
        problem = "a bracket in it is not closed"
    if problem is not None:
        raise PydanticCustomError("glob", "{problem}", {"problem": problem})
    return text


PathGlob = Annotated[
    str, AfterValidator(_is_path_glob), Expected("a glob such as *.pem, private/** or ~/notes/diary.md")
]


class FileSection(Section):
    """Files, for every tool: those that read, copy, move or search them, and commands."""

    deny_read: Annotated[
        tuple[PathGlob, ...],
        Field(
            strict=False,
            description="Files and folders no tool reads, beside the built-in ones; a bare name anywhere.",
        ),
        MORE,
    ] = ()
    allow_read: Annotated[
        tuple[PathGlob, ...],
        Field(
            strict=False,
            description="Files that only their name makes secret, such as a test key, and that are not.",
        ),
    ] = ()


_BODY_DEFAULT = 100 * 1024


class UrlGroundingSection(Section):
    """Only URLs you gave are opened."""

    enabled: Annotated[
        bool,
        Field(description="Refuse URLs that you did not give. If it is off, every record says so."),
        STAYS_ON,
    ] = True
    guarded_tools: Annotated[
        tuple[ToolName, ...],
        Field(
            strict=False,
            description="Tools whose texts are all read as URLs, beside those whose names end in _fetch.",
        ),
        MORE,
    ] = ("fetch", "web_scrape")
    urls: Annotated[
        tuple[KnownPlace, ...],
        Field(strict=False, description="URLs and mail addresses that count as given by you, always."),
    ] = ()
    search_tools: Annotated[
        tuple[ToolName, ...],
        Field(strict=False, description="Tools whose results may be opened, each exactly as found."),
    ] = ()


class FetchSection(Section):
    """Pages."""

    timeout: Annotated[float, Field(gt=0, le=3600, description="Seconds a page may take."), LOWER] = 20.0
    max_body_bytes: Annotated[
        int,
        Field(
            ge=0,
            le=HARD_BOUND,
            description=f"Bytes kept of a page; 0 is the default, {_BODY_DEFAULT}.",
        ),
        zero_means(_BODY_DEFAULT),
        LOWER,
    ] = _BODY_DEFAULT
    allow_networks: Annotated[
        tuple[Network, ...],
        Field(strict=False, description="Networks that may be reached although they are not public."),
    ] = ()
    domain_allowlist: Annotated[
        tuple[ListedHost, ...],
        Field(strict=False, description="The only hosts that may be reached; without any, all public ones."),
        NARROWER_HOSTS,
    ] = ()
    domain_denylist: Annotated[
        tuple[HostPattern, ...],
        Field(strict=False, description="Hosts that may not be reached, whatever else allows them."),
        MORE,
    ] = ()
    allow_http: Annotated[
        tuple[HostPattern, ...],
        Field(strict=False, description="Hosts that may be spoken to without TLS."),
    ] = ()
    ca_file: Annotated[
        PathText, Field(description="Certificates (PEM) to trust for pages, beside the system's.")
    ] = ""


class SandboxSection(Section):
    """What keeps programs in."""

    level: Annotated[
        Literal["auto", "bubblewrap", "landlock", "none"],
        Field(description="What to use; auto is the strongest that works here."),
    ] = "auto"
    required: Annotated[bool, Field(description="Begin no session where no sandbox works."), STAYS_ON] = False
    network: Annotated[bool, Field(description="Let programs use the network."), STAYS_OFF] = False
    allow_hosts: Annotated[
        tuple[ReachRule, ...],
        Field(
            strict=False,
            description="Hosts that commands may reach without a question while they have no network.",
        ),
    ] = ()
    extra_read: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Folders and files outside the workspace that programs may read."),
        SUBSET,
    ] = ()
    extra_write: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Folders outside the workspace that programs may change."),
        SUBSET,
    ] = ()
    auto_allow: Annotated[
        bool,
        Field(description="Run commands without a question while the sandbox passes its own test."),
        STAYS_OFF,
    ] = False


class AgentSection(Section):
    """How much a session may do."""

    max_turns: Annotated[
        int, Field(ge=1, le=1000, description="Replies of the model to one message of yours, at most."), LOWER
    ] = 25
    max_tool_calls_per_turn: Annotated[
        int, Field(ge=1, le=10_000, description="Tool calls for one message of yours, at most."), LOWER
    ] = 50
    max_tool_calls_per_session: Annotated[
        int, Field(ge=1, le=1_000_000, description="Tool calls in one session, at most."), LOWER
    ] = 500
    timeout: Annotated[
        float,
        Field(ge=0, le=_WEEK, description="Seconds a turn may take, your answers included; 0: no limit."),
        LOWER_FROM_ENDLESS,
    ] = 0.0
    context_tokens: Annotated[
        int,
        Field(ge=0, le=100_000_000, description="Tokens a model reads at once, its reply included; 0: any."),
        LOWER_FROM_ENDLESS,
    ] = 128_000


class PriceSection(Section):
    """What a million tokens cost, in a currency of your choice; the first entry that fits a model counts."""

    model: Annotated[ModelGlob, Field(description="PROVIDER:NAME; * and ? are wildcards.")]
    input: Annotated[float, Field(ge=0, description="What is sent.")]
    output: Annotated[float, Field(ge=0, description="What is answered.")]
    cache_read: Annotated[
        float | None,
        Field(ge=0, description="What is sent and was in the service's cache; without it, as input."),
        Expected("a number, at least 0"),
    ] = None
    cache_write: Annotated[
        float | None,
        Field(ge=0, description="What is sent and put into that cache; without it, as input."),
        Expected("a number, at least 0"),
    ] = None


class CostSection(Section):
    """What a session may cost. The offline model and scripts cost nothing."""

    max_session: Annotated[
        float,
        Field(ge=0, description="What a session may cost, by the prices below; 0: no limit."),
        LOWER_FROM_ENDLESS,
    ] = 0.0
    prices: Annotated[
        tuple[PriceSection, ...],
        Field(strict=False, description="What models cost; for others leeward[prices] is asked."),
    ] = ()


class RetrySection(Section):
    """Calls that failed in passing are made again, where their tool says that this does no harm."""

    retries: Annotated[int, Field(ge=0, le=2, description="Further tries of one call, at most."), LOWER] = 2
    first_wait: Annotated[
        float, Field(ge=0, le=60, description="Seconds before the first, at most; then twice as many.")
    ] = 0.5
    longest_wait: Annotated[
        float, Field(ge=0, le=600, description="Seconds before any of them, at most.")
    ] = 8.0
