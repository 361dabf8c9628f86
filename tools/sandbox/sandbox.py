"""Run the programs of a session in the strongest confinement that works here: bubblewrap, Landlock, or none.

Which one works is found once, by running a program in it; from then on every command runs that way or fails.
The workspace is scanned around each run. Before it, secret files are hidden; after it, files that others
would execute are moved aside before anything else runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.paths import is_inside, secret_reason
from leeward.security.policy import Policy
from leeward.security.sandbox import (
    SYSTEM_FOLDERS,
    Confinement,
    Masks,
    SandboxLevel,
    Spot,
    bubblewrap_arguments,
    changes_to_undo,
    confinement_of,
    is_stored,
    trial_confinement,
)

from ..process import (
    SEARCH_PATH,
    Groups,
    Limits,
    Listener,
    OnChunk,
    ProcessExit,
    Serve,
    Starter,
    SupervisedStart,
    Supervisor,
    find_groups,
    quiet_environment,
    remove_abandoned,
    sound_toolchains,
)
from .bubblewrap import BubblewrapStart, run_program
from .git_locks import file_clock, locks_removed
from .index import SecretIndex
from .known_toolchains import KnownToolchains
from .landlock import (
    grants_around,
    landlock_version,
    made_scratch,
    temporary_folder,
    variables_of,
)
from .program import Program
from .quarantine import remove_whole, undo
from .result import Ran, hints_of, trial_hints_of
from .scan import ScanResult, scan_for
from .seccomp import MACHINES, Sockets, filter_program
from .supervisors import SupervisorPool
from .toolchains import ToolchainSecrets
from .trial import Trial, TrialRan, TrialReach, TrialUnavailable, UpperBounds, open_trial
from .trial_probe import KnownTrials, probe_trial

__all__ = [
    "Sandbox",
    "SandboxSettings",
    "SandboxUnavailable",
    "Watch",
    "look_as_reader",
    "made_scratch",
    "notices_of",
    "open_sandbox",
    "reading_starter",
    "run_tried",
    "tried_small",
    "watched",
    "without_git",
]


_RESOLVER = "/etc/resolv.conf"
_NOTHING = TrialReach()
_LONGEST_LOOK, _MOST_TOLD = 30.0, 16 << 20
_NOT_TO_LOOK_WITH = ("/etc", "/opt", "/sys/devices/system")
_TOO_LARGE = "the workspace is too large to scan: secret files deep in it were readable by the command"
_MORE = 2
"""How many times as many files and folders may be written to a disk as to memory."""
_FLOODED = "it left more files than are checked; files deep in the workspace may be harmful"


class SandboxUnavailable(Exception):
    """A sandbox is required, and none works here; the message says why of each."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What a sandbox needs to know.

    `level` is the wished one or "auto"; with `required`, no sandbox means no session. `aside` is the folder
    that what must not stay is moved to, `prefixes` are where the interpreter and what it runs lie, and
    `alert` is called with what was moved, however the call ends. `limits` are what each program is held to,
    and `upper` is how much one on trial may write, in memory or, if that is too small, in a folder `on_disk`.
    `known` remembers what is secret among toolchains. With `works`, bubblewrap was found to work here before
    and is not tried again; `broken` is called where it does not.
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
    on_disk: str = ""
    works: bool = False
    broken: Callable[[], None] = lambda: None

    def bounds(self, disk: int) -> UpperBounds:
        """Return how much one on trial may write: so many bytes on a disk, or what memory holds."""
        if not disk:
            return self.upper
        return replace(self.upper, size=disk, inodes=_MORE * self.upper.inodes, folder=self.on_disk)


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """A program that runs: which marks were there when it began, and what it is kept from moving."""

    known: frozenset[str]
    held: frozenset[str]


@dataclass(slots=True)
class Watch:
    """What lay in the open before a program, what it is kept from, how it ended, and what was undone then.

    `unlocked` tells which locks of git it left when it was cut short, which `finished` says.
    """

    before: ScanResult
    masks: Masks
    finished: ProcessExit | None = None
    blocked: tuple[str, ...] = ()
    unlocked: tuple[str, ...] = ()


@dataclass(slots=True)
class _Late:
    """What is made when it is first wanted, for all who use a sandbox."""

    trial_index: SecretIndex | None = None
    reading_index: SecretIndex | None = None
    reading_scratch: str = ""


