"""Run the programs of a session in the strongest confinement that works here: bubblewrap, Landlock, or none.

The level is found once, by running something in it; from then on every command runs that way or fails. The
workspace is scanned around each run: what must not be reached is masked before, and what appeared where
others would execute it is moved aside after, before anything else runs.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import trio

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.paths import is_inside, protected_places, secret_places, secret_reason
from leeward.security.policy import Policy
from leeward.security.sandbox import (
    SYSTEM_FOLDERS,
    Confinement,
    Masks,
    PathGrant,
    SandboxLevel,
    Spot,
    bubblewrap_arguments,
    changes_to_undo,
    confinement_of,
    folders_in_between,
    is_stored,
    landlock_grants,
    trial_confinement,
)

from ..process import (
    SEARCH_PATH,
    Groups,
    Limits,
    OnChunk,
    ProcessExit,
    Starter,
    SupervisedStart,
    Supervisor,
    find_groups,
    quiet_environment,
    sound_toolchains,
)
from .bubblewrap import BubblewrapStart
from .index import SecretIndex
from .known_toolchains import KnownToolchains
from .landlock import landlock_version
from .program import Program
from .quarantine import undo
from .result import Ran, hints_of, trial_hints_of
from .scan import ScanResult, WorkspaceScan, several_names
from .seccomp import MACHINES, Sockets, filter_program
from .supervisors import SupervisorPool
from .toolchains import ToolchainSecrets
from .trial import Trial, TrialRan, TrialUnavailable, UpperBounds, open_trial
from .trial_probe import KnownTrials, probe_trial

__all__ = [
    "Sandbox",
    "SandboxSettings",
    "SandboxUnavailable",
    "open_sandbox",
]


_RESOLVER = "/etc/resolv.conf"
_LONGEST_LOOK, _MOST_TOLD = 30.0, 16 << 20
_NOT_TO_LOOK_WITH = ("/etc", "/opt", "/sys/devices/system")
_TOO_LARGE = "the workspace is too large to look at whole: secrets deep in it were not kept from the command"
_FLOODED = "it left more files and folders than are looked at; what lies deep in the workspace may be a trap"
_HOME, _TEMPORARY = "home", "tmp"


class SandboxUnavailable(Exception):
    """A sandbox is required, and none works here; the message says why of each."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What a sandbox needs to know.

    `level` is the wished one or "auto"; with `required`, no sandbox means no session. `aside` is the folder
    that what must not stay is moved to, `prefixes` are where the interpreter and what it runs lie, and
    `alert` is told what was moved, whatever becomes of the call. `limits` are what each program is held to,
    and `upper` is how much one on trial may write. `known` remembers what is secret among toolchains.
    """

    policy: Policy
    aside: str
    level: str = "auto"
    required: bool = False
    prefixes: tuple[str, ...] = ()
    alert: Callable[[str], None] = lambda _: None
    limits: Limits = field(default_factory=Limits)
    upper: UpperBounds = field(default_factory=UpperBounds)
    known: KnownToolchains | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """A program that runs: which marks were there when it began, and what it is kept from moving."""

    known: frozenset[str]
    held: frozenset[str]


@dataclass(slots=True)
class Sandbox:
    """What keeps programs in, as it was found. `weaker_because` says why it is nothing stronger.

    `uncounted_because` says why the kernel does not count for whole programs what they take, so that the
    reaper alone does; it is empty where the kernel does. `trials` knows whether programs can be run on trial.
    """

    level: SandboxLevel
    confinement: Confinement
    weaker_because: tuple[str, ...]
    _settings: SandboxSettings
    _index: SecretIndex
    _toolchains: ToolchainSecrets
    uncounted_because: str = ""
    _groups: Groups | None = None
    trials: KnownTrials = field(default_factory=KnownTrials)
    _has_sizes: bool = True
    _program: str = ""
    _scratch: str = ""
    _supervisors: SupervisorPool = field(default_factory=SupervisorPool)
    _running: list[_Running] = field(default_factory=list)
    _looking: trio.Lock = field(default_factory=trio.Lock)
    _trial_index: SecretIndex | None = None

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        deadline: float,
        max_bytes: int,
        on_chunk: OnChunk | None = None,
        lasting: bool = False,
    ) -> Ran:
        """Run a program in the sandbox, as `run_process` does, and undo what it must not leave behind.

        Raises:
            PermanentFailure: it could not be started.
            PolicyBlocked: what must not be reached cannot be kept from it.
        """
        program = Program(argv, cwd, {**env, **_variables(self._scratch)}, deadline, max_bytes, on_chunk)
        # Looked at while another's leavings are undone, those would be what was there, and be put back.
        async with self._looking:
            before = await trio.to_thread.run_sync(self.look)
            masks = self._masks(before, self.confinement.kept, lasting=lasting)
            running = _Running(frozenset(before.marks), masks.held)
            self._running.append(running)
        try:
            finished = await program.run(await self._starter(masks, cwd))
        finally:
            with trio.CancelScope(shield=True):
                async with self._looking:
                    self._running.remove(running)
                    blocked = await trio.to_thread.run_sync(self._undo, before, masks.held)
            for sentence in blocked:
                self._settings.alert(f"blocked: {sentence}")
        return Ran(finished, blocked, _notices(self, before, finished))

    @asynccontextmanager
    async def trial(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        deadline: float,
        max_bytes: int,
        on_chunk: OnChunk | None = None,
        closed: Sequence[str] = (),
    ) -> AsyncIterator[TrialRan]:
        """Run a program on the workspace without changing it, and yield it with what it wrote.

        It has no network and changes the workspace alone, whatever the configuration allows. What it wrote
        is discarded when this is left, and before where it did not come to its own end. `closed` are folders
        that it cannot read besides.

        Raises:
            TrialUnavailable: it cannot be run on trial here.
            PermanentFailure: it could not be started.
            PolicyBlocked: what must not be reached cannot be kept from it.
        """
        if problem := await self.no_trial_because():
            raise TrialUnavailable(problem)
        program = Program(argv, cwd, quiet_environment(env), deadline, max_bytes, on_chunk)
        confinement = trial_confinement(self.confinement)
        async with open_trial(confinement.workspace, self._settings.upper) as trial:
            async with self._looking:
                before = await trio.to_thread.run_sync(_look_for_trial, self, confinement)
                before.secrets += (Spot(path, is_folder=True) for path in closed)
                masks = _without_git(self._masks(before, confinement.kept, lasting=False))
            told = (*(() if before.is_whole else (_TOO_LARGE,)), *self._toolchains.news())
            yield await _tried(self, trial, program, confinement, masks, told)

    async def look_through(
        self, folder: str, argv: Sequence[str], env: Mapping[str, str], readable: Sequence[str]
    ) -> ProcessExit:
        """Run a program of ours that only reads a folder of ours and some more; it has nothing else.

        Raises:
            TrialUnavailable: there is nothing here that keeps it in.
            PermanentFailure: it could not be started.
        """
        if self.level is not SandboxLevel.BUBBLEWRAP:
            raise TrialUnavailable("what only reads cannot be kept in here")
        programs = (path for path in SYSTEM_FOLDERS if path not in _NOT_TO_LOOK_WITH)
        confinement = Confinement(folder, self.confinement.home, (*programs, folder, *readable), ())
        starter = self._bubblewrapped(confinement, Masks(), folder, await self._supervisors.get())
        deadline = trio.current_time() + _LONGEST_LOOK
        return await Program(argv, folder, env, deadline, _MOST_TOLD).run(starter)

    async def repositories(self) -> Sequence[str]:
        """Return the folders of the workspace that git takes for repositories, as they lie there now."""
        confinement = trial_confinement(self.confinement)
        async with self._looking:
            return (await trio.to_thread.run_sync(_look_for_trial, self, confinement)).repositories

    async def no_trial_because(self) -> str:
        """Return why nothing can be run on trial here, nothing where it can: found by a real run, once."""
        return await self.trials.problem_by(partial(_why_no_trial, self))

    def _masks(self, before: ScanResult, kept: tuple[str, ...], *, lasting: bool) -> Masks:
        """Return what is kept from a program; what came since others began is theirs, and known to no one."""
        held: frozenset[str] | None = None
        if self._running:
            held = frozenset.intersection(*(one.held for one in self._running))
            known = frozenset.intersection(*(one.known for one in self._running))
            before.marks = {path: mark for path, mark in before.marks.items() if path in known}
        return before.masks(kept, held, lasting=lasting)

    def look(self) -> ScanResult:
        """Return what lies in the open now; this waits for the disk."""
        seen = self._index.look()
        seen.secrets += _secrets_of_toolchains(self, self.confinement)
        return seen

    @property
    def limits(self) -> Limits:
        """What each command is held to."""
        return self._settings.limits

    @property
    def aside(self) -> str:
        """The folder that what must not stay is moved to."""
        return self._settings.aside

    async def aclose(self) -> None:
        """End what belongs to it and drop its temporary files."""
        await self._supervisors.aclose()
        for index in filter(None, (self._index, self._trial_index)):
            index.close()
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    async def _starter(self, masks: Masks, cwd: str) -> Starter:
        match self.level:
            case SandboxLevel.BUBBLEWRAP:
                return self._bubblewrapped(self.confinement, masks, cwd, await self._supervisors.get())
            case SandboxLevel.LANDLOCK:
                grants = await trio.to_thread.run_sync(self._grants, masks)
                return self._kept(await self._supervisors.get(grants))
        return self._kept(await self._supervisors.get())

    def _kept(self, supervisor: Supervisor) -> SupervisedStart:
        return SupervisedStart(supervisor, self._settings.limits, self._groups)

    def _bubblewrapped(
        self, confinement: Confinement, masks: Masks, cwd: str, supervisor: Supervisor
    ) -> BubblewrapStart:
        try:
            size = self._settings.limits.memory if self._has_sizes else 0
            arguments = bubblewrap_arguments(confinement, masks, cwd, size)
        except ValueError as error:
            raise PolicyBlocked(f"this cannot run in the sandbox: {error}") from error
        program = filter_program(Sockets.isolated())
        if program is None:
            raise PolicyBlocked("this cannot run in the sandbox: the machine's system calls are not known")
        return BubblewrapStart(self._program, arguments, self._kept(supervisor), program)

    def _grants(self, masks: Masks) -> tuple[PathGrant, ...]:
        """Return what a thread may be confined to now; this waits for the disk."""
        tops = (*self.confinement.readable, *self.confinement.writable)
        shut = (spot.path for spot in (*masks.hidden, *masks.unwritable))
        listed = {folder: _names(folder) for folder in folders_in_between(tops, shut)}
        # What is granted is opened through no link, and these lead where the person had them lead.
        readable = tuple(map(os.path.realpath, self.confinement.readable))
        resolved = replace(self.confinement, readable=(*self.confinement.readable, *readable))
        return landlock_grants(resolved, masks, self._scratch, listed)

    def _undo(self, before: ScanResult, held: frozenset[str]) -> tuple[str, ...]:
        after = self._index.scan.look(before)
        changes = changes_to_undo(before.marks, after.marks)
        if self.level is SandboxLevel.BUBBLEWRAP:
            # What is mounted read-only was changed by somebody else, if it was changed.
            changes = tuple(one for one in changes if one.before is None or not is_inside(one.path, *held))
        flooded = (_FLOODED,) if before.is_whole and not after.is_whole else ()
        return (*undo(changes, self._settings.aside), *flooded)


def _notices(sandbox: Sandbox, before: ScanResult, finished: ProcessExit) -> tuple[str, ...]:
    """Return what whoever reads the output cannot know: of the sandbox, and what it could not see to."""
    told = (*(() if before.is_whole else (_TOO_LARGE,)), *sandbox._toolchains.news())
    if finished.exit_code == 0 or sandbox.level is SandboxLevel.NONE:
        return told
    return (*told, *hints_of(finished.output, sandbox.confinement))


def _variables(scratch: str) -> dict[str, str]:
    """Return where a program finds a home of its own, if none can be put in the place of the real one."""
    return {"HOME": f"{scratch}/{_HOME}", "TMPDIR": f"{scratch}/{_TEMPORARY}"} if scratch else {}


def _names(folder: str) -> tuple[str, ...]:
    """Return what lies in a folder but for links: what those lead to is granted for itself, or not."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries if not entry.is_symlink()))
    except OSError:
        return ()


