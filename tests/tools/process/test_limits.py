"""Limits of commands hold on every level and are reported; ordinary programs are unaffected."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.security.outcome import LimitExceeded
from leeward.security.policy import Policy
from leeward.tools.process import (
    Exceeded,
    Groups,
    Limits,
    SupervisedStart,
    Supervisor,
    environment,
    find_groups,
    run_process,
)
from leeward.tools.process import cgroup as cgroups_module
from leeward.tools.process import supervisor as supervisor_module
from leeward.tools.process.environment import Resource
from leeward.tools.process.supervisor import reported_behind
from leeward.tools.sandbox import SandboxSettings, open_sandbox
from leeward.tools.sandbox import sandbox as confined_module
from leeward.tools.shell import Shell

TOOLS = str(Path(confined_module.__file__).resolve().parents[1])
PREFIXES = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), TOOLS)
LEVELS = ("bubblewrap", "landlock", "none")
MEMORY, TASKS = 96 << 20, 150
SMALL = Limits(memory=MEMORY, tasks=TASKS)
KILLED = {resource: Exceeded(resource, SMALL.bound(resource)) for resource in Resource}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a tree takes")


@asynccontextmanager
async def sandboxed(place: Path, level: str, limits: Limits = SMALL):
    for name in ("ws", "home"):
        (place / name).mkdir(exist_ok=True)
    policy = Policy(str(place / "ws"), str(place / "home"))
    settings = SandboxSettings(policy, str(place / "aside"), level, prefixes=PREFIXES, limits=limits)
    async with open_sandbox(settings) as sandbox:
        if sandbox.level != level:
            pytest.skip("; ".join(sandbox.weaker_because))
        yield sandbox


async def bash(sandbox, script, seconds=30.0, **options):
    ran = await sandbox.run(
        ["/bin/bash", "-c", script],
        cwd=sandbox.confinement.workspace,
        env=environment(sandbox.confinement.home, os.environ),
        deadline=trio.current_time() + seconds,
        max_bytes=100_000,
        **options,
    )
    return ran.finished


def python(code: str) -> str:
    return f"{sys.executable} -I -S -c '{code}'"


FILL = "x = b'x' * {}; import time; time.sleep(60)".replace("'", '"')
WRITE = "while f.write(bytes(1 << 20)): pass"
MEMFD = 'import os; f = open(os.memfd_create("x"), "wb", 0)'
SHARED = "import mmap, time; m = mmap.mmap(-1, 400_000_000); m.write(bytes(400_000_000)); time.sleep(60)"

SENT = """
import array, os, socket, time
a, b = socket.socketpair()
for _ in range(300):
    f = os.memfd_create("x")
    os.write(f, bytes(1 << 20))
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f]))])
    os.close(f)
    time.sleep(0.001)