@dataclass(slots=True)
class Sandbox:
    """What keeps programs in, as it was found. `weaker_because` says why it is nothing stronger.

    `uncounted_because` says why the kernel does not count for whole programs what they take, so that the
    reaper alone does; it is empty where the kernel does. `trials` and `reading` know whether programs can be
    run on trial, and read-only (`read_only.py`).
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
    reading: KnownTrials = field(default_factory=KnownTrials)
    _has_sizes: bool = True
    _program: str = ""
    _scratch: str = ""
    _supervisors: SupervisorPool = field(default_factory=SupervisorPool)
    _readers: SupervisorPool = field(default_factory=lambda: SupervisorPool(reads_only=True))
    _running: list[_Running] = field(default_factory=list)
    _looking: trio.Lock = field(default_factory=trio.Lock)
    _late: _Late = field(default_factory=_Late)

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
        serve: Serve | None = None,
    ) -> Ran:
        """Run a program in the sandbox, reaching what `serve` serves, and undo what must not be left behind.

        Raises:
            PermanentFailure: it could not be started.
            PolicyBlocked: what must not be reached cannot be kept from it.
        """
        program = Program(argv, cwd, {**env, **variables_of(self._scratch)}, deadline, max_bytes, on_chunk)
        async with watched(self, lasting=lasting) as watch:
            watch.finished = await run_program(program, await self._starter(watch.masks, cwd), serve)
        return Ran(
            watch.finished,
            watch.blocked,
            (*notices_of(self, watch.before, watch.finished), *watch.unlocked),
        )

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
        reach: TrialReach = _NOTHING,
        disk: int = 0,
    ) -> AsyncIterator[TrialRan]:
        """Run a program on the workspace without changing it, and yield it with what it wrote.

        It changes the workspace alone, whatever the configuration allows, and by network `reach` alone.
        What it wrote is discarded when this is left, and before where it did not come to its own end. `disk`
        is how many bytes it may write to a disk, 0 for memory.

        Raises:
            TrialUnavailable: it cannot be run on trial here.
            PermanentFailure: it could not be started.
            PolicyBlocked: what must not be reached cannot be kept from it.
        """
        if problem := await self.no_trial_because():
            raise TrialUnavailable(problem)
        program = Program(argv, cwd, quiet_environment(env), deadline, max_bytes, on_chunk)
        confinement = trial_confinement(self.confinement)
        async with open_trial(confinement.workspace, self._settings.bounds(disk)) as trial:
            async with self._looking:
                before = await trio.to_thread.run_sync(_look_for_trial, self, confinement)
                before.secrets += (Spot(path, is_folder=True) for path in reach.closed)
                masks = without_git(self._masks(before, confinement.kept, lasting=False))
            known = (*(() if before.is_whole else (_TOO_LARGE,)), *self._toolchains.news())

            def notices(finished: ProcessExit) -> tuple[str, ...]:
                return (*known, *(trial_hints_of(finished.output) if finished.exit_code != 0 else ()))

            yield await run_tried(self, trial, program, confinement, masks, notices, reach.serve)

    async def look_through(
        self, folder: str, argv: Sequence[str], env: Mapping[str, str], readable: Sequence[str]
    ) -> ProcessExit:
        """Run a program of ours that only reads a folder of ours and some more; it has nothing else.

        Raises:
            TrialUnavailable: there is nothing here that keeps it in.
            PermanentFailure: it could not be started.
        """
        programs = [path for path in SYSTEM_FOLDERS if path not in _NOT_TO_LOOK_WITH]
        programs += self._settings.prefixes if self.level is SandboxLevel.LANDLOCK else ()  # the supervisor
        confinement = Confinement(folder, self.confinement.home, (*programs, folder, *readable), ())
        starter = await reading_starter(self, confinement, Masks(), folder)
        deadline = trio.current_time() + _LONGEST_LOOK
        return await Program(argv, folder, env, deadline, _MOST_TOLD).run(starter)

    async def repositories(self) -> Sequence[str]:
        """Return the folders of the workspace that git takes for repositories, as they lie there now."""
        confinement = trial_confinement(self.confinement)
        async with self._looking:
            return (await trio.to_thread.run_sync(_look_for_trial, self, confinement)).repositories

    def heard_by(self, alert: Callable[[str], None]) -> Sandbox:
        """Return this sandbox as another session uses it, which is alerted of what its own programs left.

        They share everything else; only the first is closed.
        """
        return replace(self, _settings=replace(self._settings, alert=alert))

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
        await self._readers.aclose()
        for index in filter(None, (self._index, self._late.trial_index, self._late.reading_index)):
            index.close()
        for scratch in filter(None, (self._scratch, self._late.reading_scratch)):
            await trio.to_thread.run_sync(remove_whole, scratch)

    async def _starter(self, masks: Masks, cwd: str) -> Starter:
        match self.level:
            case SandboxLevel.BUBBLEWRAP:
                return self._bubblewrapped(self.confinement, masks, cwd, await self._supervisors.get())
            case SandboxLevel.LANDLOCK:
                grants = await trio.to_thread.run_sync(grants_around, self.confinement, masks, self._scratch)
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
        kept, broken = self._kept(supervisor), self._settings.broken
        return BubblewrapStart(self._program, arguments, kept, program, broken=broken)

    def _undo(self, before: ScanResult, held: frozenset[str]) -> tuple[str, ...]:
        after = self._index.scan.look(before)
        changes = changes_to_undo(before.marks, after.marks)
        if self.level is SandboxLevel.BUBBLEWRAP:
            # What is mounted read-only was changed by somebody else, if it was changed.
            changes = tuple(one for one in changes if one.before is None or not is_inside(one.path, *held))
        flooded = (_FLOODED,) if before.is_whole and not after.is_whole else ()
        return (*undo(changes, self._settings.aside), *flooded)


@asynccontextmanager
async def watched(sandbox: Sandbox, *, lasting: bool) -> AsyncIterator[Watch]:
    """Yield what a program is kept from; when this is left, undo what it must not leave behind."""
    # Looked at while another's leavings are undone, those would be what was there, and be put back.
    async with sandbox._looking:
        before = await trio.to_thread.run_sync(sandbox.look)
        watch = Watch(before, sandbox._masks(before, sandbox.confinement.kept, lasting=lasting))
        running = _Running(frozenset(before.marks), watch.masks.held)
        sandbox._running.append(running)
    unlock = partial(locks_removed, sandbox.confinement.workspace, before.repositories, file_clock())
    try:
        yield watch
    finally:
        with trio.CancelScope(shield=True):
            async with sandbox._looking:
                sandbox._running.remove(running)
                watch.unlocked = await trio.to_thread.run_sync(unlock, watch.finished)
                watch.blocked = await trio.to_thread.run_sync(sandbox._undo, before, watch.masks.held)
        for sentence in watch.blocked:
            sandbox._settings.alert(f"blocked: {sentence}")


def notices_of(sandbox: Sandbox, before: ScanResult, finished: ProcessExit) -> tuple[str, ...]:
    """Return what the output alone does not tell: about the sandbox, and what it could not check."""
    known = (*(() if before.is_whole else (_TOO_LARGE,)), *sandbox._toolchains.news())
    if finished.exit_code == 0 or sandbox.level is SandboxLevel.NONE:
        return known
    return (*known, *hints_of(finished.output, sandbox.confinement))


# ------------------------------------------------------------------ on trial


def _look_for_trial(sandbox: Sandbox, confinement: Confinement) -> ScanResult:
    """Return what lies in what a program on trial reaches; this waits for the disk."""
    if sandbox._late.trial_index is None:
        sandbox._late.trial_index = SecretIndex(scan_for(sandbox._settings.policy, confinement))
    seen = sandbox._late.trial_index.look()
    seen.secrets += _secrets_of_toolchains(sandbox, confinement)
    return seen


def _secrets_of_toolchains(sandbox: Sandbox, confinement: Confinement) -> list[Spot]:
    """Return what is closed in what can be read besides the system and what the person names, found once."""
    others = (*SYSTEM_FOLDERS, *sandbox._settings.policy.sandbox.extra_read, confinement.workspace)
    return sandbox._toolchains.spots(path for path in confinement.readable if not is_inside(path, *others))


def without_git(masks: Masks) -> Masks:
    """Return masks that let a program on trial write what git stores: that is judged before it is kept."""
    return replace(masks, unwritable=tuple(spot for spot in masks.unwritable if not is_stored(spot.path)))


async def run_tried(
    sandbox: Sandbox,
    trial: Trial,
    program: Program,
    confinement: Confinement,
    masks: Masks,
    notices: Callable[[ProcessExit], tuple[str, ...]] = lambda _: (),
    serve: Serve | None = None,
) -> TrialRan:
    """Run a program over the overlay of a trial run; return its result with its upper layer."""
    supervisor = await sandbox._supervisors.get()
    bubblewrapped = sandbox._bubblewrapped(confinement, masks, program.cwd, supervisor)
    starter = replace(bubblewrapped, overlay=trial.overlay)

    async def start() -> Ran:
        finished = await run_program(program, starter, serve)
        return Ran(finished, (), notices(finished))

    return await trial.run(start)


async def _why_no_trial(sandbox: Sandbox) -> str:
    """Return why nothing can be run on trial here, nothing where it can."""
    if sandbox.level is not SandboxLevel.BUBBLEWRAP:
        weaker = "; ".join(sandbox.weaker_because) or "another sandbox was asked for"
        return f"trial runs need bubblewrap ({weaker})"
    probe = partial(tried_small, sandbox, sandbox._settings.upper)
    return await probe_trial(sandbox.confinement.workspace, probe)


@asynccontextmanager
async def tried_small(
    sandbox: Sandbox, bounds: UpperBounds, folder: str, script: str
) -> AsyncIterator[TrialRan]:
    """Run a script of ours over an overlay of a folder, with nothing else in reach."""
    usual = trial_confinement(sandbox.confinement)
    confinement = replace(usual, workspace=folder, writable=(folder,), kept=())
    async with open_trial(folder, bounds) as trial:
        yield await run_tried(sandbox, trial, Program.smallest(script, folder), confinement, Masks())


# ------------------------------------------------------------------ read-only


async def reading_starter(
    sandbox: Sandbox, confinement: Confinement, masks: Masks, cwd: str, wishes: Listener | None = None
) -> Starter:
    """Return what starts programs that change nothing; `wishes` receives the calls that would.

    Raises:
        TrialUnavailable: there is nothing here that keeps them from it.
        PermanentFailure: it could not be started.
    """
    if sandbox.level is SandboxLevel.BUBBLEWRAP:
        supervisor = await sandbox._supervisors.get()
        return replace(sandbox._bubblewrapped(confinement, masks, cwd, supervisor), listener=wishes)
    if sandbox.level is not SandboxLevel.LANDLOCK:
        raise TrialUnavailable("what only reads cannot be kept in here")
    if not sandbox._late.reading_scratch:
        sandbox._late.reading_scratch = await trio.to_thread.run_sync(temporary_folder)
    around = partial(grants_around, confinement, masks, sandbox._late.reading_scratch, sees_processes=False)
    grants = await trio.to_thread.run_sync(around)
    return replace(sandbox._kept(await sandbox._readers.get(grants)), listener=wishes)


def look_as_reader(sandbox: Sandbox, confinement: Confinement) -> ScanResult:
    """Return what must not be reached by a program that reads only; this waits for the disk."""
    if sandbox._late.reading_index is None:
        scan = scan_for(sandbox._settings.policy, confinement)
        scan = replace(scan, read_only=(confinement.workspace, *scan.read_only))
        sandbox._late.reading_index = SecretIndex(scan)
    seen = sandbox._late.reading_index.look()
    seen.secrets += _secrets_of_toolchains(sandbox, confinement)
    return seen


# ------------------------------------------------------------------ finding out


@asynccontextmanager
async def open_sandbox(settings: SandboxSettings) -> AsyncIterator[Sandbox]:
    """Yield the strongest sandbox that works here, and end what belongs to it.

    Raises:
        SandboxUnavailable: one is required, and none works.
    """
    if settings.on_disk:
        await trio.to_thread.run_sync(remove_abandoned, settings.on_disk)
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
    scan = await trio.to_thread.run_sync(scan_for, settings.policy, confinement)
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


async def _prepare_bubblewrap(sandbox: Sandbox) -> str | None:
    """Return why it does not work, None where it does."""
    if os.uname().machine not in MACHINES:
        return f"the system calls of {os.uname().machine} are not known here"
    # Looked for where the system keeps its programs: one in the workspace would be the fox guarding hens.
    sandbox._program = shutil.which("bwrap", path=SEARCH_PATH) or ""
    if not sandbox._program:
        return "it is not installed"
    # Before 0.7 it has no such option, and cannot bound a file system in memory; its reaper counts.
    sandbox._has_sizes = b"--size" in await trio.Path(sandbox._program).read_bytes()
    return None if sandbox._settings.works else await _problem(sandbox)


async def _prepare_landlock(sandbox: Sandbox) -> str | None:
    if not landlock_version():
        return "the kernel does not offer it"
    if os.uname().machine not in MACHINES:
        return f"the system calls of {os.uname().machine} are not known here"
    sandbox._scratch = await trio.to_thread.run_sync(made_scratch, sandbox.confinement)
    return await _problem(sandbox)


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
    problem = finished.stderr.strip() or "the smallest of programs fails in it"
    return None if finished.exit_code == 0 else problem


_PREPARE = {SandboxLevel.BUBBLEWRAP: _prepare_bubblewrap, SandboxLevel.LANDLOCK: _prepare_landlock}
_LADDER = {
    "auto": (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK),
    "bubblewrap": (SandboxLevel.BUBBLEWRAP,),
    "landlock": (SandboxLevel.LANDLOCK,),
    "none": (),
}