# ------------------------------------------------------------------ on trial


def _look_for_trial(sandbox: Sandbox, confinement: Confinement) -> ScanResult:
    """Return what lies in what a program on trial reaches; this waits for the disk."""
    if sandbox._trial_index is None:
        sandbox._trial_index = SecretIndex(_workspace_scan(sandbox._settings.policy, confinement))
    seen = sandbox._trial_index.look()
    seen.secrets += _secrets_of_toolchains(sandbox, confinement)
    return seen


def _secrets_of_toolchains(sandbox: Sandbox, confinement: Confinement) -> list[Spot]:
    """Return what is closed in what can be read besides the system and what the person names, found once."""
    others = (*SYSTEM_FOLDERS, *sandbox._settings.policy.sandbox.extra_read)
    return sandbox._toolchains.spots(path for path in confinement.readable if not is_inside(path, *others))


def _without_git(masks: Masks) -> Masks:
    """Return masks that let a program on trial write what git stores: that is judged before it is kept."""
    return replace(masks, unwritable=tuple(spot for spot in masks.unwritable if not is_stored(spot.path)))


async def _tried(
    sandbox: Sandbox,
    trial: Trial,
    program: Program,
    confinement: Confinement,
    masks: Masks,
    notices: tuple[str, ...] = (),
) -> TrialRan:
    """Run a program over a trial's overlay, and return it with what it wrote."""
    supervisor = await sandbox._supervisors.get()
    bubblewrapped = sandbox._bubblewrapped(confinement, masks, program.cwd, supervisor)
    starter = replace(bubblewrapped, overlay=trial.overlay)

    async def ran() -> Ran:
        finished = await program.run(starter)
        hints = trial_hints_of(finished.output) if finished.exit_code != 0 else ()
        return Ran(finished, (), (*notices, *hints))

    return await trial.followed(ran)


