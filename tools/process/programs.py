"""Find the person's programs: the PATH for commands, and the folders they need to read.

The order is the person's. No folder that a model may write to comes before one of the system: of the
workspace, the folders of its own Python environments alone are in PATH, last, and only `python` and `pip` are
taken from there first. The same lookup serves judging (`tools/survey.py`) and running, so what was judged is
what runs. Nothing is started, and of a link in the workspace nothing is made readable.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from leeward.security.lazy import dataclass, regex
from leeward.security.paths import is_inside, runs_later_reason, secret_reason, writable
from leeward.security.policy import Policy
from leeward.security.sandbox import SYSTEM_FOLDERS, TOOLCHAIN_VARIABLES, toolchains

__all__ = ["SEARCH_PATH", "Programs", "find_programs", "sound_toolchains", "system_programs"]


SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for by default."""

# Of the workspace these come first, whatever the person's PATH says; pipx, pip-audit and the like do not.
_OF_WORKSPACE = regex(r"(?:python|pip)(?:[23](?:\.[0-9]{1,2}t?)?)?")
_ENVIRONMENTS = (".venv", "venv")
_SETTINGS = "pyvenv.cfg"
_NOT_LOOKED_IN = "it is not an absolute path"
_BIN = frozenset({"bin", "sbin", "condabin", "shims"})
_LIBRARIES = frozenset({"lib", "lib32", "lib64", "libexec"})
_OF_KERNEL = ("/proc", "/sys", "/dev")
# What of a folder around a `bin` its programs need, and what more of one with Go, Homebrew, Java or Maven.
_PARTS = ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", _SETTINGS)
_MORE_PARTS = {
    "pkg/tool": ("pkg", "src", "VERSION", "go.env"),
    "Cellar": ("Cellar", "opt"),
    "lib/modules": ("conf", "jmods", "legal", "release"),
    "jre": ("jre", "release"),
    "boot": ("boot", "conf"),
}
_LOCAL = ".local"
_OF_HOMES = ("/home", "/Users")
_MOST_ENTRIES, _MOST_LINKS, _MOST_HOPS = 64, 2_000, 40
# Each is mounted for every command.
_MOST_SINGLE, _MOST_READABLE = 100, 250


@dataclass(frozen=True, slots=True)
class Programs:
    """Where programs are looked for, in this order, and what must be readable for them to run.

    `own` are folders of Python environments in the workspace, whether or not they exist. `readable` are
    absolute paths of folders and files, `variables` those of the person's that say where a toolchain lies;
    `left_out` are the entries of the person's PATH that are not looked in, each with the reason.
    """

    entries: tuple[str, ...] = tuple(SEARCH_PATH.split(":"))
    own: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def path(self) -> str:
        """The PATH, without what comes first of the workspace."""
        return ":".join((*self.entries, *self.own))

    def find(self, name: str) -> str | None:
        """Return where the program of this name lies; links are not followed."""
        return self.of_workspace().get(name) or _first(name, (*self.entries, *self.own))

    def of_workspace(self) -> dict[str, str]:
        """Return `python`, `pip` and their like of the workspace's first environment that has a Python."""
        for folder in self.own:
            if not _is_file(f"{posixpath.dirname(folder)}/{_SETTINGS}"):
                continue
            found = {
                name: f"{folder}/{name}"
                for name in _names(folder)
                if _OF_WORKSPACE.fullmatch(name) and _is_program(f"{folder}/{name}")
            }
            if "python" in found or "python3" in found:
                return found
        return {}


def system_programs(search_path: str = SEARCH_PATH) -> Programs:
    """Return what is found along a PATH alone."""
    return Programs(tuple(filter(None, search_path.split(":"))))


def sound_toolchains(policy: Policy) -> tuple[str, ...]:
    """Return the folders of toolchains in the home that can be read; this waits for the disk.

    One that leads to what is no toolchain's is left out: the home, what is secret, what may be written.
    """
    return _Finder({}, policy).at_home


def find_programs(parent: Mapping[str, str], policy: Policy) -> Programs:
    """Return where a person's programs lie, by their environment; this waits for the disk."""
    return _Finder(parent, policy).found()