time.sleep(60)
""".replace('"', '\\"')

HOGS = {
    "at once": python(FILL.format(400_000_000)),
    "bit by bit": python("x = []\nwhile True: x.append(bytes(100_000))"),
    "in a session of its own": f"setsid {python(FILL.format(400_000_000))} & sleep 60",
    # That is whoever started it: how much is taken before the line itself ends is a matter of the machine.
    "when the program has ended": f"(setsid {python(FILL.format(400_000_000))} &) ; sleep 60",
    "a little in each of many": f"for i in {{1..20}}; do {python(FILL.format(9_000_000))} & done; wait",
    "shared among processes": python(SHARED),
    "in a file without a name": python(f"{MEMFD}\n{WRITE}"),
    "in files on their way through a socket": f'{sys.executable} -I -S -c "{SENT}"',
    "under a name that reads like an amount": python(
        f'import ctypes; ctypes.CDLL(None).prctl(15, b"x kB"); {FILL.format(400_000_000)}'
    ),
    "in page tables": python(
        "import mmap, time\nm = mmap.mmap(-1, 1 << 38, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | "
        "0x4000)\n"
        "for at in range(0, 1 << 38, 1 << 21): m[at]"
    ),
    "after stopping its reaper": f"kill -STOP $PPID; {python(FILL.format(400_000_000))}",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", [how for how in HOGS if not how.startswith("after")])
async def test_what_takes_too_much_memory_is_killed_and_that_is_told(tmp_path, level, how):
    async with sandboxed(tmp_path, level) as sandbox:
        finished = await bash(sandbox, HOGS[how])
        assert (finished.exceeded, finished.timed_out, finished.left) == (
            KILLED[Resource.MEMORY],
            False,
            False,
        )
        assert (await bash(sandbox, "echo next")).output == "next\n"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/run", "/var/tmp", "$HOME"])
async def test_files_in_the_memory_of_a_sandbox_count(tmp_path, folder):
    async with sandboxed(tmp_path, "bubblewrap") as sandbox:
        finished = await bash(sandbox, f"head -c 300M /dev/zero > {folder}/x; echo $?; sleep 60", seconds=20)
        assert finished.exceeded == KILLED[Resource.MEMORY], finished.output


@pytest.mark.parametrize("name", ["a b", r"a\rb", r"a\nb", r"a\\040b", r"a\377b"])
async def test_files_in_memory_that_a_program_mounted_count_whatever_the_place_is_called(tmp_path, name):
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to mount something with")
    mounted = f'place=$(printf \'{name}\'); mkdir "$place"; mount -t tmpfs none "$place" || exit 77'
    script = f'{mounted}; head -c 300M /dev/zero > "$place/x"; sleep 60'
    async with sandboxed(tmp_path, "none") as sandbox:
        finished = await bash(
            sandbox, f"exec unshare --user --map-root-user --mount bash -c {shlex.quote(script)}"
        )
        if finished.exit_code in {1, 77}:
            pytest.skip("this system lets nobody mount in a namespace of their own")
        assert (finished.exceeded, finished.left) == (KILLED[Resource.MEMORY], False), finished.output


async def test_files_in_several_such_folders_count_together(tmp_path):
    script = "for d in /tmp /run /var/tmp; do head -c 60M /dev/zero > $d/x; done; sleep 60"
    async with sandboxed(tmp_path, "bubblewrap") as sandbox:
        assert (await bash(sandbox, script, seconds=20)).exceeded == KILLED[Resource.MEMORY]


async def test_nothing_can_be_left_among_the_devices_of_a_sandbox(tmp_path):
    async with sandboxed(tmp_path, "bubblewrap") as sandbox:
        script = (
            "echo x > /dev/new || echo refused; echo x > /dev/null && echo x > /dev/shm/x && cat /dev/shm/x"
        )
        assert (await bash(sandbox, script)).stdout == "refused\nx\n"


@pytest.mark.parametrize("level", ["landlock", "none"])
async def test_who_stops_what_counts_is_ended(tmp_path, level):
    async with sandboxed(tmp_path, level) as sandbox:
        finished = await bash(sandbox, HOGS["after stopping its reaper"])
        assert (finished.exit_code, finished.timed_out, finished.left) == (None, False, False)
        assert (await bash(sandbox, "echo next")).output == "next\n"


async def test_who_stops_its_reaper_at_once_is_ended(tmp_path, monkeypatch):
    """Before the reaper does anything after its program began."""
    slow = tmp_path / "reaper.py"
    slow.write_text(
        "import os, runpy, time\n"
        "fork = os.fork\n"
        "def fork_slowly():\n"
        "    child = fork()\n"
        "    time.sleep(0.5 if child else 0)\n"
        "    return child\n"
        "os.fork = fork_slowly\n"
        f"runpy.run_path({supervisor_module._REAPER!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(supervisor_module, "_REAPER", str(slow))
    async with sandboxed(tmp_path, "none") as sandbox:
        with trio.fail_after(30):
            finished = await bash(sandbox, "kill -STOP $PPID; sleep 60")
        assert (finished.exit_code, finished.timed_out, finished.left) == (None, False, False)


async def test_a_supervisor_that_a_program_stopped_goes_on(tmp_path):
    async with sandboxed(tmp_path, "none") as sandbox:
        script = "kill -STOP $(ps -o ppid= -p $PPID); echo stopped"
        with trio.fail_after(30):
            assert (await bash(sandbox, script)).output == "stopped\n"
            assert (await bash(sandbox, "echo next")).output == "next\n"


BOMBS = {
    "the shell's own": ":(){ :|:& };:; sleep 60",
    "that stays": "f(){ f & f & sleep 60; }; f",
    "a loop": python("import os\nwhile True: os.fork()"),
    "threads": python(
        "import threading, time\nfor _ in range(1000): threading.Thread(target=time.sleep, "
        "args=(60,)).start()"
    ),
    "that are quiet": f"for i in {{1..{TASKS + 50}}}; do sleep 60 & done; wait",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", BOMBS)
async def test_too_many_processes_are_killed_and_that_is_told(tmp_path, level, how):
    async with sandboxed(tmp_path, level, Limits(tasks=TASKS)) as sandbox:
        finished = await bash(sandbox, BOMBS[how], seconds=60)
        assert finished.exceeded == Exceeded(Resource.PROCESSES, TASKS)
        assert not (finished.timed_out or finished.left)
        assert (await bash(sandbox, "echo next")).output == "next\n"


@pytest.mark.parametrize("level", LEVELS)
async def test_many_that_want_the_processor_are_gone_at_the_deadline(tmp_path, level):
    script = "for i in {1..40}; do setsid sh -c 'while :; do :; done' & done; wait"
    async with sandboxed(tmp_path, level) as sandbox:
        finished = await bash(sandbox, script, seconds=3)
        assert (finished.timed_out, finished.left, finished.exceeded) == (True, False, None)
        assert (await bash(sandbox, "echo next")).output == "next\n"


SHARING = """
import os, time
x = b"x" * 40_000_000
children = []
for _ in range(6):
    pid = os.fork()
    if not pid:
        time.sleep(1)
        os._exit(0)
    children.append(pid)
