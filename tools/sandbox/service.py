"""Run a confined program that is talked to while it runs, such as a server on standard input and output.

It may read what a command may read that only reads. With `writes` it may change the workspace too, and files
that must not stay there are moved aside when it ends. Its only network is what is served to it. Where no
confinement works, it is not started, unless the person has chosen to run it unconfined.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PolicyBlocked
from leeward.security.sandbox import (
    Confinement,
    Masks,
    SandboxLevel,
    read_only_confinement,
    trial_confinement,
)

from ..process import (
    Dialogue,
    OwnNetwork,
    Serve,
    Starter,
    network_environment,
    open_dialogue,
    quiet_environment,
    serve_network,
)
from .bubblewrap import BubblewrapStart
from .landlock import grants_around, made_scratch, variables_of
from .sandbox import Sandbox, look_as_reader, reading_starter, watched

__all__ = ["Service", "open_service"]


@dataclass(frozen=True, slots=True)
class Service:
    """What is run, and what it is given: `readable` are further absolute paths, `serve` is its network.

    What is not `confined` has all the rights of the person, and is bounded and ended like any other.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    writes: bool = False
    readable: tuple[str, ...] = ()
    serve: Serve | None = None
    confined: bool = True


@asynccontextmanager
async def open_service(sandbox: Sandbox, service: Service) -> AsyncIterator[Dialogue]:
    """Start a program in the workspace and yield it; when this is left, nothing of it is left.

    Raises:
        PermanentFailure: it could not be started.
        PolicyBlocked: nothing here keeps it in, or what must not be reached cannot be kept from it.
        TrialUnavailable: it cannot be kept from changing files here.
    """
    cwd = sandbox.confinement.workspace
    if not service.confined:
        bare = sandbox._kept(await sandbox._supervisors.get())
        async with open_dialogue(service.argv, cwd=cwd, env=service.env, starter=bare) as dialogue:
            yield dialogue
        return
    if sandbox.level is SandboxLevel.NONE:
        raise PolicyBlocked("nothing here keeps it in; leeward doctor says what a sandbox needs")
    async with AsyncExitStack() as stack:
        if service.writes:
            confinement = trial_confinement(sandbox.confinement)
            masks = (await stack.enter_async_context(watched(sandbox, lasting=True))).masks
        else:
            confinement = read_only_confinement(sandbox.confinement)
            async with sandbox._looking:
                found = await trio.to_thread.run_sync(look_as_reader, sandbox, confinement)
            masks = found.masks()
        confinement = replace(confinement, readable=(*confinement.readable, *service.readable))
        starter, env = await _starter(sandbox, service, confinement, masks)
        if service.serve is not None:
            starter = await _with_network(stack, starter, service.serve)
        yield await stack.enter_async_context(open_dialogue(service.argv, cwd=cwd, env=env, starter=starter))


async def _starter(
    sandbox: Sandbox, service: Service, confinement: Confinement, masks: Masks
) -> tuple[Starter, Mapping[str, str]]:
    """Return what starts it, and its environment."""
    if not service.writes:
        starter = await reading_starter(sandbox, confinement, masks, confinement.workspace)
        scratch = sandbox._late.reading_scratch
        if scratch:
            scratch = await trio.to_thread.run_sync(made_scratch, sandbox.confinement, scratch)
        own = variables_of(scratch)
        env = {**quiet_environment(service.env, *filter(None, (own.get("TMPDIR"),))), **own}
    elif sandbox.level is SandboxLevel.BUBBLEWRAP:
        supervisor = await sandbox._supervisors.get()
        starter = sandbox._bubblewrapped(confinement, masks, confinement.workspace, supervisor)
        env = dict(service.env)
    else:
        grants = await trio.to_thread.run_sync(grants_around, confinement, masks, sandbox._scratch)
        starter = sandbox._kept(await sandbox._supervisors.get(grants))
        env = {**service.env, **variables_of(sandbox._scratch)}
    return starter, network_environment(env, is_open=True) if service.serve is not None else env


async def _with_network(stack: AsyncExitStack, starter: Starter, serve: Serve) -> Starter:
    """Return a starter of programs whose network is what `serve` serves."""
    if not isinstance(starter, BubblewrapStart):
        raise PolicyBlocked("a network by host needs bubblewrap")
    network: OwnNetwork = await stack.enter_async_context(serve_network(serve))
    return replace(starter, network=network)
