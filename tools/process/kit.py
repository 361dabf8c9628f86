"""Give programs a PATH of the person's programs, and their git identity.

Both rest on a folder of the session, outside of what programs may change, which is removed with it. In it are
the settings for git, and small scripts `python` and `pip` that run those of an environment in the workspace:
that environment's own folder is last in PATH, so nothing else in it replaces a program of the system.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from leeward.security.lazy import dataclass
from leeward.security.paths import is_inside

from .programs import Programs

__all__ = ["Kit", "open_kit"]

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 — a folder of our own is made there


@dataclass(frozen=True, slots=True)
class Kit:
    """What programs of a session are given; `folder` must be readable to them."""

    programs: Programs
    folder: str
    settings: str

    @property
    def readable(self) -> tuple[str, ...]:
        """What programs must be able to read."""
        return (self.folder, *self.programs.readable)

    def variables(self, *, confined: bool) -> dict[str, str]:
        """Return variables for programs; those that are not confined find git's settings in the home."""
        settings = {"GIT_CONFIG_SYSTEM": self.settings} if confined else {}
        path = f"{self._scripts}:{self.programs.path}"
        return {**self.programs.variables, **settings, "PATH": path}

    def refresh(self) -> None:
        """Have the scripts run what is in the workspace now; this waits for the disk."""
        wanted = {name: _script(path) for name, path in self.programs.of_workspace().items()}
        for name in {entry.name for entry in Path(self._scripts).iterdir()} - wanted.keys():
            if not name.startswith("."):
                Path(self._scripts, name).unlink(missing_ok=True)
        for name, text in wanted.items():
            _put(Path(self._scripts, name), text)

    @property
    def askpass(self) -> str:
        """The program that gives git a secret it is lent, for the hosts of that secret."""
        return f"{self.folder}/askpass"

    @property
    def _scripts(self) -> str:
        return f"{self.folder}/bin"


@contextmanager
def open_kit(programs: Programs, settings: Mapping[str, str], writable: Iterable[str] = ()) -> Iterator[Kit]:
    """Yield what programs are given.

    Args:
        programs: where these lie.
        settings: files for git by their names; the first includes the others.
        writable: folders that a model may change, where nothing of this may lie.
    """
    folder = os.path.realpath(tempfile.mkdtemp(prefix="leeward-", dir=_outside(writable)))
    try:
        Path(folder, "bin").mkdir()
        for name, text in settings.items():
            Path(folder, name).write_text(text, "utf-8", "surrogateescape")
        _put(Path(folder, "askpass"), _ASKPASS)
        kit = Kit(programs, folder, f"{folder}/{next(iter(settings))}")
        kit.refresh()
        yield kit
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Git asks for "Username for 'https://HOST': " and "Password for 'https://USER@HOST': ".
_ASKPASS = """#!/bin/sh
case $1 in
"Username for 'https://"*) answer=$LEEWARD_GIT_USER ;;
"Password for 'https://"*) answer=$LEEWARD_GIT_SECRET ;;
*) exit 1 ;;
esac
host=${1#*://}
host=${host%%[\\'/]*}
host=${host##*@}
set -f
for rule in $LEEWARD_GIT_HOSTS; do
    case $host in
    $rule) printf '%s\\n' "$answer" && exit 0 ;;
    esac
done
exit 1
"""


def _outside(writable: Iterable[str]) -> str | None:
    """Return a folder for temporary files that no model may change, None where there is but the usual one."""
    folders = tuple(writable)
    usual = (tempfile.gettempdir(), *_TEMPORARY, os.environ.get("XDG_RUNTIME_DIR", ""))
    return next((path for path in usual if _is_outside(path, folders)), None)


def _is_outside(path: str, folders: tuple[str, ...]) -> bool:
    is_usable = path.startswith("/") and Path(path).is_dir() and os.access(path, os.W_OK)
    return is_usable and not is_inside(os.path.realpath(path), *folders)


def _script(path: str) -> str:
    # Started by its own path, Python finds the environment that it lies in; by a link it would not.
    return f'#!/bin/sh\nexec {shlex.quote(path)} "$@"\n'


def _put(file: Path, text: str) -> None:
    with suppress(OSError):
        if file.read_text("utf-8", "surrogateescape") == text:
            return
    # Complete at once: another command may be starting it. Its name is none that is looked for.
    made = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
    made.write_text(text, "utf-8", "surrogateescape")
    made.chmod(0o755)
    made.replace(file)
