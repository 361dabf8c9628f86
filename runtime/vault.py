"""Read the values of scoped secrets and lend them: to the executors that name them, and to programs.

A value is handed on in two ways alone. `Vault.lend` returns what one program gets in its environment, where
`security/permissions/lending.py` has decided that it is lent it; git gets its through askpass. `Vault.client`
returns a client for one executor's own tools. No other program, and no other executor, is given any.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from leeward.security.lazy import dataclass
from leeward.tools.composite import Registered
from leeward.tools.http.lent import SecretClient, SecretValue
from leeward.tools.shell import Lent

from .config import Config, SecretSection
from .exits import CliError, Exit

__all__ = ["Vault", "hand_out", "open_vault", "read_private"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CODE = re.compile(r" with code [0-9a-f]{16}\Z")
_LARGEST = 65_536


@dataclass(frozen=True, slots=True)
class Vault:
    """The values of a session's secrets; `notices` are shown to the person at the start.

    `values` are all that must never be shown, `lendable` those of `[secrets.NAME]` by their names.
    """

    lendable: Mapping[str, SecretValue] = field(repr=False)
    values: frozenset[str] = field(repr=False)
    askpass: str
    notices: tuple[str, ...] = ()

    def lend(self, lends: Iterable[str]) -> Lent:
        """Return what the program of a command line gets that is lent secrets (`NAME to PROGRAM`).

        Raises:
            KeyError: there is no value of that name.
        """
        env: dict[str, str] = {}
        shows = True
        for one in lends:
            name, _, rest = one.partition(" to ")
            rule = _CODE.sub("", rest)
            secret = self.lendable[name]
            shows &= secret.shows_output
            if shlex.split(rule)[0].rpartition("/")[2] == "git":
                env |= {
                    "GIT_ASKPASS": self.askpass,
                    "LEEWARD_GIT_USER": secret.user,
                    "LEEWARD_GIT_SECRET": secret.value,
                    "LEEWARD_GIT_HOSTS": " ".join(secret.hosts),
                }
            else:
                env[name] = secret.value
        return Lent(env, shows)


def open_vault(
    config: Config, executors: Iterable[Registered], askpass: str, environ: Mapping[str, str] = os.environ
) -> Vault:
    """Read every secret that is configured, or that an executor says it needs.

    Raises:
        CliError: a file cannot be used, or an executor needs what is nowhere.
    """
    lendable: dict[str, SecretValue] = {}
    notices: list[str] = []
    for name, section in config.secrets.items():
        value = _value(name, section, environ)
        if value:
            lendable[name] = SecretValue(name, value, section.hosts, section.user, section.show_output)
        else:
            notices.append(f"the secret {name} is lent to nobody: {section.env} is not set")
    values = {secret.value for secret in lendable.values()}
    for source, name in _needed(executors):
        if name in lendable:
            continue
        if not environ.get(name):
            raise _unusable(source, f"it needs {name} in the environment, which is not set")
        values.add(environ[name])
        notices.append(
            f"{source} needs {name}, which programs are no longer given; to lend it: "
            f'[secrets.{name}] env = "{name}", hosts = ["HOST"], and programs = ["PROGRAM"] for programs'
        )
    return Vault(lendable, frozenset(values), askpass, tuple(notices))


def hand_out(vault: Vault, executors: Iterable[Registered], client: Callable[..., SecretClient]) -> None:
    """Give every executor that takes it a client with the secrets it names, and no others."""
    for one in executors:
        names = tuple(getattr(one.executor, "requires_secrets", ()))
        if names and callable(take := getattr(one.executor, "lend", None)):
            take(client({name: vault.lendable[name] for name in names if name in vault.lendable}))


def _needed(executors: Iterable[Registered]) -> Iterator[tuple[str, str]]:
    for one in executors:
        for name in getattr(one.executor, "requires_secrets", ()):
            if not isinstance(name, str) or _VARIABLE.fullmatch(name) is None:
                raise _unusable(str(one.source), f"requires_secrets names no variable: {name!r}")
            yield str(one.source), name


def _value(name: str, section: SecretSection, environ: Mapping[str, str]) -> str:
    if section.env:
        return environ.get(section.env, "").strip()
    return read_private(Path(section.file).expanduser(), f"the secret {name}")


def read_private(path: Path, what: str) -> str:
    """Return the text of a file that nobody but its owner may read.

    Raises:
        CliError: it cannot be read, is open to others, or is empty.
    """
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                why = f"{path} may be read by others; run: chmod 600 {path}"
                raise CliError(Exit.AUTH_REQUIRED, "KEY_FILE", why)
            text = file.read(_LARGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(Exit.AUTH_REQUIRED, "KEY_FILE", f"{what}: {path} cannot be read: {error}") from error
    if not text:
        raise CliError(Exit.AUTH_REQUIRED, "KEY_FILE", f"{what}: {path} is empty")
    return text


def _unusable(what: str, why: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "CONFIG_ERROR", f"{what} cannot be used: {why}")
