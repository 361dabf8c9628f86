from __future__ import annotations

import re
import signal

import pytest
import trio

from leeward.security.kinds import Effect
from leeward.security.outcome import PermanentFailure, ToolTimeout
from leeward.tools.process import environment
from leeward.tools.shell import Shell
from leeward.tools.shell.shell import _DEADLY


@pytest.fixture
def shell(workspace):
    def shell(max_bytes=100_000):
        (tool,) = Shell(str(workspace), environment("/nowhere", {}), 30, max_bytes).tools()
        return tool

    return shell


async def test_it_runs_in_the_workspace_and_tells_how_it_ended(shell, run, workspace):
    output = await run(shell(), {"command": "pwd; echo a > f; cd /; exit 1"})
    assert (output.text, output.exit_code) == (f"{workspace}\n", 1)
    assert output.notices[0].startswith("exit code 1 after ") and (workspace / "f").read_text() == "a\n"
    (spec,) = shell().specs()
    assert (spec.name, spec.effects, spec.timeout) == ("shell", Effect.ALL, 30.0)


@pytest.mark.parametrize("command", ["-x", "--version", "--", "-c id", "--rcfile x"])
async def test_a_line_is_never_an_option_of_the_shell(shell, run, command):
    with pytest.raises(PermanentFailure, match="exit code 127"):
        await run(shell(), {"command": command})


@pytest.mark.parametrize("shells", [("/bin/bash", "/bin/sh"), ("/no/bash", "/bin/sh")])
async def test_without_bash_it_is_sh(shell, run, monkeypatch, shells):
    monkeypatch.setattr("leeward.tools.shell.shell._BASH", shells[0])
    assert (await run(shell(), {"command": 'echo "$(( 1 + 1 ))" && false || true'})).text == "2\n"


async def test_no_start_up_file_is_read(shell, run, workspace, tmp_path):
    for name in (".bashrc", ".bash_profile", ".profile"):
        (workspace / name).write_text("echo from a start-up file\n")
    assert (await run(shell(), {"command": "true"})).text == ""


@pytest.mark.parametrize("code", [0, 1, 2, 125, 128, 129, 130, 200, 255])
async def test_a_programs_own_exit_code_is_a_result(shell, run, code):
    assert (await run(shell(), {"command": f"echo x; exit {code}"})).exit_code == code


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo before; nosuchprogram_", "exit code 127: the program was not found"),
        ("echo before; touch f; ./f", "exit code 126: the program could not be executed"),
        ("echo before; kill -SEGV $$", "ended by signal 11 (SIGSEGV)"),
        ("echo before; sh -c 'kill -KILL $$'; exit $?", "ended by signal 9 (SIGKILL)"),
    ],
)
async def test_what_did_not_run_to_its_end_is_a_failure_with_its_output(shell, run, command, why):
    with pytest.raises(PermanentFailure) as caught:
        await run(shell(), {"command": command})
    assert str(caught.value) == why and caught.value.output.text.startswith("before\n")
    code = re.match("exit code ([0-9]+)", why)
    assert caught.value.output.exit_code == (int(code[1]) if code else 137 if "KILL" in why else None)


async def test_the_deadline_is_a_timeout_with_its_output(shell, run):
    with (
        trio.fail_after(30),
        pytest.raises(ToolTimeout, match=r"at its deadline \(\[tools.shell\] timeout\)$") as caught,
    ):
        await run(shell(), {"command": "echo begun; sleep 30"}, timeout=4)
    assert caught.value.output.text == "begun\n"


async def test_where_programs_are_looked_for_is_told_once(shell, run):
    tool = shell()
    with pytest.raises(PermanentFailure) as caught:
        await run(tool, {"command": "nosuchprogram_"})
    told = " ".join(caught.value.output.notices)
    assert "commands find programs in /" in told and "extra_read" in told and "leeward doctor" in told
    with pytest.raises(PermanentFailure) as caught:
        await run(tool, {"command": "nosuchprogram_"})
    assert "extra_read" not in " ".join(caught.value.output.notices)


async def test_the_deadline_is_told_before_the_callers_own_scope_ends_it(shell, clear):
    cleared = await clear(tool := shell(), {"command": "echo begun; sleep 30"}, timeout=4)
    with trio.fail_at(cleared.deadline), pytest.raises(ToolTimeout, match="deadline"):
        await tool.execute(cleared)


async def test_all_of_an_output_is_emitted_and_its_ends_are_kept(shell, run):
    seen: list[str] = []

    async def emit(chunk):
        seen.append(chunk)

    with pytest.raises(PermanentFailure) as caught:
        await run(shell(1000), {"command": "echo first; seq 100000; exit 127"}, emit=emit)
    output = caught.value.output
    assert output.emitted and "".join(seen) == "first\n" + "".join(
        f"{number}\n" for number in range(1, 100_001)
    )
    assert (
        output.text.startswith("first\n1\n")
        and output.text.endswith("\n100000\n")
        and len(output.text) < 1100
    )


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo one; sleep 0.05; echo two >&2; sleep 0.05; echo three", "standard error: lines 2"),
        ("echo one >&2; echo two >&2", "all of it is standard error"),
        ("echo one", None),
    ],
)
async def test_standard_error_is_told_apart(shell, run, command, told):
    notices = (await run(shell(), {"command": command})).notices[1:]
    assert notices == ((told,) if told else ())


async def test_output_is_emitted_as_it_comes(shell, run):
    seen: list[str] = []

    async def emit(chunk):
        seen.append(chunk)

    await run(shell(), {"command": "echo one; sleep 0.05; echo two"}, emit=emit)
    assert "".join(seen) == "one\ntwo\n"


def test_the_deadly_codes_are_those_no_program_uses():
    assert _DEADLY[137] == signal.SIGKILL and not {128, 129, 130, 141, 255} & set(_DEADLY)