class _Finder:
    """Looks through one environment; not slotted, for some of it is worked out once."""

    def __init__(self, parent: Mapping[str, str], policy: Policy) -> None:
        self.parent = parent
        self.policy = policy
        self.writable = writable(policy)
        self.at_home = tuple(path for path in _there(toolchains(policy.home)) if self._is_sound(path))

    def found(self) -> Programs:
        named = [entry for entry in self.parent.get("PATH", "").split(":") if entry.startswith("/")]
        early: list[str] = []
        late: list[str] = []
        left_out: list[tuple[str, str]] = []
        readable: list[str] = []
        for entry in dict.fromkeys(map(posixpath.normpath, named[:_MOST_ENTRIES])):
            real = _real(entry)
            why_not = self._refusal(real)
            if not _is_folder(real) or why_not or not entry.isprintable():
                left_out.append((entry, why_not or "there is no such folder"))
                continue
            if not self._is_writable(entry):
                early.append(entry if is_inside(entry, *SYSTEM_FOLDERS) and _is_of_system(real) else real)
                readable += () if _is_of_system(real) else self._needed(entry, real)
            elif is_inside(real, *self.at_home):
                # It is mounted read-only, but other tools may be allowed to write there.
                late.append(real)
            else:
                left_out.append((entry, "commands can write to it, or to a link on its path"))
        left_out += (
            (entry, _NOT_LOOKED_IN) for entry in self.parent.get("PATH", "").split(":") if entry[:1] != "/"
        )
        entries = tuple(dict.fromkeys((*early, *SEARCH_PATH.split(":"), *late)))
        variables = dict(self._variables())
        readable += (part for name, base in variables.items() for part in self._named_by(name, base))
        own = self._own()
        shadowed = ((entry, why) for entry, why in dict(left_out).items() if entry not in own)
        return Programs(entries, own, self._outermost(readable), tuple(shadowed), variables)

    def _outermost(self, readable: Iterable[str]) -> tuple[str, ...]:
        """Leave out what is part of something else: no mount can be made behind a link there."""
        known = dict.fromkeys(readable)
        open_already = (*self.at_home, *SYSTEM_FOLDERS)
        outermost = (
            path
            for path in known
            if not is_inside(path, *open_already) and not known.keys() & {*_folders_above(path)}
        )
        return tuple(islice(outermost, _MOST_READABLE))

    def _own(self) -> tuple[str, ...]:
        """Return where environments of the workspace have their programs: the active one, then usual ones.

        A name must be one that counts as a place from which programs run later, or nobody would be asked.
        """
        named = [
            self.parent.get("VIRTUAL_ENV", ""),
            *map(posixpath.dirname, self.parent.get("PATH", "").split(":")),
        ]
        inside = [posixpath.normpath(path) for path in named if path.startswith("/")]
        active = [path for path in inside if is_inside(path, self.policy.workspace)]
        usual = [posixpath.join(self.policy.workspace, name) for name in _ENVIRONMENTS]
        folders = (f"{path}/bin" for path in dict.fromkeys((*active, *usual)) if ":" not in path)
        return tuple(
            folder
            for folder in folders
            if runs_later_reason(folder) is not None
            and (_is_file(f"{posixpath.dirname(folder)}/{_SETTINGS}") or posixpath.dirname(folder) in usual)
        )

    def _is_sound(self, path: str) -> bool:
        """Whether a folder holds toolchains; one that may be written is named to be kept as it is."""
        return is_inside(path, *self.writable) or not (
            self._is_writable(path) or self._is_refused(_real(path))
        )

    def _is_writable(self, path: str) -> bool:
        """Whether a path, or a link on its way, lies where it may be turned to something else."""
        return any(is_inside(place, *self.writable) for place in _stations(path))

    def _is_refused(self, real: str) -> bool:
        """Whether a folder is too much to open, is no place for programs, or is everybody's to write."""
        return self._refusal(real) != ""

    def _refusal(self, real: str) -> str:
        """Say why no program of a folder is to be had, "" where all are."""
        if is_inside(self.policy.home, real) or is_inside(self.policy.workspace, real):
            return "it contains the home or the workspace"
        if ":" in real or not real.isprintable() or is_inside(real, *_OF_KERNEL):
            return "it is not a folder for programs"
        if self._is_secret(real):
            return "it is, or lies in, what is secret"
        return "everyone can write to it" if _is_open_to_all(real) else ""

    def _is_secret(self, real: str) -> bool:
        """Whether a path or a folder above it is secret."""
        return any(secret_reason(path, self.policy) is not None for path in (real, *_folders_above(real)))

    def _around(self, *folders: str) -> Iterator[str]:
        """Yield folders of programs, and what these need that lies around them.

        Of a folder that is called otherwise it is only the programs and the libraries: it may hold more.
        """
        for folder in folders:
            if posixpath.basename(folder) not in _BIN:
                inside = (f"{folder}/{name}" for name in islice(_names(folder), _MOST_LINKS))
                wanted = (
                    path for path in inside if _is_program(path) or posixpath.basename(path) in _LIBRARIES
                )
                yield from islice((path for path in wanted if _real(path) == path), _MOST_SINGLE)
                continue
            yield folder
            prefix = posixpath.dirname(folder)
            if _is_home(_real(prefix)) or self._is_refused(_real(prefix)) or _is_of_system(_real(prefix)):
                continue
            more = (parts for sign, parts in _MORE_PARTS.items() if os.path.lexists(f"{prefix}/{sign}"))
            for part in (*_PARTS, *(part for parts in more for part in parts)):
                path = f"{prefix}/{part}"
                if os.path.lexists(path) and is_inside(_real(path), _real(prefix)):
                    yield path

    def _needed(self, entry: str, real: str) -> tuple[str, ...]:
        around = tuple(self._around(entry, real))
        behind = dict.fromkeys(self._links(real, around))
        return (*around, *islice(behind, _MOST_SINGLE))

    def _links(self, folder: str, around: tuple[str, ...]) -> Iterator[str]:
        """Yield what links among programs lead to: a folder of programs with what is around, or one file."""
        for name in islice(_names(folder), _MOST_LINKS):
            for target in _hops(f"{folder}/{name}"):
                real = _real(target)
                places = (posixpath.dirname(target), posixpath.dirname(real))
                is_known = is_inside(real, *self.at_home, *SYSTEM_FOLDERS, *around)
                if is_known or self._is_secret(real) or not real.isprintable() or self._is_writable(target):
                    continue
                if not _is_file(real) or _is_open_to_all(places[1]):
                    continue
                if posixpath.basename(places[1]) in _BIN and not self._is_refused(places[1]):
                    yield from self._around(*places)
                else:
                    yield real

    def _variables(self) -> Iterator[tuple[str, str]]:
        for name in (*TOOLCHAIN_VARIABLES, "VIRTUAL_ENV"):
            base = posixpath.normpath(self.parent.get(name) or ".")
            real = _real(base)
            is_own = name == "VIRTUAL_ENV" and f"{base}/bin" in self._own()
            is_plain = base.startswith("/") and base.isprintable()
            is_sound = is_plain and _is_folder(real) and not self._is_refused(real)
            if is_sound and (is_own or not self._is_writable(base)):
                yield name, base

    def _named_by(self, variable: str, base: str) -> Iterator[str]:
        for part in TOOLCHAIN_VARIABLES.get(variable, ()):
            path = posixpath.normpath(f"{base}/{part}")
            real = _real(path)
            is_there = os.path.lexists(path) and not self._is_writable(real)
            if is_there and not _is_of_system(real) and not self._is_refused(real):
                yield path