async def _why_no_trial(sandbox: Sandbox) -> str:
    """Return why nothing can be run on trial here, nothing where it can."""
    if sandbox.level is not SandboxLevel.BUBBLEWRAP:
        weaker = "; ".join(sandbox.weaker_because) or "another sandbox was asked for"
        return f"trial runs need bubblewrap ({weaker})"
    usual = trial_confinement(sandbox.confinement)

    @asynccontextmanager
    async def tried(folder: str, script: str) -> AsyncIterator[TrialRan]:
        confinement = replace(usual, workspace=folder, writable=(folder,), kept=())
        async with open_trial(folder, sandbox._settings.upper) as trial:
            yield await _tried(sandbox, trial, Program.smallest(script, folder), confinement, Masks())

    return await probe_trial(usual.workspace, tried)


# ------------------------------------------------------------------ finding out


@asynccontextmanager
async def open_sandbox(settings: SandboxSettings) -> AsyncIterator[Sandbox]:
    """Yield the strongest sandbox that works here, and end what belongs to it.

    Raises:
        SandboxUnavailable: one is required, and none works.
    """
    sandbox = await _strongest(settings)
    try:
        yield sandbox
    finally:
        with trio.CancelScope(shield=True):
            await sandbox.aclose()


async def _strongest(settings: SandboxSettings) -> Sandbox:
    resolver = await trio.to_thread.run_sync(os.path.realpath, _RESOLVER)
    toolchains = await trio.to_thread.run_sync(sound_toolchains, settings.policy)
    confinement = confinement_of(settings.policy, (*toolchains, *settings.prefixes), resolver)
    scan = await trio.to_thread.run_sync(_workspace_scan, settings.policy, confinement)
    secrets = ToolchainSecrets(
        lambda path: secret_reason(path, settings.policy),
        settings.known,
        scan.linked,
        has_rules=bool(settings.policy.deny_read),
    )
    groups, uncounted = await _usable_groups(settings)
    reasons: list[str] = []

    def made(level: SandboxLevel) -> Sandbox:
        index = SecretIndex(scan)
        return Sandbox(level, confinement, tuple(reasons), settings, index, secrets, uncounted, groups)

    for level in _LADDER[settings.level]:
        sandbox = made(level)
        sandbox._supervisors.network = confinement.network
        problem = await _PREPARE[level](sandbox)
        if problem is None:
            return sandbox
        await sandbox.aclose()
        reasons.append(f"{level}: {problem}")
    if settings.required:
        raise SandboxUnavailable("; ".join(reasons) or "the configuration asks for none")
    return made(SandboxLevel.NONE)


