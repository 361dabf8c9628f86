"""Read-only runs: same output as a real run, and attempted writes are reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.security.outcome import PermanentFailure
from leeward.security.policy import Policy
from leeward.security.sandbox import read_only_confinement
from leeward.tools.process import Listener, environment, quiet_environment
from leeward.tools.sandbox import (
    ReadOnlyRan,
    Sandbox,
    SandboxSettings,
    TrialUnavailable,
    no_reading_because,
    open_sandbox,
    run_read_only,
)
from leeward.tools.sandbox import landlock as landlock_module
from leeward.tools.sandbox import read_only as read_only_module
from leeward.tools.sandbox import read_only_probe as probe_module
from leeward.tools.sandbox import sandbox as sandbox_module
from leeward.tools.sandbox import wishes as wishes_module
from leeward.tools.sandbox.program import Program
from leeward.tools.sandbox.quarantine import remove_whole
from leeward.tools.sandbox.seccomp import filter as seccomp
from leeward.tools.sandbox.seccomp.system_calls import CHANGES_ATTRIBUTES, HARMLESS
from loading import toml_of

ROOT = Path(sandbox_module.__file__).resolve().parents[2]
PREFIXES = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), str(ROOT / "tools"))
LEVELS = ("bubblewrap", "landlock")
CASES = toml_of(Path(__file__).with_suffix(".toml"))
TIMES = re.compile(r"\d+\.\d+s")


@pytest.fixture
def place(tmp_path, workspace):
    (tmp_path / "home").mkdir()
    return tmp_path


@pytest.fixture(params=LEVELS)
def level(request) -> str:
    return request.param


@asynccontextmanager
async def sandboxed(place: Path, level: str) -> AsyncIterator[Sandbox]:
    """A sandbox of a level in which something can be run read-only, or a skip with the reason why not."""
    policy = Policy(str(place / "ws"), str(place / "home"))
    async with open_sandbox(
        SandboxSettings(policy, str(place / "aside"), level, prefixes=PREFIXES)
    ) as sandbox:
        if problem := await no_reading_because(sandbox):
            pytest.skip(f"read-only runs are needed: {problem}")
        yield sandbox


def program(sandbox: Sandbox, line: str, seconds: float = 30) -> Program:
    workspace = sandbox.confinement.workspace
    env = environment(sandbox.confinement.home, os.environ)
    argv = ["/bin/bash", "-c", line.replace("{python}", sys.executable)]
    return Program(argv, workspace, env, trio.current_time() + seconds, 100_000)


async def read(sandbox: Sandbox, line: str, **options) -> ReadOnlyRan:
    return await run_read_only(sandbox, program(sandbox, line, **options))


def wished(sandbox: Sandbox, ran: ReadOnlyRan) -> set[str]:
    return {os.path.relpath(path, sandbox.confinement.workspace) for path in ran.wishes}


def handles() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


# ------------------------------------------------------------------ ordinary lines


@pytest.fixture
def project(place, git) -> Path:
    ws = place / "ws"
    git(ws, "init", "-q", "--template=")
    (ws / "module.py").write_text("x = 1\n")
    (ws / "test_module.py").write_text("import module\n\n\ndef test_x() -> None:\n    assert module.x\n")
    git(ws, "add", ".")
    git(ws, "commit", "-q", "-m", "begin")
    (ws / "module.py").write_text("x = 2\n")
    os.utime(ws / "module.py", (1, 1))
    (ws / "folder").mkdir()
    (ws / "folder" / "notes").write_text("x\ny\n")
    return ws


async def test_ordinary_lines_print_what_they_print_without_it_and_wish_nothing(level, project, place):
    async with sandboxed(place, level) as sandbox:
        for line in CASES["ordinary"]["lines"]:
            ran = await read(sandbox, line)
            asked = program(sandbox, line)
            bare = subprocess.run(
                asked.argv, cwd=asked.cwd, env=quiet_environment(asked.env), capture_output=True, text=True
            )
            printed = (ran.ran.finished.stdout, ran.ran.finished.stderr, ran.ran.finished.exit_code)
            expected = (bare.stdout, bare.stderr, bare.returncode)
            assert [TIMES.sub("", str(one)) for one in printed] == [
                TIMES.sub("", str(one)) for one in expected
            ], line
            assert (ran.wishes, ran.is_cut) == ((), False), line


async def test_what_could_never_write_or_writes_elsewhere_is_no_wish(level, project, place):
    async with sandboxed(place, level) as sandbox:
        for line in CASES["harmless"]["lines"]:
            ran = await read(sandbox, line)
            assert wished(sandbox, ran) == set(), line


async def test_wishes_are_named_however_they_are_reached(level, project, place):
    async with sandboxed(place, level) as sandbox:
        for case in CASES["wish"]:
            if level == "bubblewrap" or case.get("below", True):
                ran = await read(sandbox, case["line"])
                assert wished(sandbox, ran) == {*case["paths"]}, (case["line"], ran)


async def test_below_bubblewrap_it_is_told_that_not_all_is_noticed(level, place):
    async with sandboxed(place, level) as sandbox:
        assert (await read(sandbox, "true")).is_unsure == (level == "landlock")


async def test_so_many_wishes_are_named_and_no_more(level, place, monkeypatch):
    monkeypatch.setattr(wishes_module, "_MOST_WISHES", 3)
    async with sandboxed(place, level) as sandbox:
        ran = await read(sandbox, "for i in 1 2 3 4 5; do : > new$i; done 2>/dev/null")
        assert len(ran.wishes) == 3 and ran.is_cut and not list((place / "ws").iterdir())


# ------------------------------------------------------------------ its end


async def test_at_its_deadline_or_cancelled_it_leaves_nothing(level, place):
    async with sandboxed(place, level) as sandbox:
        ran = await read(sandbox, "while :; do : > x; done 2>/dev/null", seconds=1)
        assert ran.ran.finished.timed_out and wished(sandbox, ran) == {"x"}
        with trio.move_on_after(0.5) as scope:
            await read(sandbox, "(while :; do : > x; done) 2>/dev/null & sleep 60")
        assert scope.cancelled_caught
        assert not list((place / "ws").iterdir())


async def test_no_descriptor_is_left(level, place):
    async with sandboxed(place, level) as sandbox:
        await read(sandbox, "true")
        before = handles()
        for line in ("true", "exit 3", ": > x", "no-such-program"):
            await read(sandbox, line)
        with pytest.raises(PermanentFailure):
            await run_read_only(sandbox, Program(["/no/such"], "/", {}, trio.current_time() + 5))
        assert handles() == before


async def test_temporary_files_are_gone_with_it(level, place):
    async with sandboxed(place, level) as sandbox:
        ran = await read(sandbox, 'echo x > "${TMPDIR:-/tmp}/kept"; echo x > ~/kept && ls ~')
        assert (ran.ran.finished.stdout, ran.ran.finished.exit_code) == ("kept\n", 0)
        ran = await read(sandbox, 'ls "${TMPDIR:-/tmp}/kept" ~')
        assert "kept" not in ran.ran.finished.stdout


async def test_temporary_files_go_however_deep_and_closed_they_are(level, place):
    line = """{python} - <<'END'
