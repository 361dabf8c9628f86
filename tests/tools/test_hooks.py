"""Hooks that hang, crash, flood, fork and print anything: what is made of each, and that none is left."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.policy import Policy
from leeward.tools.hooks import HookEvent, HookRunner, HookSandbox, HookSettings, answer_of
from leeward.tools.process import descendants, environment
from leeward.tools.sandbox import SandboxSettings, open_sandbox

LONG = 60.0  # what a loaded machine may take to start a program, or to end one
PREFIXES = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix))
TOLD = {"tool": "shell", "arguments": {"command": "x" * 200_000}}


@asynccontextmanager
async def runner(tmp_path, *scripts, level="auto", **options):
    """Hooks that are shell scripts, in a sandbox; afterwards nothing of any is left."""
    for folder in ("ws", "home"):
        (tmp_path / folder).mkdir(exist_ok=True)
    policy = Policy(os.path.realpath(tmp_path / "ws"), os.path.realpath(tmp_path / "home"))
    settings = SandboxSettings(policy, str(tmp_path / "aside"), level, prefixes=PREFIXES)
    async with open_sandbox(settings) as sandbox:
        if level == "auto" and sandbox.level == "none":
            pytest.skip("; ".join(sandbox.weaker_because))
        told = {"timeout": LONG, "event": HookEvent.BEFORE_CALL, **options}
        hooks = [
            HookSettings(f"h{number}", command=("/bin/bash", "-c", script), **told)
            for number, script in enumerate(scripts)
        ]
        env, alerts = environment(policy.home, os.environ), []
        yield HookRunner(hooks, sandbox, env, {**env, "OWN": "yes"}, alerts.append), alerts
        with trio.fail_after(LONG):
            while any("leeward-hook-test" in _command(pid) for pid in descendants(os.getpid())):
                await trio.sleep(0.01)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


async def one(tmp_path, script, **options):
    async with runner(tmp_path, script, **options) as (hooks, _):
        (answer,) = await hooks.before(TOLD)
        return answer


GOOD = {
    "cat > /dev/null; echo '{}'": ("", "", ""),
    'echo \'{"decision": null, "notice": "hello"}\'': ("", "", "hello"),
    'cat > /dev/null; echo \'{"decision": "deny", "reason": "no"}\'': ("deny", "no", ""),
    'exec echo \'{"decision": "ask"}\'': ("ask", "", ""),
    # What it leaves running holds its output open, and is ended with it.
    "(exec -a leeward-hook-test sleep 300) & echo '{}'": ("", "", ""),
}


@pytest.mark.parametrize("script", GOOD)
async def test_what_a_hook_answers(tmp_path, script):
    answer = await one(tmp_path, script)
    assert not answer.failed, answer
    assert (answer.word, answer.reason, answer.notice) == GOOD[script]


BAD = {
    "cat > /dev/null": "no JSON object",
    "echo nonsense": "no JSON object",
    "echo '[]'": "something else than an object",
    "echo '{} {}'": "no JSON object",
    'echo \'{"decision": "allow"}\'': "a hook cannot allow",
    'echo \'{"decision": "Deny"}\'': 'neither "deny" nor "ask"',
    'echo \'{"decision": ["deny"]}\'': 'neither "deny" nor "ask"',
    'echo \'{"decison": "deny"}\'': "something else than an object",
    'echo \'{"decision": "deny", "decision": null}\'': "no JSON object",
    "echo '{\"reason\": 1}'": "no text",
    "echo '{}'; echo oops >&2; exit 3": "exit code 3: oops",
    "kill -9 $$": "",
    "exec /nowhere/at/all": "exit code 127",
    "echo '{}'; head -c 100000 /dev/zero": "more than 65536 bytes",
    "printf '\\xff\\xfe'": "no JSON object",
    f"printf '%s' '{'[' * 60_000}'": "no JSON object",
}


@pytest.mark.parametrize("script", BAD)
async def test_what_is_no_answer_has_failed(tmp_path, script):
    answer = await one(tmp_path, script)
    assert answer.failed and answer.word == "" and BAD[script] in answer.reason, answer


@pytest.mark.parametrize(
    "script",
    [
        "exec -a leeward-hook-test sleep 300",
        "trap '' TERM; (exec -a leeward-hook-test sleep 300); sleep 300",
        "while true; do echo '{}'; done",
        "for i in 1 2 3 4; do (setsid bash -c 'exec -a leeward-hook-test sleep 300') & done; sleep 300",
    ],
)
async def test_a_hook_that_hangs_is_ended_with_all_it_started(tmp_path, script):
    answer = await one(tmp_path, script, timeout=1.0)
    assert answer.failed and "not done within 1 s" in answer.reason


async def test_forks_without_end_are_bounded_and_gone(tmp_path):
    forks = "f() { (exec -a leeward-hook-test sleep 300) & f; }"
    script = f"{forks}; for i in $(seq 300); do f & done; wait"
    answer = await one(tmp_path, script, timeout=2.0)
    assert answer.failed


async def test_a_hook_changes_nothing_unless_it_may(tmp_path):
    there = tmp_path / "ws" / "new"
    script = f"echo x > {there} && echo '{{}}'"
    answer = await one(tmp_path, script)
    assert answer.failed and not there.exists()
    assert not (await one(tmp_path, script, sandbox=HookSandbox.WORKSPACE)).failed
    assert there.read_text() == "x\n"
    outside = tmp_path / "outside"
    script = f"test -z \"$OWN\" && echo x > {outside}; echo '{{}}'"
    await one(tmp_path, script, sandbox=HookSandbox.WORKSPACE)
    assert not outside.exists()
    script = f"test $OWN = yes && echo x > {outside} && echo '{{}}'"
    assert not (await one(tmp_path, script, sandbox=HookSandbox.NONE)).failed
    assert outside.exists()


async def test_without_a_sandbox_only_a_hook_that_names_none_is_run(tmp_path):
    answer = await one(tmp_path, "echo '{}'", level="none")
    assert answer.failed and "nothing here keeps it in" in answer.reason
    assert not (await one(tmp_path, "echo '{}'", level="none", sandbox=HookSandbox.NONE)).failed


async def test_a_hook_reads_what_it_is_told_and_runs_for_its_tools_alone(tmp_path):
    script = 'python3 -c \'import json, sys; print(json.dumps({"notice": json.load(sys.stdin)["event"]}))\''
    async with runner(tmp_path, script, tools=("sh*", "fetch")) as (hooks, _):
        (answer,) = await hooks.before(TOLD)
        assert answer.notice == "before_call"
        assert await hooks.before({"tool": "read"}) == ()


async def test_what_only_hears_fails_without_harm_and_says_so(tmp_path):
    event = HookEvent.AFTER_CALL
    async with runner(tmp_path, "exit 1", "cat > $PWD/x", event=event) as (hooks, alerts):
        await hooks.after(TOLD)
        assert len(alerts) == 2 and alerts[0].startswith("hook h0 failed: it ended with exit code 1")
        assert not (tmp_path / "ws" / "x").exists()


async def test_a_cancelled_call_is_shown_within_a_moment(tmp_path):
    script = "cat > $PWD/told"
    options = {"event": HookEvent.AFTER_CALL, "sandbox": HookSandbox.WORKSPACE}
    async with runner(tmp_path, script, "sleep 300", **options) as (hooks, _):
        with trio.CancelScope() as scope:
            scope.cancel()
            with trio.fail_after(LONG):
                await hooks.after(TOLD)
    # The first may or may not have come to its end on a loaded machine; the second surely did not.
    assert scope.cancelled_caught or json.loads((tmp_path / "ws" / "told").read_text())["tool"] == "shell"


@given(st.binary(max_size=200))
def test_anything_printed_is_an_answer_or_a_failure(printed):
    answer = answer_of("h", printed)
    assert answer.word in ("", "deny", "ask") and isinstance(answer.failed, bool)
