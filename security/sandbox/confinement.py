"""Derive a program's confinement from the policy, as bubblewrap arguments or Landlock grants.

Pure: the input is the policy and what was found on the disk, never a call, so no argument of a model
can loosen the confinement. `tools/` reads the disk, starts the program, and compares the tree
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, StrEnum, auto

from ..lazy import dataclass
from ..paths import is_inside, writable
from ..policy import Policy

__all__ = [
    "SYSTEM_FOLDERS",
    "Confinement",
    "Masks",
    "PathGrant",
    "PathRight",
    "SandboxLevel",
    "Spot",
    "bubblewrap_arguments",
    "confinement_of",
    "folders_in_between",
    "landlock_grants",
    "read_only_confinement",
    "trial_confinement",
]


class SandboxLevel(StrEnum):
    """What keeps a program in, from the strongest to nothing."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


SYSTEM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store",
    "/gnu/store", "/sys/devices/system",
)  # fmt: skip
"""What every program may read: the system itself, without what runs, logs or is shared."""

_SCRATCH = ("/tmp", "/run", "/var/tmp")  # noqa: S108 — empty ones are put there
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 — the same
_ABOUT_THE_MACHINE = tuple(
    f"/proc/{name}"
    for name in (
        "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version", "vmstat",
    )
)  # fmt: skip
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
_MOST_MASKS = 2_000


@dataclass(frozen=True, slots=True)
class Spot:
    """Something that exists: an absolute, resolved path, and whether it is a folder."""

    path: str
    is_folder: bool


@dataclass(frozen=True, slots=True)
class Masks:
    """What lies in the open and must not be reached: `hidden` not read, `unwritable` not changed.

    `replaceable` are those of the latter that can be put back afterwards, and need no more where a
    sandbox cannot make an exception below a folder. `anchored` are those that stay where they are, along
    with the unwritable ones: no folder above them is moved.
    """

    hidden: tuple[Spot, ...] = ()
    unwritable: tuple[Spot, ...] = ()
    replaceable: frozenset[str] = frozenset()
    anchored: frozenset[str] = frozenset()

    @property
    def held(self) -> frozenset[str]:
        """What a program cannot move, however long it runs."""
        return self.anchored.union(spot.path for spot in self.unwritable)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What programs are kept to, whatever they are. All paths are absolute and resolved.

    `readable` may be missing on the disk. `resolver` is the file that says who answers for host names,
    where it is not among the system's folders. `kept` may be read only, though it lies in what may be
    changed: an interpreter or a toolchain below the workspace.
    """

    workspace: str
    home: str
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    kept: tuple[str, ...] = ()
    network: bool = False
    resolver: str | None = None

    @property
    def changes_workspace_only(self) -> bool:
        """Whether the workspace is all that can be changed."""
        return self.writable == (self.workspace,)


def confinement_of(policy: Policy, prefixes: Iterable[str] = (), resolver: str | None = None) -> Confinement:
    """Return what programs are kept to.

    Args:
        policy: what the person allows.
        prefixes: where toolchains, the interpreter of this process and what it runs lie, for commands to run.
        resolver: what `/etc/resolv.conf` leads to.
    """
    sandbox = policy.sandbox
    changed = writable(policy)
    readable = (*SYSTEM_FOLDERS, *prefixes, *sandbox.extra_read)
    named = tuple(path for path in dict.fromkeys(readable) if path != "/" and path not in changed)
    is_elsewhere = resolver is not None and sandbox.network and not is_inside(resolver, *SYSTEM_FOLDERS)
    return Confinement(
        policy.workspace,
        policy.home,
        readable=tuple(path for path in named if not is_inside(path, *changed)),
        writable=changed,
        kept=tuple(path for path in named if is_inside(path, *changed)),
        network=sandbox.network,
        resolver=resolver if is_elsewhere else None,
    )


def trial_confinement(confinement: Confinement) -> Confinement:
    """Return what a program on trial is kept to: it changes the workspace alone, and has no network.

    Further folders that may be changed are absent. Read-only they would still hold FIFOs and sockets, by
    which a program reaches what listens outside.
    """
    workspace = confinement.workspace
    kept = tuple(path for path in confinement.kept if is_inside(path, workspace))
    return replace(
        confinement,
        readable=(*confinement.readable, *(path for path in confinement.kept if path not in kept)),
        writable=(workspace,),
        kept=kept,
        network=False,
        resolver=None,
    )


def read_only_confinement(confinement: Confinement) -> Confinement:
    """Return what a program is kept to that only reads: what one on trial is, the workspace included."""
    tried = trial_confinement(confinement)
    return replace(tried, readable=(*tried.readable, tried.workspace), writable=(), kept=())


# ------------------------------------------------------------------ bubblewrap


def bubblewrap_arguments(
    confinement: Confinement, masks: Masks, cwd: str, memory: int = 0
) -> tuple[str, ...]:
    """Return bubblewrap's arguments up to the program it is to run.

    Args:
        confinement: what programs are kept to.
        masks: what is closed.
        cwd: the folder it starts in.
        memory: how many bytes each folder in memory may hold; 0 for as much as the system has it.

    Raises:
        ValueError: there is more to mask than bubblewrap takes.
    """
    if len(masks.hidden) + len(masks.unwritable) > _MOST_MASKS:
        raise ValueError(f"more than {_MOST_MASKS} protected or secret files lie in the folders it may use")
    # A deeper path is mounted later, so that it holds against what is mounted above it.
    mounts = sorted(_mounts(confinement, masks, memory), key=lambda mount: mount[0].rstrip("/").count("/"))
    mounted = [word for _, words in mounts for word in words]
    network = ("--share-net",) if confinement.network else ()
    return (
        *("--unshare-all", *network, "--die-with-parent", "--cap-drop", "ALL"),
        *(() if "/" in confinement.writable else ("--symlink", "/run", "/var/run")),
        *mounted,
        *(() if "/" in confinement.writable else ("--remount-ro", "/")),
        *("--chdir", cwd),
    )


def _mounts(confinement: Confinement, masks: Masks, memory: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what is mounted where; of two on one path the later one holds."""
    yield "/proc", ("--proc", "/proc")
    # The kernel lets a process that is root anywhere set these, and bubblewrap takes them for closed already.
    yield "/proc/sys", ("--ro-bind-try", "/proc/sys", "/proc/sys")
    yield "/dev", ("--dev", "/dev")
    size = ("--size", str(memory)) if memory else ()
    for path in (_SHARED_MEMORY, *_SCRATCH, *_empty_home(confinement)):
        yield path, (*size, "--tmpfs", path)
    # What holds the devices has no size; nothing but them belongs there.
    if "/dev" not in confinement.writable:
        yield _SHARED_MEMORY, ("--remount-ro", "/dev")
    for path in confinement.readable:
        yield path, ("--ro-bind-try", path, path)
    if confinement.resolver is not None:
        yield confinement.resolver, ("--ro-bind-try", confinement.resolver, confinement.resolver)
    for path in confinement.writable:
        yield path, ("--bind", path, path)
    # A folder could be moved away, and another one with other contents be put in its place; a mount cannot.
    for path in _pinned(confinement, masks):
        yield path, ("--bind", path, path)
    for spot in masks.unwritable:
        yield spot.path, ("--ro-bind", spot.path, spot.path)
    for spot in masks.hidden:
        yield spot.path, _blinded(spot)


