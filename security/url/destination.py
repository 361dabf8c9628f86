"""Parse destinations that are not URLs: mail addresses, hosts and repositories.

`destinations_in` reads an argument declared as a `Destination`, strictly: a spelling that two mail
programs or git could read differently is not accepted. `destinations_given` finds the addresses and
repositories named in a person's words. Whether something may be sent to one depends on the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from ..lazy import dataclass, regex
from .extract import without_urls
from .parse import Url, parse_url

__all__ = ["Destination", "DestinationKind", "destinations_given", "destinations_in", "parse_destination"]


class DestinationKind(StrEnum):
    """What kind of place a destination is."""

    MAIL = "mail address"
    HOST = "host"
    REPOSITORY = "repository"


@dataclass(frozen=True, slots=True)
class Destination:
    """One place that something is sent to, in canonical form.

    `host` is as in a `Url`. `user` is the part before the @, "" where there is none; `port` is None
    where the usual one is meant; `segments` are those of a repository's path, without a last `.git`.
    """

    kind: DestinationKind
    host: str
    user: str = ""
    port: int | None = None
    segments: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The canonical form: what is shown, recorded and matched with rules."""
        before = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port is not None else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.kind is DestinationKind.REPOSITORY:
            return f"ssh://{before}{host}{port}/{'/'.join(self.segments)}"
        return f"{before}{host}{port}"

    def __str__(self) -> str:
        return self.text


_SSH_PORT = 22
# No address is this long, nor the path of a repository.
_LONGEST = 2048
_USER = r"[A-Za-z0-9](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?"
_NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+(?:[A-Za-z]{2,63}|xn--[A-Za-z0-9-]{2,59})"
_PATH = r"/?[A-Za-z0-9_~.-]+(?:/[A-Za-z0-9_~.-]+)*/?"

_MAIL = regex(rf"(?:mailto:)?(?P<user>{_USER})@(?P<host>{_NAME})")
_WITH_NAME = regex(r"[^<>@,;:\"\\]*<(?P<address>[^<>]*)>")
# A name with a dot inside, found without going back: the first dot behind the first character tells.
_HOST = regex(
    r"(?P<host>(?=[^\s@/?#:][^\s@/?#:.]*+\.[^\s@/?#:])[^\s@/?#:]++|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
)
_SCP = regex(rf"(?:(?P<user>{_USER})@)?(?P<host>{_NAME}):(?P<path>(?!\d+(?:/|$)){_PATH})")
_SSH = regex(
    rf"(?:git\+)?ssh://(?:(?P<user>{_USER})@)?(?P<host>{_NAME})(?::(?P<port>\d{{1,5}}))?(?P<path>/{_PATH})"
)

_SPOKEN = regex(
    rf"(?<![A-Za-z0-9._+@/:-])(?:{_SSH.pattern.replace('?P<', '?P<ssh_')}"
    rf"|{_USER}@{_NAME}:(?!\d+(?:/|\b)){_PATH}|(?:mailto:)?{_USER}@{_NAME})(?![A-Za-z0-9@_-])"
)


def destinations_in(text: str) -> tuple[tuple[str, Destination | None], ...]:
    """Return each place an argument names, as it is written and as it was read; a list's one by one."""
    parts = [part.strip(" \t") for part in re.split(r"[,;]", text)] if re.search(r"[,;]", text) else [text]
    named = [part for part in parts if part] or [text]
    return tuple((part, parse_destination(part)) for part in named)


def parse_destination(text: str) -> Destination | None:
    """Read one destination; None for a URL, a name such as `origin`, and all that is written otherwise."""
    if len(text) > _LONGEST:
        return None
    named = _WITH_NAME.fullmatch(text)
    found = _MAIL.fullmatch(named["address"].strip() if named else text)
    if found is not None:
        return _made(DestinationKind.MAIL, found["host"], found["user"].lower())
    if named:
        return None
    for form in (_SSH, _SCP):
        found = form.fullmatch(text)
        if found is not None:
            return _repository(found)
    found = _HOST.fullmatch(text)
    return _made(DestinationKind.HOST, found["host"], port=found["port"]) if found is not None else None


def destinations_given(text: str) -> tuple[Destination, ...]:
    """Return the mail addresses and repositories that a person's words name, each once; URLs left out."""
    return tuple(dict.fromkeys(_spoken(without_urls(text))))


def _spoken(text: str) -> Iterator[Destination]:
    for match in _SPOKEN.finditer(text):
        found = parse_destination(match[0].rstrip(".~-"))
        if found is not None:
            yield found


def _repository(found: re.Match[str]) -> Destination | None:
    segments = tuple(part for part in found["path"].split("/") if part)
    if not segments or {".", ".."} & {*segments}:
        return None
    last = re.sub(r"(?<=.)(\.git)+$", "", segments[-1])
    port = found["port"] if "port" in found.re.groupindex else None
    return _made(DestinationKind.REPOSITORY, found["host"], found["user"] or "", port, (*segments[:-1], last))


def _made(
    kind: DestinationKind, host: str, user: str = "", port: str | None = None, segments: tuple[str, ...] = ()
) -> Destination | None:
    """Return a destination whose host reads like that of a URL, or None."""
    url = parse_url(f"https://{host}:{port}/" if port else f"https://{host}/")
    if not isinstance(url, Url):
        return None
    number = int(port) if port else None
    usual = _SSH_PORT if kind is DestinationKind.REPOSITORY else None
    return Destination(kind, url.host, user, None if number == usual else number, segments)