async def _usable_groups(settings: SandboxSettings) -> tuple[Groups | None, str]:
    """Return where control groups for programs can be made, and why there are none."""
    groups = await trio.to_thread.run_sync(find_groups)
    if isinstance(groups, str):
        return None, groups
    problem = await _run_smallest(SupervisedStart(limits=settings.limits, groups=groups))
    return (groups, "") if problem is None else (None, problem)


def _workspace_scan(policy: Policy, confinement: Confinement) -> WorkspaceScan:
    """Return what has to be watched and hidden; this waits for the disk."""

    def is_secret(path: str) -> bool:
        return secret_reason(path, policy) is not None

    places = (os.path.realpath(path) for path in protected_places(policy))
    of_secrets = (*secret_places(policy), *_secrets_below("/etc", is_secret))
    hidden = tuple(dict.fromkeys(map(os.path.realpath, of_secrets)))
    reached = (*confinement.readable, *confinement.writable)
    return WorkspaceScan(
        roots=confinement.writable,
        read_only=tuple(path for path in policy.sandbox.extra_read if path in confinement.readable),
        places=tuple(dict.fromkeys(places)),
        secret_places=tuple(path for path in hidden if is_inside(path, *reached)),
        is_secret=is_secret,
        linked=several_names(path for path in hidden if not is_inside(path, *confinement.writable)),
    )