import os
os.chdir(os.environ.get("TMPDIR", "/tmp"))
os.symlink("/", "link")
os.mkfifo("fifo")
for number in range(1500):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
os.mkdir("closed", 0)
print("made")
END"""
    async with sandboxed(place, level) as sandbox:
        ran = await read(sandbox, line)
        assert ran.ran.finished.stdout == "made\n", ran
        kept = sandbox._late.reading_scratch
        assert not kept or not [*Path(kept).iterdir()]
    assert not kept or not Path(kept).exists()


def test_what_is_removed_whole_leads_nowhere_else(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "top" / "closed" / "deeper").mkdir(parents=True)
    (tmp_path / "top" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "top" / "closed" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "top" / "closed").chmod(0)
    (tmp_path / "way").symlink_to(tmp_path / "kept")
    remove_whole(str(tmp_path / "way"))
    remove_whole(str(tmp_path / "top"))
    remove_whole(str(tmp_path / "gone"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept", "way"]


async def test_a_look_that_hangs_holds_nothing_up(level, place, monkeypatch):
    gate = threading.Event()

    def hangs(_):
        gate.wait(60)
        return iter(())

    async with sandboxed(place, level) as sandbox:
        monkeypatch.setattr(read_only_module, "_LONGEST_LOOK", 0.1)
        monkeypatch.setattr(wishes_module._Call, "wished", hangs)
        try:
            with trio.fail_after(20):
                ran = await read(sandbox, ": > x", seconds=0.5)
            assert ran.ran.finished.timed_out
        except PermanentFailure as error:
            assert level == "bubblewrap", error
        finally:
            gate.set()


async def test_a_program_that_is_closed_to_others_is_said_to_wish_for_more(place):
    if os.geteuid() == 0:
        pytest.skip("nothing is closed to root")
    async with sandboxed(place, "landlock") as sandbox:
        line = '{python} -c \'import ctypes; ctypes.CDLL(None).prctl(4, 0); open("new", "w")\''
        ran = await read(sandbox, line)
        assert ran.is_cut and ran.wishes == ()


async def test_once_nobody_listens_what_would_write_fails(level, place, monkeypatch):
    def deaf(self):
        os.close(self._arrived())

    async with sandboxed(place, level) as sandbox:
        monkeypatch.setattr(wishes_module.Wishes, "listen", deaf)
        try:
            ran = await read(sandbox, ": > x; mkdir y; echo end")
            assert ran.wishes == () and "end" in ran.ran.finished.stdout
        except PermanentFailure as error:
            # Bubblewrap itself could not make its folders.
            assert level == "bubblewrap", error
        assert not list((place / "ws").iterdir())


async def test_where_the_kernel_tells_nobody_of_calls_there_is_none(level, place, monkeypatch):
    async with sandboxed(place, level) as sandbox:
        wanted = Listener.wanted
        monkeypatch.setattr(Listener, "wanted", lambda self: {**wanted(self), "filter": "00" * 8})
        with pytest.raises(TrialUnavailable, match="does not report system calls"):
            await read(sandbox, "true")
        sandbox.reading = type(sandbox.reading)()
        assert "does not report" in await no_reading_because(sandbox)


async def test_secrets_and_what_git_stores_are_closed_to_it(level, project, place):
    (project / ".env").write_text("KEY=canary\n")
    async with sandboxed(place, level) as sandbox:
        asked = program(sandbox, "cat .env; cat module.py; ls .git/objects; git log")
        ran = await run_read_only(sandbox, asked, [str(project / ".git" / "objects")])
        assert "canary" not in ran.ran.finished.output and "x = 2" in ran.ran.finished.stdout
        assert "begin" not in ran.ran.finished.output


# ------------------------------------------------------------------ the probe


def _attributes(monkeypatch):
    monkeypatch.setattr(seccomp, "CHANGES_ATTRIBUTES", [])
    monkeypatch.setattr(seccomp, "HARMLESS", [*HARMLESS, *CHANGES_ATTRIBUTES])


def _signals(monkeypatch):
    """Landlock keeps signals in from version 6 on."""
    monkeypatch.setattr(landlock_module, "landlock_version", lambda: 5)
    reading = seccomp.reading_program
    monkeypatch.setattr(landlock_module, "reading_program", lambda _: reading(6))


def _length(monkeypatch):
    """Landlock keeps files from being cut short from version 3 on."""
    monkeypatch.setattr(landlock_module, "landlock_version", lambda: 2)
    monkeypatch.setattr(seccomp, "_CUTS_SINCE", 1)


def _sockets(monkeypatch):
    families = seccomp.Sockets.isolated()
    monkeypatch.setattr(seccomp.Sockets, "shared", classmethod(lambda _, network: families))
    monkeypatch.setattr(seccomp, "HARMLESS", [*HARMLESS, "socket", "connect", "bind"])


def _flags(monkeypatch):
    monkeypatch.setattr(seccomp, "_QUESTIONS", (*seccomp._QUESTIONS, 0x40086602))


def _shared_memory(monkeypatch):
    monkeypatch.setattr(seccomp, "HARMLESS", [*HARMLESS, "shmget"])


def _anything(monkeypatch):
    program = seccomp.filter_program(seccomp.Sockets.isolated())
    monkeypatch.setattr(landlock_module, "reading_program", lambda _: program)


def _processes(monkeypatch):
    grants = landlock_module.landlock_grants
    monkeypatch.setattr(
        landlock_module, "landlock_grants", lambda *words, **_: grants(*words, sees_processes=True)
    )


WEAKENED = (_attributes, _signals, _length, _sockets, _flags, _shared_memory, _anything, _processes)


@pytest.mark.parametrize("weaken", WEAKENED, ids=lambda one: one.__name__.strip("_"))
async def test_a_weaker_filter_below_bubblewrap_is_found_out(weaken, place, monkeypatch):
    async with sandboxed(place, "landlock"):
        pass
    weaken(monkeypatch)
    async with open_sandbox(
        SandboxSettings(
            Policy(str(place / "ws"), str(place / "home")), str(place / "a"), "landlock", prefixes=PREFIXES
        )
    ) as sandbox:
        problem = await no_reading_because(sandbox)
        assert "a read-only run" in problem, problem


@pytest.mark.parametrize("what", ["workspace", "network"])
async def test_a_weaker_mount_at_bubblewrap_is_found_out(what, place, planted, monkeypatch):
    async with sandboxed(place, "bubblewrap") as sandbox:
        sandbox.reading = type(sandbox.reading)()
        if what == "workspace":
            monkeypatch.setattr(
                probe_module, "read_only_confinement", planted("read_only").read_only_confinement
            )
            real = probe_module.confined

            async def confined(sandbox, program, confinement, masks):
                changed = probe_module.replace(confinement, writable=(confinement.workspace,))
                return await real(sandbox, program, changed, masks)

            monkeypatch.setattr(probe_module, "confined", confined)
        else:

            def shared(confinement):
                return probe_module.replace(read_only_confinement(confinement), network=True)

            monkeypatch.setattr(probe_module, "read_only_confinement", shared)
        assert "a read-only run" in await no_reading_because(sandbox)


async def test_it_is_found_out_once_and_leaves_nothing(level, place, monkeypatch):
    async with sandboxed(place, level) as sandbox:
        monkeypatch.setattr(probe_module, "confined", None)
        assert await no_reading_because(sandbox) == ""
    assert not list((place / "ws").iterdir())


async def test_without_a_sandbox_there_is_none_and_it_is_said_why(place):
    settings = SandboxSettings(Policy(str(place / "ws"), str(place / "home")), str(place / "a"), "none")
    async with open_sandbox(settings) as sandbox:
        assert "read-only runs need a sandbox" in await no_reading_because(sandbox)