def _real(path: str) -> str:
    """Return a path with its links followed; a folder that may not be used is not mentioned later."""
    with suppress(OSError, ValueError):
        return os.path.realpath(path)
    return path


def _first(name: str, folders: Iterable[str]) -> str | None:
    return next((path for path in (f"{folder}/{name}" for folder in folders) if _is_program(path)), None)


def _is_program(path: str) -> bool:
    return _is_file(path) and os.access(path, os.X_OK)


def _is_file(path: str) -> bool:
    with suppress(OSError, ValueError):  # no disk holds a name this long, and none with NUL in it
        return Path(path).is_file()
    return False


def _is_folder(path: str) -> bool:
    with suppress(OSError, ValueError):
        return Path(path).is_dir()
    return False


def _folders_above(path: str) -> Iterator[str]:
    while (path := posixpath.dirname(path)) != "/":
        yield path


def _is_of_system(real: str) -> bool:
    return is_inside(real, *SYSTEM_FOLDERS)


def _is_open_to_all(real: str) -> bool:
    """Whether anybody may put something in the place of a folder or into it, the sticky bit considered."""
    above, mine = "", {0, os.geteuid()}
    parts = real.strip("/").split("/")
    for number, part in enumerate(parts, 1):
        above = f"{above}/{part}"
        try:
            found = Path(above).stat()
            below = Path(above, parts[number]).stat() if number < len(parts) else None
        except OSError:
            return True
        is_kept = below is not None and found.st_mode & stat.S_ISVTX and below.st_uid in mine
        if found.st_mode & stat.S_IWOTH and not is_kept:
            return True
    return False


def _there(patterns: Iterable[str]) -> Iterator[str]:
    """Yield what is there by patterns, each of which has a `*` in one name at most."""
    for pattern in patterns:
        above, star, _ = pattern.partition("*")
        folder = posixpath.dirname(above)
        name, _, rest = pattern[len(folder) + 1 :].partition("/")
        matching = (one for one in _names(folder) if fnmatch.fnmatchcase(one, name)) if star else ()
        paths = [posixpath.join(folder, one, rest).rstrip("/") for one in matching] if star else [pattern]
        yield from (path for path in paths if _is_folder(path) or _is_file(path))


def _is_home(real: str) -> bool:
    """Whether a folder is somebody's home, or what is like one in it: much besides toolchains is in both."""
    return posixpath.basename(real) == _LOCAL or posixpath.dirname(real) in _OF_HOMES


def _stations(path: str) -> Iterator[str]:
    """Yield every place that is passed on the way to what a path leads to, links included."""
    waiting, at, hops = path.split("/")[::-1], "", 0
    while waiting:
        part = waiting.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            at = posixpath.dirname(at).rstrip("/")
            continue
        here = f"{at}/{part}"
        yield here
        try:
            target = os.readlink(here) if hops < _MOST_HOPS else ""  # noqa: PTH115 — texts, as they are judged
        except (OSError, ValueError):
            at = here
            continue
        hops += 1
        at = "" if target.startswith("/") else at
        waiting += target.split("/")[::-1]


def _hops(path: str) -> Iterator[str]:
    """Yield what a link leads to, one link after the other."""
    for _ in range(_MOST_HOPS):
        try:
            target = os.readlink(path)  # noqa: PTH115 — texts, as they are judged
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        except OSError:
            return
        yield path


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 — names alone
    except OSError:
        return []
