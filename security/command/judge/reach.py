"""May a line reach out to where it wants to? Whoever was not named by the person is asked about.

`destinations.py` says where a line leads; here that is held against what the person gave and against
the addresses that nothing may reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...unreadable import Unreadable
from ...url import Ledger, Url, judge_host, parse_url
from ..expand import visits
from ..syntax import CommandLine
from .network import connects, destinations, hides_destination
from .verdict import Ruling, Say

__all__ = ["hosts_of", "reach_of"]

_LOCAL = frozenset({"loopback"})
_HOST_ONLY = frozenset(
    (
        "curl wget nc ncat netcat telnet ssh scp sftp ftp socat http https xh aria2c ping dig host "
        "nslookup whois"
    ).split()
)


def reach_of(line: CommandLine, ledger: Ledger, allow_networks: Sequence[str]) -> Ruling:
    """Return the strictest word about where a line connects to."""
    rulings = [_judged(text, ledger, allow_networks) for text in destinations(line)]
    reaching = connects(line)
    commands = (visit.command for visit in visits(line.root)) if _HOST_ONLY & set(reaching) else ()
    hiding = (one.program for one in commands if one.program in _HOST_ONLY and hides_destination(one))
    rulings += [
        Ruling(Say.FORCE, "destination", "where it connects to is only known when it runs", name)
        for name in dict.fromkeys(hiding)
    ]
    if not rulings:
        return (
            Ruling(Say.ASK, "connects", "it connects to a network", ", ".join(reaching))
            if reaching
            else Ruling(Say.NOTHING)
        )
    worst = max(rulings, key=lambda ruling: ruling.say)
    values = tuple((ruling.reason, ruling.value) for ruling in rulings if ruling.say)
    return Ruling(worst.say, worst.rule, worst.reason, worst.value, values)


def hosts_of(line: CommandLine) -> tuple[str, ...]:
    """Return the hosts a line names, in canonical form, but for those of this machine."""
    urls = (url for text in destinations(line) for url in _readings(text))
    hosts = dict.fromkeys(url.host for url in urls if isinstance(url, Url))
    return tuple(host for host in hosts if judge_host(host, ()) not in _LOCAL)


def _judged(text: str, ledger: Ledger, allow_networks: Sequence[str]) -> Ruling:
    for url in _readings(text):
        if isinstance(url, Unreadable):
            continue
        what = judge_host(url.host, allow_networks)
        if what == "cloud metadata":
            return Ruling(Say.DENY, "metadata", "it reaches the cloud's metadata service", text)
        if what in _LOCAL:
            return Ruling(Say.ASK, "loopback", "it connects to a service on this machine", text)
        if what is not None:
            return Ruling(
                Say.FORCE, "destination", f"it connects to a host that is not public ({what})", text
            )
        known = ledger.lookup(url)
        if known.source is not None and not known.added:
            return Ruling(Say.ASK, "connects", "it connects to a place you named", text)
    return Ruling(Say.FORCE, "destination", "it connects to a place you did not name", text)


def _readings(text: str) -> Iterator[Url | Unreadable]:
    """Yield what a destination may be as a URL: itself, or the host in it."""
    if "://" in text:
        scheme, _, rest = text.partition("://")
        yield parse_url(text if scheme in {"http", "https"} else f"https://{rest.rpartition('@')[2]}")
        return
    host = text.rpartition("@")[2]
    yield parse_url(f"https://{host}")
    yield parse_url(f"https://{host.partition(':')[0]}/")
