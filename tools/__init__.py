"""What a model may ask for: how a tool is declared, the built-in ones, and all of them as one executor."""

from .ancestry import own_this_process
from .beneath import shown_name
from .builtin import BuiltinSettings, builtin_tools, open_builtin_tools
from .changes import Changes
from .checkpoints import Checkpoints, Conflict, NothingToUndo, Turned
from .composite import GUARDED_TOOLS, CompositeExecutor, NameClash, Registered
from .confined import Ran, Runner, Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox, run_bare
from .declare import SingleTool, schema_tool, spec_from_schema, tool
from .diff import unified
from .environment import SEARCH_PATH, environment
from .fetch import DEFAULT_BODY_BYTES, Fetcher
from .files import Files
from .guard import Guard
from .jobs import Job, Jobs, JobState
from .kinds import Destination, ResourceId, Secret, ShellCommand, SourcePath, Text, Url, WorkspacePath
from .limits import Exceeded, Limits, amount
from .lookup import looked_up, resolved
from .notes import NoteKeeper, Notes
from .overflow import Overflow, OverflowReader
from .process import Finished, run_process
from .resolve import Resolver, dns_resolver
from .search import Search
from .selftest import Probe, self_test
from .shell import Shell
from .snapshot import Limits as SnapshotLimits
from .states import states
from .survey import Surveyor
from .trees import Trees

__all__ = [
    "DEFAULT_BODY_BYTES",
    "GUARDED_TOOLS",
    "SEARCH_PATH",
    "BuiltinSettings",
    "Changes",
    "Checkpoints",
    "CompositeExecutor",
    "Conflict",
    "Destination",
    "Exceeded",
    "Fetcher",
    "Files",
    "Finished",
    "Guard",
    "Job",
    "JobState",
    "Jobs",
    "Limits",
    "NameClash",
    "NoteKeeper",
    "Notes",
    "NothingToUndo",
    "Overflow",
    "OverflowReader",
    "Probe",
    "Ran",
    "Registered",
    "Resolver",
    "ResourceId",
    "Runner",
    "Sandbox",
    "SandboxSettings",
    "SandboxUnavailable",
    "Search",
    "Secret",
    "Shell",
    "ShellCommand",
    "SingleTool",
    "SnapshotLimits",
    "SourcePath",
    "Surveyor",
    "Text",
    "Trees",
    "Turned",
    "Url",
    "WorkspacePath",
    "amount",
    "builtin_tools",
    "dns_resolver",
    "environment",
    "looked_up",
    "open_builtin_tools",
    "open_sandbox",
    "own_this_process",
    "resolved",
    "run_bare",
    "run_process",
    "schema_tool",
    "self_test",
    "shown_name",
    "spec_from_schema",
    "states",
    "tool",
    "unified",
]
