"""Wrong: confinements of trial runs that each lack one thing, by what it is."""

import os
import struct
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from leeward.security.sandbox import Masks
from leeward.tools.process import supervisor
from leeward.tools.process.supervisor import SupervisedProcess
from leeward.tools.sandbox import Sandbox
from leeward.tools.sandbox import sandbox as sandbox_module
from leeward.tools.shell import Trials
from loading import load_module

_ALLOWS_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
_REAPER = Path(__file__).with_name("confinement_reaper.py")


def _confined(**changes):
    real = sandbox_module.trial_confinement

    def confined(confinement):
        found = real(confinement)
        return replace(found, **{name: change(found) for name, change in changes.items()})

    return patch.object(sandbox_module, "trial_confinement", confined)


def _without(*shared):
    """Return what takes some namespaces away from programs."""
    real = sandbox_module.bubblewrap_arguments
    kept = [
        f"--unshare-{name}"
        for name in ("user-try", "ipc", "pid", "net", "uts", "cgroup-try")
        if name not in shared
    ]

    def arguments(*given):
        words = real(*given)
        at = words.index("--unshare-all")
        return (*words[:at], *kept, *words[at + 1 :])

    return patch.object(sandbox_module, "bubblewrap_arguments", arguments)


async def _nothing_closed(_):
    return {}


async def _no_problem(_):
    return ""


def _bound():
    stack = ExitStack()
    # The probe would find it out before any line ran.
    stack.enter_context(patch.object(Sandbox, "no_trial_because", _no_problem))
    tried = load_module(Path(__file__).with_name("trial.py")).tried
    stack.enter_context(patch.object(sandbox_module, "run_tried", tried))
    return stack


def _shared_network(real=sandbox_module.run_program):
    stack = ExitStack()
    stack.enter_context(_confined(network=lambda _: True))
    # A line that is served single hosts has a network of its own besides, and that has to go, too.
    stack.enter_context(patch.object(sandbox_module, "run_program", lambda *given: real(*given[:2], None)))
    return stack


def _left_alive():
    stack = ExitStack()
    stack.enter_context(_without("pid"))
    stack.enter_context(patch.object(supervisor, "_REAPER", str(_REAPER)))
    stack.enter_context(patch.object(SupervisedProcess, "_end_all", lambda _: True))
    return stack


WEAK = {
    "no filter of system calls": lambda: patch.object(
        sandbox_module, "filter_program", lambda *_: _ALLOWS_ALL
    ),
    "no overlay": _bound,
    "the home in sight": lambda: _confined(readable=lambda found: (*found.readable, found.home)),
    "the network": _shared_network,
    "our environment": lambda: patch.object(
        sandbox_module,
        "quiet_environment",
        lambda env, real=sandbox_module.quiet_environment: {**os.environ, **real(env)},
    ),
    "processes of others": lambda: _without("pid"),
    "memory of others": lambda: _without("ipc"),
    "no masks": lambda: patch.object(Sandbox, "_masks", lambda *_, **__: Masks()),
    "the history": lambda: patch.object(Trials, "_closed", _nothing_closed),
    "left alive": _left_alive,
}
"""What is missing, and what makes it so for a while."""
