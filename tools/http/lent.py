"""Put secrets into the requests of an executor, for the hosts that they are bound to and no other.

A tool holds `secret://NAME` where a value would be. The value takes its place in a header or the body of one
request, over TLS, once its host is known to be one of the secret's. Redirects are returned and never
followed, so what follows one is a request of its own, to a host that is looked at again.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import trio

from leeward.security.kinds import Unreadable
from leeward.security.lazy import dataclass
from leeward.security.outcome import PolicyBlocked
from leeward.security.url import Url, is_reached, parse_url

if TYPE_CHECKING:
    from .client import Client
    from .response import Response

__all__ = ["SecretClient", "SecretValue"]

_SENTINEL = re.compile(r"secret://([A-Za-z_][A-Za-z0-9_]{0,127})")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_METHOD = re.compile(r"[A-Z]{1,16}")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class SecretValue:
    """A secret and where it may go: `hosts` are rules as `security/url/reach.py` reads them.

    `user` is the name that git gives with it. With `shows_output` what a program prints that is lent it is
    shown.
    """

    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...]
    user: str = ""
    shows_output: bool = False


@dataclass(frozen=True, slots=True)
class SecretClient:
    """HTTP for the tools of one executor, with the secrets it named in `requires_secrets`.

    `connect` makes what sends a request; it is called when the first one is sent.
    """

    _secrets: Mapping[str, SecretValue]
    _connect: Callable[[], Client]

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        basic: tuple[str, str] | None = None,
        body: str | bytes = b"",
        timeout: float = _TIMEOUT,  # noqa: ASYNC109 — of a whole request, which a caller cannot time
    ) -> Response:
        """Send one request and return its answer; a redirect is one, and leads to `location`.

        Args:
            method: such as GET.
            url: where to; it holds no secret, for it is on record in many places.
            headers: further headers; a value may hold `secret://NAME`.
            basic: user and password for basic authentication; the password may be `secret://NAME`.
            body: a text may hold `secret://NAME`, bytes are sent as they are.
            timeout: seconds for all of it.

        Raises:
            PolicyBlocked: a secret is not bound to the host, is not lent here, or would be sent in the clear.
            ToolError: there was no answer.
        """
        parsed = parse_url(url)
        if _SENTINEL.search(url):
            raise PolicyBlocked("a URL holds no secret, for it is written down in many places")
        if isinstance(parsed, Unreadable):
            raise PolicyBlocked(parsed.reason)
        if not _METHOD.fullmatch(method):
            raise PolicyBlocked(f"there is no method {method[:20]!r}")
        sent = [self._header(name, value, parsed) for name, value in (headers or {}).items()]
        if basic is not None:
            pair = ":".join(self.filled(one, parsed) for one in basic)
            sent.append((b"Authorization", b"Basic " + base64.b64encode(pair.encode())))
        content = self.filled(body, parsed).encode() if isinstance(body, str) else body
        deadline = trio.current_time() + timeout
        return await self._connect().send(method, parsed, tuple(sent), content, deadline)

    def filled(self, text: str, url: Url) -> str:
        """Return a text with every secret in it put in, for a request to a URL.

        Raises:
            PolicyBlocked: one of them is not to go there.
        """
        return _SENTINEL.sub(lambda found: self._value(found[1], url), text)

    def _value(self, name: str, url: Url) -> str:
        secret = self._secrets.get(name)
        if secret is None:
            raise PolicyBlocked(f"the secret {name} is not lent here; requires_secrets and [secrets] name it")
        if url.scheme != "https" or not is_reached(url, secret.hosts):
            raise PolicyBlocked(
                f"the secret {name} is not for {url.host}; [secrets.{name}] hosts says for which"
            )
        return secret.value

    def _header(self, name: str, value: str, url: Url) -> tuple[bytes, bytes]:
        filled = self.filled(value, url)
        if not _NAME.fullmatch(name) or name.lower() in _OURS or re.search(r"[^\x20-\x7e]", filled):
            raise PolicyBlocked(f"the header {name[:40]!r} cannot be sent")
        return name.encode(), filled.encode()