def _secrets_below(folder: str, is_secret: Callable[[str], bool]) -> list[str]:
    return [spot.path for spot in WorkspaceScan((), (folder,), (), (), is_secret).look().secrets]


async def _prepare_bubblewrap(sandbox: Sandbox) -> str | None:
    """Return why it does not work, None where it does."""
    if os.uname().machine not in MACHINES:
        return f"the system calls of {os.uname().machine} are not known here"
    # Looked for where the system keeps its programs: one in the workspace would be the fox guarding hens.
    sandbox._program = shutil.which("bwrap", path=SEARCH_PATH) or ""
    if not sandbox._program:
        return "it is not installed"
    problem = await _problem(sandbox)
    if problem is not None and "--size" in problem:
        # Before 0.7 it could not be told how large a file system in memory may become; its reaper counts.
        sandbox._has_sizes = False
        problem = await _problem(sandbox)
    return problem


async def _prepare_landlock(sandbox: Sandbox) -> str | None:
    if not landlock_version():
        return "the kernel does not offer it"
    if os.uname().machine not in MACHINES:
        return f"the system calls of {os.uname().machine} are not known here"
    sandbox._scratch = await trio.to_thread.run_sync(_scratch, sandbox.confinement)
    return await _problem(sandbox)


def _scratch(confinement: Confinement) -> str:
    """Make a folder for temporary files, and a home that holds but what may be read of the real one."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="leeward-"))
    for name in (_HOME, _TEMPORARY):
        Path(folder, name).mkdir()
    linked: list[str] = []
    for path in sorted(confinement.readable):
        is_there = is_inside(path, confinement.home) and not is_inside(path, *linked)
        if is_there and Path(path).exists():
            link = Path(folder, _HOME, posixpath.relpath(path, confinement.home))
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
            linked.append(path)
    return folder


async def _problem(sandbox: Sandbox) -> str | None:
    """Return what goes wrong with the smallest of programs."""
    try:
        return await _run_smallest(await sandbox._starter(Masks(), "/"))
    except PermanentFailure as error:
        return str(error)


async def _run_smallest(starter: Starter) -> str | None:
    try:
        finished = await Program.smallest(":").run(starter)
    except PermanentFailure as error:
        return str(error)
    said = finished.stderr.strip() or "the smallest of programs fails in it"
    return None if finished.exit_code == 0 else said


_PREPARE = {SandboxLevel.BUBBLEWRAP: _prepare_bubblewrap, SandboxLevel.LANDLOCK: _prepare_landlock}
_LADDER = {
    "auto": (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK),
    "bubblewrap": (SandboxLevel.BUBBLEWRAP,),
    "landlock": (SandboxLevel.LANDLOCK,),
    "none": (),
}
