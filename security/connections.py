"""Judge each connection of a running command, record it before it is opened, and list those refused.

The command's network is a proxy (`tools/proxy/`), which asks here before each connection. A host is
judged by the functions of the gate `hosts`, and has to be one that the call was cleared for. What was refused
for want of that alone is what a person may be asked about afterwards. Connecting is left to the tools.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Self

from .call import Action, Exchange
from .checks import carries_secret, refused_host
from .judge import Judge
from .kinds import Unreadable
from .lazy import dataclass, regex
from .outcome import PolicyBlocked
from .policy import NETWORK
from .ports import RecordError
from .record import connection_event, response_event
from .session import Egress
from .text import mask_of
from .url import Url, is_address, is_reached, parse_url, reach_of_url

__all__ = ["Connections"]

_MOST_REFUSALS = 100
"""Refusals that are recorded one by one; a program could make them all day."""

_MOST_HOSTS = 20
"""Hosts that a person is asked about at once, at most."""

_AUTHORITY = regex(r"[^:/?#@\[\]]+:[0-9]{1,5}")
_LONGEST = 512


@dataclass(slots=True)
class Connections:
    """The connections of one call; the pipeline makes it and enters it while the call runs.

    `hosts` are the rules for what may be reached. `wanted` are the hosts, as rules, that were refused only
    because no rule covers them; `refused` counts all refusals, `admitted` the rest. With `is_lent` the
    command was lent a secret, and where else it tried to go is not reported.
    """

    action: Action
    judge: Judge
    hosts: tuple[str, ...] = ()
    is_lent: bool = False
    wanted: dict[str, None] = field(default_factory=dict)
    refused: int = 0
    admitted: int = 0
    _recorded: set[tuple[str, str]] = field(default_factory=set)
    _attempts: int = 0
    _is_over: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End here: a `Cleared` that is kept for longer connects to nothing more."""
        self._is_over = True

    async def admit(self, target: str, *, is_tunnel: bool) -> tuple[Url, int]:
        """Return where a command's request leads and its number, once it may go there and that is on record.

        `target` is `HOST:PORT` for a tunnel, which is to carry TLS, else a URL.

        Raises:
            PolicyBlocked: it may not, for a reason that the message gives.
        """
        if self._is_over:
            raise PolicyBlocked("the call has ended; no further connection is made for it")
        url = _read(target, is_tunnel=is_tunnel)
        if isinstance(url, Unreadable):
            raise await self._refusal(target, "unreadable", url.reason)
        if problem := self._problem(url):
            raise await self._refusal(url.text, *problem)
        event = self._event(self._recorded_url(url), allowed=True, rule=NETWORK)
        self.admitted += 1
        await self._record(event)
        return url, event.hop

    def _recorded_url(self, url: Url) -> str:
        """Return a URL as it goes on record; the name of a host that a wildcard opened may carry a secret."""
        is_named = not self.is_lent or reach_of_url(url) in self.hosts
        return url.text if is_named else mask_of("secret", url.text)

    async def refuse(self, target: str, rule: str, reason: str) -> None:
        """Put on record that something was refused before it was asked about here, or after."""
        await self._refusal(target, rule, reason)

    def report(self, exchange: Exchange, number: int) -> None:
        """Take down the outcome of a connection; it is written with the next record of the call."""
        if not self._is_over:
            session = self.judge.session
            self.judge.journal.defer(response_event(self.action, exchange, number, session))

    def _problem(self, url: Url) -> tuple[str, str] | None:
        """Return the rule and the reason for which a URL may not be connected to."""
        session = self.judge.session
        if is_address(url.host):
            return "address", f"{url.host} is an address; only host names can be reached"
        denial = refused_host(url.host, session.policy, (), f"{url.host} is refused")
        if denial is not None:
            return denial.rule, denial.reason
        if not is_reached(url, self.hosts, session.policy.allow_http):
            rule = reach_of_url(url)
            if not is_reached(url, (rule,), session.policy.allow_http):
                # Nobody can be asked about what no answer opens.
                return "in_the_clear", f"plain http to port 443 is refused: {url.host}"
            if len(self.wanted) < _MOST_HOSTS and not self.is_lent:
                self.wanted[rule] = None
            return "not_allowed", f"the sandbox has no network, and nobody allowed {rule}"
        if url.scheme == "http" and self.is_lent:
            return "in_the_clear", "a program that was lent a secret speaks to its hosts over https alone"
        if url.scheme == "http" and carries_secret(url, session):
            return "carries_value", f"a plain http request to {url.host} contains a secret"
        return None

    async def _refusal(self, target: str, rule: str, reason: str) -> PolicyBlocked:
        """Record a refusal, each kind of it once, and return it."""
        self.refused += 1
        # Of a URL the host is what was refused; else each path would be a record.
        if self.is_lent:
            # A program that was lent a secret may write it into the name of a host.
            target, reason = mask_of("secret", target), "the program was lent a secret for other hosts"
        url = parse_url(target)
        shown = f"{url.scheme}://{reach_of_url(url)}/" if isinstance(url, Url) else target[:_LONGEST]
        if (shown, rule) not in self._recorded and len(self._recorded) <= _MOST_REFUSALS:
            self._recorded.add((shown, rule))
            if len(self._recorded) > _MOST_REFUSALS:
                reason = "and more, which are not recorded one by one"
            await self._record(self._event(shown, allowed=False, rule=rule, problem=reason))
        return PolicyBlocked(reason)

    def _event(self, url: str, *, allowed: bool, rule: str, problem: str = "") -> Egress:
        self._attempts += 1
        session, number = self.judge.session, self._attempts
        return connection_event(
            self.action, url, number, session, allowed=allowed, rule=rule, problem=problem
        )

    async def _record(self, event: Egress) -> None:
        self.judge.journal.fold(event)
        try:
            await self.judge.journal.write(event)
        except RecordError as error:
            why = f"the decision could not be recorded, so nothing was connected to: {error}"
            raise PolicyBlocked(why) from error


def _read(target: str, *, is_tunnel: bool) -> Url | Unreadable:
    """Return what a request is for; what is not written as it would be sent is not read."""
    if is_tunnel and _AUTHORITY.fullmatch(target) is None:
        return Unreadable("a tunnel leads to HOST:PORT, by a host's name")
    url = parse_url(f"https://{target}/" if is_tunnel else target)
    if isinstance(url, Unreadable):
        return url
    authority = target if is_tunnel else re.split("[/?#]", target.partition("://")[2], maxsplit=1)[0]
    host = re.sub(r":[0-9]+$", "", authority)
    if host.lower().strip("[]") != url.host:
        return Unreadable("the host is not written as it is looked up")
    if not is_tunnel and url.scheme != "http":
        return Unreadable("https goes through a tunnel (CONNECT)")
    return url
