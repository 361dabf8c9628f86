"""Build the tools that come with the product from the person's configuration.

They are declared through the same surface that authors of other tools use. The HTTP library is imported at
the first request only.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.security.filters import HARD_BOUND
from leeward.security.lazy import LazyModule, dataclass

from .files import Files, FileVersions, Guard, Trees, WriteTools
from .http.fetch import DEFAULT_BODY_BYTES, Fetcher
from .http.lent import SecretClient, SecretValue
from .http.resolve import Resolver, dns_resolver
from .notes import NoteKeeper, Notes
from .overflow import Overflow, OverflowReader
from .process import Serve, environment
from .sandbox import Runner, run_bare
from .search import Search
from .shell import Jobs, Shell
from .todo import TodoList
from .untrusted import NoReader, Untrusted

if TYPE_CHECKING:
    from leeward.security.call import Gatekeeper, ToolExecutor
    from leeward.security.policy import Policy
    from leeward.security.ports import Reader
    from leeward.security.session import Session

    from .http import client, dial
    from .http.client import Client
    from .http.dial import GuardedBackend
    from .proxy import server as proxy
    from .shell import Lent, Readers, Trials
else:
    # The HTTP library costs a start more than any tool, and most runs open no page.
    client = LazyModule("leeward.tools.http.client")
    dial = LazyModule("leeward.tools.http.dial")
    proxy = LazyModule("leeward.tools.proxy.server")

__all__ = ["BuiltinSettings", "builtin_tools", "open_builtin_tools"]

# Bytes of a program's output that are held beside what is emitted, all of which the pipeline takes.
_HELD = 64 * 1024


@dataclass(frozen=True, slots=True)
class BuiltinSettings:
    """What the built-in tools need to know.

    `workspace` and `home` are absolute and resolved. `session` tells the current session, whose overflow
    `store` may be read, and which saves and finds `notes`. `policy` says of what a tool finds on its own
    whether it may be opened. Times are in seconds, sizes in bytes: `max_output` is how much a program
    may print (the hard bound of the filters), `max_body_bytes` how much of a page is kept. The hosts are
    patterns as `security/url/hosts.py` reads them; without allowed ones, all are. `given` are variables
    that outweigh the usual ones of programs. `runner` runs programs, which
    `before` is done for each time, `trials` those that change nothing yet, and `readers` those that change
    nothing at all; `jobs` are those that go on in the background. `reader` returns the model that answers
    about texts nobody else is to read, `todo` the list of tasks of the session.
    """

    workspace: str
    home: str
    store: OverflowReader
    notes: NoteKeeper
    session: Callable[[], Session]
    policy: Policy
    parent_environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    shell_timeout: float = 30.0
    max_output: int = HARD_BOUND
    fetch_timeout: float = 20.0
    max_body_bytes: int = DEFAULT_BODY_BYTES
    allow_networks: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    denied_hosts: tuple[str, ...] = ()
    ca_file: str | None = None
    resolve: Resolver = dns_resolver
    runner: Runner = run_bare
    given: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    jobs: Jobs = field(default_factory=Jobs)
    trials: Callable[[], Trials] | None = None
    readers: Callable[[], Readers] | None = None
    lend: Callable[[Sequence[str]], Lent] | None = None
    reader: Callable[[], Reader] = NoReader
    todo: TodoList = field(default_factory=TodoList)


@asynccontextmanager
async def open_builtin_tools(settings: BuiltinSettings) -> AsyncIterator[list[ToolExecutor]]:
    """Yield the built-in tools and close the connections they made in the end."""
    fetcher = _fetcher(settings)
    try:
        yield builtin_tools(settings, fetcher)
    finally:
        await fetcher.aclose()


def builtin_tools(settings: BuiltinSettings, fetcher: Fetcher | None = None) -> list[ToolExecutor]:
    """Return the built-in tools; the caller closes a `fetcher` it handed in."""
    shell = Shell(
        folder=settings.workspace,
        env={
            **environment(settings.home, settings.parent_environment),
            **settings.given,
        },
        timeout=settings.shell_timeout,
        max_bytes=min(settings.max_output, _HELD),
        runner=settings.runner,
        jobs=settings.jobs,
        before=settings.before,
        trials=settings.trials,
        readers=settings.readers,
        lend=settings.lend,
        proxy=partial(_proxied, settings) if settings.policy.sandbox.by_host else None,
    )
    guard, seen = Guard(settings.policy), FileVersions(lambda: settings.session().id)
    files, fetcher = Files(guard, seen), fetcher or _fetcher(settings)
    overflow = Overflow(settings.store, lambda: settings.session().id)
    return [
        *files.tools(),
        *WriteTools(guard, seen).tools(),
        *Trees(guard).tools(),
        *Search(guard).tools(),
        *shell.tools(),
        *settings.jobs.tools(),
        *fetcher.tools(),
        *overflow.tools(),
        *Notes(settings.notes, settings.session).tools(),
        *settings.todo.tools(),
        *Untrusted(settings.reader, settings.session, fetcher, Files(guard), overflow).tools(),
    ]


def _fetcher(settings: BuiltinSettings) -> Fetcher:
    return Fetcher(
        partial(_open_client, settings),
        max_body_bytes=settings.max_body_bytes,
        timeout=settings.fetch_timeout,
    )


def secret_client(settings: BuiltinSettings, secrets: Mapping[str, SecretValue]) -> SecretClient:
    """Return what the tools of one executor send requests with that hold these secrets."""
    made: list[Client] = []

    def connect() -> Client:
        if not made:
            made.append(_open_client(settings, settings.max_body_bytes, settings.fetch_timeout))
        return made[0]

    return SecretClient(secrets, connect)


def _open_client(settings: BuiltinSettings, cap: int, timeout: float) -> Client:
    return client.Client(_backend(settings), partial(client.tls_context, settings.ca_file), cap, timeout)


def _backend(settings: BuiltinSettings) -> GuardedBackend:
    return dial.GuardedBackend(
        settings.allow_networks, settings.resolve, settings.allowed_hosts, settings.denied_hosts
    )


def _proxied(settings: BuiltinSettings, gatekeeper: Gatekeeper) -> Serve:
    """Return what serves the network of a command; it is loaded once a command connects to something."""

    async def serve(listener: trio.SocketListener) -> None:
        await trio.lowlevel.wait_readable(listener.socket)
        await proxy.Proxy(gatekeeper, _backend(settings).connect).serve(listener)

    return serve
