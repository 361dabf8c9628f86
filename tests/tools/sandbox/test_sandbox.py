"""The sandbox: ordinary work runs, tampering is undone and reported, the strongest level is found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.policy import Policy, Sandboxing
from leeward.security.sandbox import Mark, MarkChange, MarkKind, Role
from leeward.tools.process import SupervisedProcess, children, environment, find_programs
from leeward.tools.sandbox import Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox, self_test
from leeward.tools.sandbox import landlock as landlock_module
from leeward.tools.sandbox import sandbox as confined_module
from leeward.tools.sandbox.quarantine import undo
from leeward.tools.sandbox.scan import WorkspaceScan
from leeward.tools.sandbox.seccomp import MACHINES, Sockets, filter_program
from leeward.tools.sandbox.service import Service, open_service
from leeward.tools.sandbox.supervisors import Spawner
from leeward.tools.shell import Shell
from loading import rows_beside

ROWS = rows_beside(__file__)

TOOLS = str(Path(confined_module.__file__).resolve().parents[1])
PREFIXES = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), TOOLS)
LEVELS = ("bubblewrap", "landlock", "none")


@pytest.fixture
def place(tmp_path, workspace):
    (tmp_path / "home").mkdir()
    return tmp_path


@asynccontextmanager
async def sandboxed(place: Path, level: str, alert=lambda _: None, **wished) -> AsyncIterator[Sandbox]:
    policy = Policy(str(place / "ws"), str(place / "home"), sandbox=Sandboxing(**wished))
    async with open_sandbox(
        SandboxSettings(policy, str(place / "aside"), level, prefixes=PREFIXES, alert=alert)
    ) as sandbox:
        if sandbox.level != level:
            pytest.skip("; ".join(sandbox.weaker_because))
        yield sandbox


async def bash(sandbox: Sandbox, script: str, **options):
    ws = sandbox.confinement.workspace
    env = environment(sandbox.confinement.home, os.environ)
    return await sandbox.run(
        ["/bin/bash", "-c", script],
        **{"cwd": ws, "env": env, "deadline": trio.current_time() + 30, "max_bytes": 100_000, **options},
    )


# ------------------------------------------------------------------ what must work

ORDINARY = {
    "files": (
        "mkdir -p a/b && echo x > a/b/f && mv a/b/f a/g && chmod 755 a/g && ln -s g a/l && cat a/l && rm -r "
        "a && test ! -e a"
    ),
    "temporary files": "f=$(mktemp) && echo x > $f && cat $f && cat <<< here",
    "a home to write to": "mkdir -p ~/.cache/x && echo x > ~/.cache/x/f && cat ~/.cache/x/f",
    "pipes and jobs": "seq 1000 | sort -r | head -n 1; (sleep 0.01; echo x) & wait",
    "its own processes": "sleep 30 & kill $! && ps -o pid= -p $$ && test -r /proc/self/status",
    "the interpreter": (
        f"{sys.executable} -c 'import json, ssl, sqlite3, threading; threading.Thread(target=print, "
        f"args=(1,)).start()'"
    ),
    "several processes": (
        f"{sys.executable} -c 'import subprocess; print(subprocess.run([\"true\"]).returncode)'"
    ),
    "socket pairs": (
        f"{sys.executable} -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))'"
    ),
    "devices": (
        "head -c 8 /dev/urandom | wc -c; echo x > /dev/null; head -c 1 /dev/zero | wc -c; echo x > "
        "/dev/stderr"
    ),
    "the system": "test -r /etc/passwd && id && date && uname -a && ls /usr/bin | wc -l",
    "a repository": (
        "git init -q r && cd r && git config --get core.bare; echo x > f && git add f && git -c user.name=a "
        "-c user.email=a@b commit -qm x && git log --oneline && git status --short"
    ),
    "a copy of a repository": "git init -q --bare b && git clone -q b c && test -d c/.git",
    "a further tree of one": (
        "cd old && git worktree add -q ../tree && cd ../tree && git status --short && git log --oneline"
    ),
    "work in a repository": (
        "cd old && echo y > new && git add new && git -c user.name=a -c user.email=a@b commit -qm y && git "
        "checkout -q -b other && git stash list && git log --oneline"
    ),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", ORDINARY)
async def test_ordinary_work_goes_on(git, what, level, place):
    old = place / "ws" / "old"
    old.mkdir()
    git(old, "init", "-q", "--template=")
    git(old, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    async with sandboxed(place, level) as sandbox:
        ran = await bash(sandbox, f"set -e -o pipefail; trap 'echo at $LINENO' ERR; {ORDINARY[what]}")
    assert ran.finished.exit_code == 0, ran.finished.output
    assert ran.blocked == ()


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_of_what_lies_beside_toolchains_no_secret_is_read(level, place):
    home = place / "home"
    open_too = (
        "go/pkg/mod/lib.go",
        "go/bin/tool",
        ".local/lib/x.py",
        ".local/share/uv/tools/t",
        ".dotnet/sdk/x",
    )
    shut = (
        "go/src/app/.env", "go/src/app/main.go", ".local/share/uv/credentials/c.toml",
        ".local/share/kwalletd/k.kwl",
        ".local/share/python_keyring/keyring_pass.cfg", ".local/share/containers/auth.json",
        ".local/share/atuin/key",
        ".local/share/fish/fish_history", ".local/share/jupyter/runtime/jupyter_cookie_secret",
        ".dotnet/corefx/cryptography/x509stores/my/a.pfx",
    )  # fmt: skip
    for name in (*open_too, *shut):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"<{name}>\n")
    async with sandboxed(place, level) as sandbox:
        ran = await bash(sandbox, f"cd {home}; cat {' '.join((*open_too, *shut))}")
    assert set(re.findall("<(.*)>", ran.finished.stdout)) == {*open_too}


@pytest.mark.parametrize("level", LEVELS)
async def test_toolchains_of_the_home_work_and_cannot_be_changed(level, place):
    tool = place / "home" / ".cargo" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho works\n")
    tool.chmod(0o755)
    async with sandboxed(place, level) as sandbox:
        programs = find_programs(
            {"PATH": f"{tool.parent}:/usr/bin"}, Policy(str(place / "ws"), str(place / "home"))
        )
        env = {**environment(str(place / "home"), {}), "PATH": programs.path}
        ran = await bash(sandbox, "tool; cat ~/.cargo/bin/tool | head -n 1", env=env)
    assert ran.finished.stdout == "works\n#!/bin/sh\n"


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_what_the_person_adds_can_be_read_or_changed(level, place):
    for name in ("readable", "writable", "neither"):
        (place / name).mkdir()
        (place / name / "f").write_text(f"{name}\n")
        (place / name / ".env").write_text("secret\n")
    script = f"cd {place}; cat */f */.env; for d in readable writable neither; do echo new > $d/f; done"
    async with sandboxed(
        place, level, extra_read=(str(place / "readable"),), extra_write=(str(place / "writable"),)
    ) as sandbox:
        assert not sandbox.confinement.changes_workspace_only
        ran = await bash(sandbox, script)
    # Below Landlock a folder that holds something closed cannot be listed, so its entries are granted.
    assert "readable" in ran.finished.stdout or level == "landlock"
    assert "secret" not in ran.finished.stdout and "neither" not in ran.finished.stdout
    assert {name: (place / name / "f").read_text() for name in ("readable", "writable", "neither")} == {
        "readable": "readable\n", "writable": "new\n", "neither": "neither\n",
    }  # fmt: skip


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_a_file_of_the_home_can_be_named(level, place):
    (place / "home" / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n")
    (place / "home" / ".config" / "tool").mkdir(parents=True)
    (place / "home" / ".config" / "tool" / "rc").write_text("works\n")
    named = (str(place / "home" / ".gitconfig"), str(place / "home" / ".config" / "tool"))
    script = (
        "git init -q r && cd r && git commit -q --allow-empty -m x && git log -1 --format=%an; cat "
        "~/.config/tool/rc; echo x > ~/.gitconfig"
    )
    async with sandboxed(place, level, extra_read=named) as sandbox:
        ran = await bash(sandbox, script)
    assert ran.finished.stdout == "Ada\nworks\n" and ran.blocked == ()
    assert "Ada" in (place / "home" / ".gitconfig").read_text()


async def test_a_home_that_is_the_workspace_keeps_its_secrets(place):
    """Whoever works in their home has it open but for what is secret or runs at start."""
    home = place / "home"
    for name, text in {
        ".ssh/id_rsa": "secret\n",
        ".bashrc": "true\n",
        ".cargo/bin/tool": "tool\n",
        "notes": "notes\n",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    policy = Policy(str(home), str(home))
    async with open_sandbox(SandboxSettings(policy, str(place / "aside"), prefixes=PREFIXES)) as sandbox:
        if sandbox.level != "bubblewrap":
            pytest.skip("; ".join(sandbox.weaker_because))
        ran = await bash(
            sandbox,
            (
                "cat notes .ssh/id_rsa; echo x > notes; echo x > .bashrc; echo x > .cargo/bin/tool; echo x "
                "> .zshrc; ls -A"
            ),
        )
    assert "secret" not in ran.finished.stdout and (home / "notes").read_text() == "x\n"
    assert (home / ".bashrc").read_text() == "true\n" and (home / ".cargo/bin/tool").read_text() == "tool\n"
    assert not (home / ".zshrc").exists() and ".zshrc appeared" in ran.blocked[0]


# ------------------------------------------------------------------ what is undone


@pytest.mark.parametrize("level", LEVELS)
async def test_what_appears_is_moved_aside_and_told_of(level, place):
    told = []
    async with sandboxed(place, level, alert=told.append) as sandbox:
        ran = await bash(sandbox, "git init -q r; cp /bin/true r/.git/hooks/pre-commit; echo kept > r/file")
        (sentence,) = ran.blocked
        assert (
            told == [f"blocked: {sentence}"]
            and "r/.git/hooks/pre-commit appeared and was moved to" in sentence
        )
        where = Path(re.search(r"moved to (.*)$", sentence)[1])
        assert where.parent.parent == place / "aside" and where.read_bytes() == Path("/bin/true").read_bytes()
        assert not (place / "ws/r/.git/hooks/pre-commit").exists() and (place / "ws/r/file").exists()
        assert (await bash(sandbox, "true")).blocked == ()


@pytest.mark.parametrize("level", ["landlock", "none"])
async def test_what_was_changed_is_put_back_as_it_was(git, level, place):
    repository = place / "ws" / "r"
    repository.mkdir()
    git(repository, "init", "-q", "--template=")
    (repository / ".git/hooks").mkdir(exist_ok=True)
    hook = repository / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o711)
    config = (repository / ".git/config").read_bytes()
    async with sandboxed(place, level) as sandbox:
        ran = await bash(
            sandbox, "cd r; git config alias.x '!id'; rm .git/hooks/pre-push; mkdir .git/hooks/pre-push"
        )
        assert len(ran.blocked) == 2 and all("was put back" in sentence for sentence in ran.blocked)
        assert (repository / ".git/config").read_bytes() == config
        assert hook.read_text() == "#!/bin/sh\n" and hook.stat().st_mode & 0o777 == 0o711
        gone = await bash(sandbox, "rm -rf r")
        assert gone.blocked == () and not repository.exists()


async def test_at_bubblewrap_what_the_person_changes_meanwhile_stays(git, place):
    """What was there is mounted read-only: only somebody out here can have changed it."""
    repository = place / "ws" / "r"
    repository.mkdir()
    git(repository, "init", "-q", "--template=")
    async with sandboxed(place, "bubblewrap") as sandbox, trio.open_nursery() as nursery:
        ran = []

        async def run():
            ran.append(await bash(sandbox, "touch begun; while [ ! -e ended ]; do sleep 0.01; done"))

        nursery.start_soon(run)
        while not (place / "ws" / "begun").exists():
            await trio.sleep(0.01)
        with (repository / ".git/config").open("a") as config:
            config.write("[alias]\n\tst = status\n")
        (place / "ws" / "ended").touch()
    assert ran[0].blocked == () and "st = status" in (repository / ".git/config").read_text()


async def test_a_cancelled_command_is_looked_after_as_well(place):
    told = []
    async with sandboxed(place, "none", alert=told.append) as sandbox:
        with trio.move_on_after(20) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    bash, sandbox, "mkdir .leeward; echo x > .leeward/config.toml; touch done; sleep 60"
                )
                while not (place / "ws" / "done").exists():
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught and not (place / "ws/.leeward").exists()
    assert len(told) == 1 and "/.leeward appeared" in told[0]


async def test_an_aside_folder_on_another_disk_is_no_way_out(place, monkeypatch):
    def other_disk(source, target, **handles):
        if str(place / "aside") in str(target):
            raise OSError(18, "Invalid cross-device link")
        rename(source, target, **handles)

    rename = os.rename
    monkeypatch.setattr("leeward.tools.sandbox.quarantine.os.rename", other_disk)
    async with sandboxed(place, "none") as sandbox:
        ran = await bash(
            sandbox,
            "git init -q r; cp /bin/true r/.git/hooks/pre-commit; cp -r r/.git/hooks r/.git/hooks/deep",
        )
    assert len(ran.blocked) >= 2
    left = [
        path
        for path in (place / "ws").rglob("*")
        if "hooks" in path.parts and path.is_file() and not path.name.endswith(".sample")
    ]
    assert left == [] and list((place / "ws" / "r").glob("leeward-blocked-*"))


async def test_all_in_a_namespace_ends_at_once_however_many_there_are(place, monkeypatch):
    """Before anybody goes through them one by one."""
    mark, end, left = uuid.uuid4().hex, SupervisedProcess.end, []

    def alive() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state = (path / "stat").read_text().rpartition(")")[2].split()[0]
                if mark in (path / "cmdline").read_text() and "bwrap" not in (path / "cmdline").read_text():
                    found += [path.name] if state not in "ZX" else []
        return found

    async def watched(child):
        with trio.move_on_after(10):
            while alive():
                await trio.sleep(0.01)
        left.append(alive())
        return await end(child)

    monkeypatch.setattr(SupervisedProcess, "end", watched)
    async with sandboxed(place, "bubblewrap") as sandbox:
        script = f"trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 60; : {mark}' &); sleep 60; : {mark}"
        await bash(sandbox, script, deadline=trio.current_time() + 1)
    assert left and not any(left)


# ------------------------------------------------------------------ what git obeys elsewhere


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("made", "attack"),
    ROWS["what_settings_of_git_name_is_obeyed_like_they_are"],
)
async def test_what_settings_of_git_name_is_obeyed_like_they_are(git, level, made, attack, place):
    ws = place / "ws"
    git(ws, "init", "-q")
    subprocess.run(["bash", "-ec", f"mkdir -p .git/hooks; {made}"], cwd=ws, check=True)

    def obeyed() -> dict[str, bytes]:
        places = (ws / ".githooks", ws / "a/b", ws / ".git/hooks", ws / "h")
        files = [path for folder in places for path in folder.glob("pre-[cp]*[!e]")]
        return {str(path): path.read_bytes() for path in (*files, ws / "more", ws / "s") if path.is_file()}

    before = obeyed()
    async with sandboxed(place, level) as sandbox:
        await bash(sandbox, attack)
    assert obeyed() == before


@pytest.mark.parametrize("level", LEVELS)
async def test_a_folder_of_hooks_holds_other_files_too(git, level, place):
    git(place / "ws", "init", "-q")
    git(place / "ws", "config", "core.hooksPath", "scripts")
    async with sandboxed(place, level) as sandbox:
        ran = await bash(sandbox, "mkdir scripts; echo x > scripts/build; mv scripts/build scripts/run")
    assert ran.finished.exit_code == 0 and ran.blocked == () and (place / "ws/scripts/run").exists()


@pytest.mark.parametrize("level", LEVELS)
async def test_a_branch_may_be_called_as_a_secret_is(git, level, place):
    git(place / "ws", "init", "-q", "--template=", "-b", "fix/prod.env")
    async with sandboxed(place, level) as sandbox:
        for _ in range(2):
            ran = await bash(
                sandbox, "git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log"
            )
            assert ran.finished.exit_code == 0, ran.finished.output


# ------------------------------------------------------------------ beside another program

JOB = "mkdir -p a/proj a/.git; touch a/.git/config a/.env; ln -s ../home b; touch ready; sleep 60"


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_what_a_running_program_swaps_is_no_way_out(level, place, monkeypatch):
    """Between deciding and starting, a job puts a link in the place of a folder that is about to be
    opened.
    """
    ws, home = place / "ws", place / "home"
    (home / "proj").mkdir()
    (home / ".git").mkdir()
    (home / ".git" / "config").touch()

    def then_swapped(decide):
        def decided(*arguments, **options):
            found = decide(*arguments, **options)
            (ws / "a").rename(ws / "real")
            (ws / "b").rename(ws / "a")
            return found

        return decided

    async with sandboxed(place, level) as sandbox, trio.open_nursery() as nursery:
        nursery.start_soon(partial(bash, sandbox, JOB, lasting=True))
        while not (ws / "ready").exists():
            await trio.sleep(0.01)
        for module, name in ((confined_module, "bubblewrap_arguments"), (landlock_module, "landlock_grants")):
            monkeypatch.setattr(module, name, then_swapped(getattr(module, name)))
        with suppress(PermanentFailure):
            await bash(sandbox, f"for f in a {home}; do touch $f/here $f/proj/here $f/.git/here; done")
        nursery.cancel_scope.cancel()
    assert (ws / "a").is_symlink() and [path.name for path in home.rglob("here")] == []


async def test_what_is_hidden_is_not_moved_by_what_others_start_beside(place):
    cfg = place / "ws" / "cfg"
    cfg.mkdir()
    (cfg / ".env").write_text("secret\n")
    async with sandboxed(place, "bubblewrap") as sandbox:
        ran = await bash(sandbox, "mv cfg other", lasting=True)
        assert ran.finished.exit_code != 0 and (cfg / ".env").exists()
        # Nobody starts beside an ordinary one, so that may put its folders in order.
        assert (await bash(sandbox, "mv cfg other && ! cat other/.env")).finished.exit_code == 0


@pytest.mark.parametrize("level", LEVELS)
async def test_what_another_program_left_meanwhile_is_found_at_the_end_of_either(level, place):
    ws = place / "ws"
    async with sandboxed(place, level) as sandbox, trio.open_nursery() as nursery:
        script = (
            "git init -q --template= new; mkdir new/.git/hooks; cp /bin/true new/.git/hooks/pre-push; touch "
            "ready; sleep 60"
        )
        nursery.start_soon(partial(bash, sandbox, script, lasting=True))
        while not (ws / "ready").exists():
            await trio.sleep(0.01)
        assert (await bash(sandbox, "true")).blocked
        nursery.cancel_scope.cancel()
    assert (ws / "new/.git/config").exists() and not (ws / "new/.git/hooks/pre-push").exists()


@pytest.mark.parametrize("level", ["landlock", "none"])
async def test_what_is_being_undone_is_not_what_was_there(git, level, place, monkeypatch):
    """While one looks at what is there, another ends, and what that left is taken away."""
    (ws := place / "ws").joinpath("r").mkdir()
    git(ws / "r", "init", "-q", "--template=")
    hook, looked, may_go_on = ws / "r/.git/hooks/pre-commit", threading.Event(), threading.Event()
    real = WorkspaceScan.look

    def look(self, before=None, folders=None):
        seen = real(self, before, folders)
        if before is None and str(hook) in seen.marks:
            looked.set()
            may_go_on.wait(10)
        return seen

    monkeypatch.setattr(WorkspaceScan, "look", look)
    script = (
        "mkdir r/.git/hooks; cp /bin/true r/.git/hooks/pre-commit; touch ready; until test -e go; do sleep "
        "0.01; done"
    )
    async with sandboxed(place, level) as sandbox, trio.open_nursery() as nursery:
        nursery.start_soon(bash, sandbox, script)
        while not (ws / "ready").exists():
            await trio.sleep(0.01)
        nursery.start_soon(bash, sandbox, "true")
        await trio.to_thread.run_sync(looked.wait, 10)
        (ws / "go").touch()
        # Long enough for the first one to be undone, where nothing keeps that waiting.
        with trio.move_on_after(1):
            while hook.exists():
                await trio.sleep(0.01)
        may_go_on.set()
    assert not hook.exists()


@pytest.mark.parametrize("level", LEVELS[:2])
@pytest.mark.parametrize("writes", [False, True])
async def test_what_a_program_is_told_is_told_to_nothing_outside(level, writes, place):
    outside = place / "outside"
    outside.mkdir()
    # The loader of any program that is told this writes there, with the rights of that program.
    hostile = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(outside / "loaded")}
    odd = {"EMPTY": "", "LINES": "a=b\n--unshare-all", "BYTES": "\udcff ä", "PATH": "/usr/bin:/bin"}
    async with sandboxed(place, level) as sandbox:
        service = Service(["/usr/bin/env", "-0"], {**odd, **hostile}, writes)
        async with open_service(sandbox, service) as dialogue:
            seen = b"".join([chunk async for chunk in dialogue.out])
        with pytest.raises(PermanentFailure, match="null byte"):
            async with open_service(sandbox, Service(["/bin/true"], {"A": "x\0--ro-bind"}, writes)):
                pass
    # What the loader of the program itself writes comes before the first.
    for name, value in (odd | hostile).items():
        assert any(one.endswith(os.fsencode(f"{name}={value}")) for one in seen.split(b"\0")), name
    assert not list(outside.iterdir())


async def test_what_is_undone_is_reached_through_no_link(place):
    outside = place / "outside"
    (outside / ".leeward").mkdir(parents=True)
    (place / "ws" / "sub").symlink_to(outside)
    mark = Mark(Role.OURS, MarkKind.FOLDER)
    gone = Mark(Role.SETTINGS, MarkKind.FILE, "x", 0o644, b"x")
    paths = (f"{place}/ws/sub/.leeward", f"{place}/ws/sub/config")
    told = undo((MarkChange(paths[0], None, mark), MarkChange(paths[1], gone, None)), str(place / "aside"))
    assert [one.name for one in outside.iterdir()] == [".leeward"] and len(told) == 2
    assert all("could not be undone: a link appeared" in one for one in told)


# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_a_failure_for_want_of_network_says_so(level, place):
    connect = f"{sys.executable} -c \"import urllib.request as r; r.urlopen('https://example.com')\""
    async with sandboxed(place, level) as sandbox:
        ran = await bash(sandbox, connect)
        assert any(
            notice.startswith("no network in the sandbox; see [tools.sandbox] allow_hosts")
            for notice in ran.notices
        ), ran
        assert (await bash(sandbox, "false")).notices == () and (
            await bash(sandbox, "echo connection refused")
        ).notices == ()
        ran = await bash(sandbox, "touch /etc/x /usr/x")
        assert any("only the workspace can be changed" in notice for notice in ran.notices)


async def test_the_tool_tells_a_block_as_a_failure(place, clear):
    async with sandboxed(place, "none") as sandbox:
        (tool,) = Shell(
            str(place / "ws"), environment(str(place / "home"), {}), 30, 1000, sandbox.run
        ).tools()
        with pytest.raises(PolicyBlocked, match="^block: .*/.leeward appeared and was moved to") as caught:
            await tool.execute(await clear(tool, {"command": "echo before; mkdir .leeward"}, timeout=30))
    assert caught.value.output.text == "before\n" and not (place / "ws/.leeward").exists()


async def test_more_than_can_be_masked_is_refused(place, monkeypatch):
    monkeypatch.setattr("leeward.security.sandbox.confinement._MOST_MASKS", 3)
    for number in range(5):
        (place / "ws" / f"{number}.key").write_text("secret\n")
    async with sandboxed(place, "bubblewrap") as sandbox:
        with pytest.raises(PolicyBlocked, match="more than 3 protected or secret files"):
            await bash(sandbox, "cat *.key")


async def test_a_workspace_that_is_too_large_to_look_at_says_so(place, monkeypatch):
    monkeypatch.setattr("leeward.tools.sandbox.scan._MOST", 10)
    for number in range(20):
        (place / "ws" / str(number)).mkdir()
    async with sandboxed(place, "bubblewrap") as sandbox:
        assert "too large to scan" in (await bash(sandbox, "true")).notices[0]


async def test_a_command_that_leaves_more_than_is_looked_at_is_told_of(place, monkeypatch):
    monkeypatch.setattr("leeward.tools.sandbox.scan._MOST", 10)
    async with sandboxed(place, "bubblewrap") as sandbox:
        assert (await bash(sandbox, "true")).blocked == ()
        (told,) = (await bash(sandbox, "touch {1..20}")).blocked
        assert told.startswith("it left more files than are checked")


# ------------------------------------------------------------------ the ladder


async def test_the_strongest_that_works_is_taken_and_why_not_a_better_one(place, monkeypatch):
    policy = Policy(str(place / "ws"), str(place / "home"))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    async with open_sandbox(SandboxSettings(policy, str(place / "aside"), prefixes=PREFIXES)) as sandbox:
        assert (
            sandbox.weaker_because[0] == "bubblewrap: it is not installed" and sandbox.level != "bubblewrap"
        )
    monkeypatch.setattr(confined_module, "landlock_version", lambda: 0)
    async with open_sandbox(SandboxSettings(policy, str(place / "aside"))) as sandbox:
        assert sandbox.level == "none" and len(sandbox.weaker_because) == 2
    with pytest.raises(SandboxUnavailable, match="not installed; landlock: the kernel does not offer it"):
        async with open_sandbox(SandboxSettings(policy, str(place / "aside"), required=True)):
            raise AssertionError
    with pytest.raises(SandboxUnavailable, match="the configuration asks for none"):
        async with open_sandbox(SandboxSettings(policy, str(place / "aside"), "none", required=True)):
            raise AssertionError


async def test_one_that_does_not_work_is_not_taken(place, monkeypatch):
    """As where the system forbids namespaces: the program is there, and fails."""
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/bin/false")
    policy = Policy(str(place / "ws"), str(place / "home"))
    async with open_sandbox(SandboxSettings(policy, str(place / "aside"), "bubblewrap")) as sandbox:
        assert sandbox.level == "none" and sandbox.weaker_because == (
            "bubblewrap: the sandbox could not be made",
        )


async def test_a_program_of_the_workspace_is_not_taken_for_bubblewrap(place, monkeypatch):
    fake = place / "ws" / "bwrap"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'ws'}:{os.environ['PATH']}")
    async with sandboxed(place, "bubblewrap") as sandbox:
        assert sandbox._program.startswith(("/usr/", "/bin/"))


async def test_closing_takes_everything_away(place):
    before = children(os.getpid())
    async with sandboxed(place, "landlock") as sandbox:
        folder = Path((await bash(sandbox, "echo x > $TMPDIR/f; echo $TMPDIR")).finished.stdout.strip())
        assert (folder / "f").exists() and not folder.is_relative_to(place)
    assert not folder.parent.exists()
    assert children(os.getpid()) == before


async def test_a_closed_thread_runs_nothing():
    thread = Spawner("test")
    thread.close()
    with pytest.raises(trio.ClosedResourceError):
        await thread.run(lambda: None)


async def test_a_supervisor_that_is_gone_is_followed_by_another(place):
    """As when a command at this level kills it."""
    async with sandboxed(place, "none") as sandbox:
        first = (await sandbox._supervisors.get()).process
        first.kill()
        first.wait()
        assert (await bash(sandbox, "echo on")).finished.stdout == "on\n"
        assert (await sandbox._supervisors.get()).process.pid != first.pid


async def test_what_is_granted_is_looked_at_anew(place):
    """A folder that was made since is granted, one that turned out to hold a secret is no more."""
    (place / "ws" / "a").mkdir()
    (place / "ws" / "b").mkdir()
    (place / "ws" / "b" / ".env").write_text("secret\n")
    async with sandboxed(place, "landlock") as sandbox:
        assert (await bash(sandbox, "cat b/.env; touch a/x")).finished.stdout == ""
        (place / "ws" / "a" / "key.pem").write_text("secret\n")
        (place / "ws" / "c").mkdir()
        ran = await bash(sandbox, "cat a/key.pem b/.env; touch c/x && echo made")
    assert ran.finished.stdout == "made\n"


async def test_a_thread_that_cannot_be_prepared_runs_nothing():
    def prepare():
        raise OSError(1, "not today")

    thread, ran = Spawner("test", prepare), []
    with pytest.raises(OSError, match="not today"):
        await thread.run(lambda: ran.append(1))
    assert ran == []
    thread.close()


# ------------------------------------------------------------------ the self-test


@pytest.mark.parametrize("level", LEVELS)
async def test_the_self_test_tells_what_holds(level, place):
    async with sandboxed(place, level) as sandbox:
        probes = {probe.name: probe for probe in await self_test(sandbox)}
    assert len(probes) == 11 and all(probe.escaped is not None for probe in probes.values())
    escaped = {name for name, probe in probes.items() if probe.escaped}
    if level == "none":
        # Tracing may be forbidden by the system as a whole.
        assert set(probes) - escaped <= {"trace"}
    else:
        assert escaped == ({"change the mode"} if level == "landlock" else set())
    assert all(f"{name}: " in str(probe) for name, probe in probes.items())
    assert not list(place.rglob("*canary*")) and not list((place / "home").glob(".leeward-*"))


async def test_what_could_not_be_tried_has_not_been_held(place, monkeypatch):
    async with sandboxed(place, "bubblewrap") as sandbox:
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        probes = await self_test(sandbox)
    assert probes and all(probe.escaped is None for probe in probes) and "not tried" in str(probes[0])


# ------------------------------------------------------------------ system calls


@pytest.mark.parametrize("machine", MACHINES)
def test_a_filter_is_whole_for_every_machine(machine):
    for sockets in (Sockets.isolated(), Sockets.shared(network=False), Sockets.shared(network=True)):
        program = filter_program(sockets, machine=machine)
        steps = [program[at : at + 8] for at in range(0, len(program), 8)]
        assert 100 < len(steps) < 256 and len(program) % 8 == 0
        for at, step in enumerate(steps):
            code, yes, no = int.from_bytes(step[:2], "little"), step[2], step[3]
            if code & 7 == 5:
                assert at + 1 + max(yes, no) < len(steps), "a jump beyond the end"
    assert filter_program(Sockets.isolated(), machine="pdp11") is None


@pytest.mark.parametrize(("network", "expected"), [(False, "refused"), (True, "made")])
async def test_network_is_what_was_said(network, expected, place):
    script = (
        f"{sys.executable} -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f'print("made")\' || echo refused'
    )
    async with sandboxed(place, "landlock", network=network) as sandbox:
        assert (await bash(sandbox, script)).finished.stdout.strip() == expected
    async with sandboxed(place, "bubblewrap", network=network) as sandbox:
        shared = (await bash(sandbox, "readlink /proc/self/ns/net")).finished.stdout.strip() == str(
            Path("/proc/self/ns/net").readlink()
        )
        assert shared is network