def _empty_home(confinement: Confinement) -> tuple[str, ...]:
    """Return the home, unless the workspace holds it or it is a folder of the system, as a daemon's is."""
    home = confinement.home
    is_kept = is_inside(home, confinement.workspace, *confinement.writable, *SYSTEM_FOLDERS) or home == "/"
    return () if is_kept else (home,)


def _pinned(confinement: Confinement, masks: Masks) -> tuple[str, ...]:
    """Return the folders on the way from what may be changed down to what must stay as it is."""
    between = folders_in_between(confinement.writable, masks.held)
    return tuple(sorted(between - set(confinement.writable)))


def _blinded(spot: Spot) -> tuple[str, ...]:
    if spot.is_folder:
        return ("--perms", "0000", "--tmpfs", spot.path, "--remount-ro", spot.path)
    # A device on a mount without devices can be opened by nobody.
    return ("--ro-bind", "/dev/null", spot.path)


# ------------------------------------------------------------------ Landlock


class PathRight(Enum):
    """What a grant allows below a path. `READ` includes running it, `WRITE` includes `READ`."""

    LIST = auto()
    READ = auto()
    WRITE = auto()
    DEVICE = auto()


@dataclass(frozen=True, slots=True)
class PathGrant:
    """A right on a path and all that lies below it. Landlock knows no exception from one."""

    path: str
    right: PathRight


def folders_in_between(roots: Iterable[str], paths: Iterable[str]) -> set[str]:
    """Return every folder from a root down to the one that holds a path; the root included."""
    found = set()
    tops = tuple(roots)
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder not in found and is_inside(folder, *tops):
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def landlock_grants(
    confinement: Confinement,
    masks: Masks,
    scratch: str,
    entries: Mapping[str, Sequence[str]],
    *,
    sees_processes: bool = True,
) -> tuple[PathGrant, ...]:
    """Return what is granted, around what must stay closed.

    A folder that holds something closed cannot be granted as a whole, so it is listed and each of its
    entries granted: what is made in it afterwards is not covered.

    Args:
        confinement: what programs are kept to.
        masks: what is closed; what can be put back stays open for writing.
        scratch: the folder for temporary files.
        entries: the names in every folder that `folders_in_between` finds on the way to what is closed.
        sees_processes: whether it reads in `/proc` of processes: those of others show their arguments, and
            its own look the same.
    """
    hidden = frozenset(spot.path for spot in masks.hidden)
    fixed = frozenset(spot.path for spot in masks.unwritable) - masks.replaceable
    grants = [PathGrant(path, PathRight.DEVICE) for path in _DEVICES]
    readable = ("/proc",) if sees_processes else _ABOUT_THE_MACHINE
    grants += [*(PathGrant(path, PathRight.READ) for path in readable), PathGrant(scratch, PathRight.WRITE)]
    grants += _around(confinement.readable, hidden, PathRight.READ, entries)
    if confinement.resolver is not None:
        grants.append(PathGrant(confinement.resolver, PathRight.READ))
    grants += _around(confinement.writable, hidden | fixed, PathRight.WRITE, entries)
    for path in sorted(fixed - hidden):
        grants += _around((path,), hidden, PathRight.READ, entries)
    return tuple(grants)


def _around(
    roots: Iterable[str], closed: frozenset[str], right: PathRight, entries: Mapping[str, Sequence[str]]
) -> Iterator[PathGrant]:
    """Yield grants for roots and all below them but what is closed."""
    tops, shut = tuple(roots), tuple(sorted(closed))
    on_the_way = folders_in_between(tops, shut)
    waiting = list(tops)
    while waiting:
        path = waiting.pop()
        if is_inside(path, *shut):
            continue
        if path in on_the_way:
            yield PathGrant(path, PathRight.LIST)
            waiting += (f"{path.rstrip('/')}/{name}" for name in entries.get(path, ()))
        else:
            yield PathGrant(path, right)
