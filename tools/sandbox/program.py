"""What to run, and the minimal runner, without any confinement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import trio

from leeward.security.lazy import dataclass

from ..process import SEARCH_PATH, OnChunk, ProcessExit, Serve, Starter, SupervisedStart, run_process
from .result import Ran

__all__ = ["Program", "Runner", "run_bare"]

_LONGEST_PROBE = 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, as `run_process` takes it."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    deadline: float
    max_bytes: int = 4096
    on_chunk: OnChunk | None = None

    @classmethod
    def smallest(cls, script: str, cwd: str = "/") -> Program:
        """Return a line that needs nothing but a shell, to find out whether something works."""
        return cls(
            ("/bin/sh", "-c", script), cwd, {"PATH": SEARCH_PATH}, trio.current_time() + _LONGEST_PROBE
        )

    async def run(self, starter: Starter) -> ProcessExit:
        """Run it to its end."""
        return await run_process(
            self.argv,
            cwd=self.cwd,
            env=self.env,
            deadline=self.deadline,
            max_bytes=self.max_bytes,
            starter=starter,
            on_chunk=self.on_chunk,
        )


class Runner(Protocol):
    """Runs programs."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        deadline: float,
        max_bytes: int,
        on_chunk: OnChunk | None = None,
        lasting: bool = False,
        serve: Serve | None = None,
    ) -> Ran:
        """Run a program to its end, as `run_process` does; others start while a `lasting` one runs.

        With `serve`, it reaches what that serves and nothing else.
        """
        ...


async def run_bare(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    deadline: float,
    max_bytes: int,
    on_chunk: OnChunk | None = None,
    lasting: bool = False,  # noqa: ARG001 — it is kept from nothing
    serve: Serve | None = None,  # noqa: ARG001 — the same
) -> Ran:
    """Run a program with the rights of the calling process, without any checks.

    Raises:
        PermanentFailure: it could not be started.
    """
    return Ran(await Program(argv, cwd, env, deadline, max_bytes, on_chunk).run(SupervisedStart()))