print(sum(os.waitpid(pid, 0)[1] for pid in children))
"""
RESERVING = "import mmap; m = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)"
ORDINARY = {
    "memory below the bound": python("x = bytes(30_000_000); import time; time.sleep(0.3)"),
    "memory that processes share": python(SHARING),
    "memory that is only reserved": python(RESERVING),
    "a large file": "head -c 300M /dev/zero > big && cat big > /dev/null && rm big",
    "a large file that is mapped": "head -c 200M /dev/zero > big; "
    + python('import mmap; f = open("big", "rb"); m = mmap.mmap(f.fileno(), 0, access=1); sum(m[::4096])')
    + " && rm big",
    "a small file in memory": "f=$(mktemp) && head -c 20M /dev/zero > $f && wc -c $f && rm $f",
    "many processes one after another": "for i in {1..400}; do /bin/true; done",
    "a parallel build": 'printf "all: %s\\n" "$(echo t{1..60})" > Makefile; '
    'printf "t%%:\\n\\t@sleep 0.05; echo $@\\n" >> Makefile; make -s -j 20 > /dev/null',
    "a repository": (
        "git init -q r && cd r && seq 5000 > f && git add f && git gc -q && git status --short > /dev/null"
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", ORDINARY)
async def test_ordinary_programs_are_let_be(tmp_path, level, what):
    if what == "a parallel build" and shutil.which("make") is None:
        pytest.skip("make is not installed")
    async with sandboxed(tmp_path, level) as sandbox:
        finished = await bash(sandbox, f"set -e; {ORDINARY[what]}")
        assert (finished.exit_code, finished.exceeded) == (0, None), finished.output


@pytest.mark.parametrize("level", LEVELS)
async def test_what_reserves_much_runs_within_the_default(tmp_path, level):
    node = shutil.which("node", path="/usr/bin:/usr/local/bin")
    if node is None:
        pytest.skip("node is not installed")
    async with sandboxed(tmp_path, level, Limits()) as sandbox:
        finished = await bash(sandbox, f"{node} -e 'console.log([...Array(1e6).keys()].length)'")
        assert (finished.stdout, finished.exceeded) == ("1000000\n", None)


# ------------------------------------------------------------------ how it is told


@pytest.mark.parametrize(
    ("exceeded", "told"),
    [
        (
            Exceeded(Resource.MEMORY, 4 << 30),
            "killed: the command used more than 4.0 GiB of memory ([tools.shell] memory",
        ),
        (Exceeded(Resource.MEMORY, 96 << 20), "killed: the command used more than 96.0 MiB of memory"),
        (Exceeded(Resource.MEMORY, 100), "killed: the command used more than 100 bytes of memory"),
        (
            Exceeded(Resource.PROCESSES, 1280),
            "killed: the command ran more than 1280 processes and threads at once",
        ),
    ],
)  # fmt: skip
def test_a_bound_is_told_with_what_to_do(exceeded, told):
    assert str(exceeded).startswith(told) and "; " in str(exceeded)


async def test_the_model_is_told_which_limit_ended_its_command(tmp_path, clear):
    async with sandboxed(tmp_path, "none") as sandbox:
        shell = Shell(
            str(tmp_path / "ws"), environment("/nowhere", os.environ), 30.0, 100_000, runner=sandbox.run
        )
        (tool,) = shell.tools()
        cleared = await clear(tool, {"command": f"echo begun; {HOGS['at once']}"}, timeout=30)
        with pytest.raises(
            LimitExceeded, match=r"killed: .* 96\.0 MiB of memory \(\[tools\.shell\]"
        ) as caught:
            await tool.execute(cleared)
        assert caught.value.category == "limit_exceeded" and not caught.value.category.retryable
        assert caught.value.output.text == "begun\n"


def test_by_default_it_is_half_of_the_machine_and_at_most_four_gib(monkeypatch):
    for pages, expected in ((1 << 18, 1 << 29), (1 << 26, 4 << 30), (-1, 4 << 30)):
        monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": pages, "SC_PAGE_SIZE": 4096}.__getitem__)
        assert Limits().memory == Limits.of(0).memory == expected
    assert Limits.of(12345).memory == 12345


# ------------------------------------------------------------------ control groups

FILES = {
    "cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "memory pids\n", "cgroup.procs": "",
    "cgroup.kill": "", "memory.max": "max", "memory.swap.max": "max", "memory.oom.group": "0",
    "memory.events": "low 0\noom 0\noom_kill 0\n", "pids.max": "max", "cpu.weight": "100",
}  # fmt: skip


def fill(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).write_text(content)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Folders that behave like the kernel's as far as a folder can, and what a process in it is told."""
    top, proc = tmp_path / "fs", tmp_path / "proc"
    (top / "user/app").mkdir(parents=True)
    proc.mkdir()
    for folder in (top, top / "user", top / "user/app"):
        fill(folder)
    (proc / "cgroup").write_text("0::/user/app\n")
    (proc / "mountinfo").write_text(f"30 23 0:26 / {top} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n")
    real = Path.mkdir, Path.rmdir

    def mkdir(self, *args, **options):
        real[0](self, *args, **options)
        fill(self)

    def rmdir(self):
        for name in FILES:
            (self / name).unlink()
        real[1](self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
    return top, proc


def test_groups_are_made_where_controllers_are_handed_on(tree):
    top, proc = tree
    groups = find_groups(proc)
    assert isinstance(groups, Groups) and groups.folder == top / "user/app"
    assert not list(groups.folder.glob("leeward-*"))


def test_groups_are_made_beside_ours_where_ours_cannot_hand_controllers_on(tree, monkeypatch):
    top, proc = tree
    (top / "user/app/cgroup.subtree_control").write_text("")
    real = cgroups_module._write

    def write(folder, name, value):
        if name == "cgroup.subtree_control":
            raise OSError(16, "Device or resource busy")
        real(folder, name, value)

    monkeypatch.setattr(cgroups_module, "_write", write)
    groups = find_groups(proc)
    assert isinstance(groups, Groups) and groups.folder == top / "user"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("no v2", "no cgroup v2"), ("elsewhere", "no cgroup v2"),
        ("no controllers", "memory, pids are not handed on"),
        ("missing file", "memory.max"), ("nothing", "no cgroup v2"),
    ],
)  # fmt: skip
def test_where_no_groups_can_be_made_it_is_told_why(tree, monkeypatch, broken, why):
    top, proc = tree
    if broken == "no v2":
        (proc / "cgroup").write_text("4:memory:/x\n0::/\n")
        (proc / "mountinfo").write_text("30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    elif broken == "elsewhere":
        (proc / "mountinfo").write_text(f"30 23 0:26 /other {top} rw - cgroup2 cgroup2 rw\n")
    elif broken == "nothing":
        (proc / "cgroup").unlink()
    for folder in (top / "user", top / "user/app"):
        if broken == "no controllers":
            (folder / "cgroup.controllers").write_text("cpu\n")
    if broken == "missing file":
        monkeypatch.delitem(FILES, "memory.max")
    assert why in str(find_groups(proc))


def test_a_group_is_given_every_limit(tree):
    top, _ = tree
    group = Groups(top).make(SMALL)
    told = {name: (group.folder / name).read_text() for name in FILES}
    os.close(group.entrance)
    assert told["memory.max"].startswith(str(MEMORY)) and told["memory.swap.max"][0] == "0"
    assert told["memory.oom.group"] == "1" and int(told["pids.max"]) >= TASKS


async def test_a_program_is_in_its_group_before_it_begins_and_the_group_goes_with_it(tree):
    top, _ = tree
    supervisor = await Supervisor.started()
    own = top / f"leeward-{os.getpid()}-0"
    script = f"cat {own}/cgroup.procs; echo oom_kill 1 > {own}/memory.events; kill -KILL $$"
    starter = SupervisedStart(supervisor, SMALL, Groups(top))
    env = environment("/nowhere", {})
    deadline = trio.current_time() + 30
    finished = await run_process(
        ["/bin/sh", "-c", script], cwd="/", env=env, deadline=deadline, max_bytes=9999, starter=starter
    )
    assert (finished.output, finished.signal, finished.exceeded) == ("0", 9, KILLED[Resource.MEMORY])
    assert not list(top.glob("leeward-*"))
    await supervisor.aclose()


def test_groups_that_a_killed_runtime_left_are_removed(tree):
    top, proc = tree
    left, ours = top / "user/app/leeward-99999999-0", top / f"user/app/leeward-{os.getpid()}-7"
    for folder in (left, ours):
        folder.mkdir()
    find_groups(proc)
    assert (left.exists(), ours.exists()) == (False, True)


async def test_where_groups_only_seem_to_work_the_reaper_counts(tree, tmp_path, monkeypatch):
    top, _ = tree
    real = Groups.make

    def make(self, limits):
        group = real(self, limits)
        os.close(group.entrance)
        entrance = os.open(os.devnull, os.O_RDONLY)
        return type(group)(group.folder, entrance)

    monkeypatch.setattr(Groups, "make", make)
    monkeypatch.setattr(confined_module, "find_groups", lambda: Groups(top))
    async with sandboxed(tmp_path, "none") as sandbox:
        assert "Bad file descriptor" in sandbox.uncounted_because
        assert (await bash(sandbox, HOGS["at once"])).exceeded == KILLED[Resource.MEMORY]


async def test_the_kernel_holds_a_command_where_it_can(tmp_path, monkeypatch):
    found = find_groups()
    if isinstance(found, str):
        pytest.skip(f"no control groups can be made here: {found}")
    groups_of, counted = Groups.make, Limits(memory=1 << 50)
    # Only the group knows the small bound: whoever counts from outside would let it go on.
    monkeypatch.setattr(Groups, "make", lambda self, _limits: groups_of(self, SMALL))
    async with sandboxed(tmp_path, "none", counted) as sandbox:
        assert sandbox.uncounted_because == ""
        finished = await bash(sandbox, HOGS["at once"])
        assert finished.exceeded == Exceeded(Resource.MEMORY, counted.bound(Resource.MEMORY))
        assert not (finished.timed_out or finished.left)


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        (b"reaper 1\nprogram 2\nended 0\n", b""),
        (b"reaper 1\nlimit mem", b""),
        (b"reaper 1\nlimit memory\nended 9\n", b"memory"),
    ],
)
def test_a_reaper_tells_a_bound_only_where_it_was_exceeded(said, limit):
    assert reported_behind(b"limit", said) == limit
