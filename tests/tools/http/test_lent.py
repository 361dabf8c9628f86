"""Secrets of an executor go into its requests for their hosts alone, over real TLS."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from functools import partial

import h11
import pytest

from https import FILES, INDEX, serving
from leeward.security.outcome import PolicyBlocked
from leeward.tools.http.client import Client, tls_context
from leeward.tools.http.dial import GuardedBackend
from leeward.tools.http.lent import SecretClient, SecretValue

VALUE = "fake-Lent+Value_7310/xyz"


@pytest.fixture
def lent(tmp_path):
    """Serve two names on loopback; yield a client with a secret for one of them, and what was received."""
    received = []

    async def handle(request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        received.append((request.method, request.target, dict(request.headers), body))
        if request.target == b"/away":
            return 302, "text/plain", f"https://{FILES}/".encode()
        return 200, "text/plain", b"echo " + dict(request.headers).get(b"x-token", b"")

    async def resolve(host: str, port: int):
        return ("127.0.0.1",)

    @asynccontextmanager
    async def lent():
        async with serving(tmp_path, handle) as port:
            backend = GuardedBackend(("127.0.0.0/8",), resolve)
            client = Client(backend, partial(tls_context, str(tmp_path / "ca.pem")), 10_000, 20)
            secrets = {"TOKEN": SecretValue("TOKEN", VALUE, (f"{INDEX}:{port}",))}
            yield SecretClient(secrets, lambda: client), port, received
            await client.aclose()

    return lent


async def test_the_value_is_put_in_for_its_host(lent):
    async with lent() as (client, port, received):
        url = f"https://{INDEX}:{port}/a?b=c"
        answer = await client.request("GET", url, headers={"X-Token": "t=secret://TOKEN"})
        assert (answer.status, answer.body.content) == (200, f"echo t={VALUE}".encode())
        await client.request("POST", url, basic=("ada", "secret://TOKEN"), body='{"k": "secret://TOKEN"}')
        method, target, headers, body = received[-1]
        assert (method, target, body) == (b"POST", b"/a?b=c", f'{{"k": "{VALUE}"}}'.encode())
        assert headers[b"authorization"] == b"Basic " + base64.b64encode(f"ada:{VALUE}".encode())
        assert VALUE not in repr(client)


async def test_no_other_host_gets_it_nor_does_a_redirect(lent):
    async with lent() as (client, port, received):
        answer = await client.request(
            "GET", f"https://{INDEX}:{port}/away", headers={"X-Token": "secret://TOKEN"}
        )
        assert (answer.status, answer.location) == (302, f"https://{FILES}/") and len(received) == 1
        for url in (
            f"https://{FILES}:{port}/", f"https://{INDEX}/", f"http://{INDEX}:{port}/",
            f"https://{INDEX}.evil.example:{port}/", f"https://{INDEX}@{FILES}:{port}/",
        ):  # fmt: skip
            for given in ({"headers": {"X-Token": "secret://TOKEN"}}, {"body": "secret://TOKEN"}):
                with pytest.raises(PolicyBlocked):
                    await client.request("POST", url, **given)
        assert len(received) == 1


@pytest.mark.parametrize(
    ("url", "headers", "said"),
    [
        ("https://{host}/?t=secret://TOKEN", {}, "a URL holds no secret"),
        ("https://{host}/", {"X-A": "secret://OTHER"}, "not lent here"),
        ("https://{host}/", {"Host": "x"}, "cannot be sent"),
        ("https://{host}/", {"X-A": "a\r\nX-B: c"}, "cannot be sent"),
        ("https://{host}/", {"X A": "c"}, "cannot be sent"),
    ],
)
async def test_what_is_not_to_be_sent_is_not(lent, url, headers, said):
    async with lent() as (client, port, received):
        with pytest.raises(PolicyBlocked, match=said):
            await client.request("GET", url.format(host=f"{INDEX}:{port}"), headers=headers)
        assert received == []
