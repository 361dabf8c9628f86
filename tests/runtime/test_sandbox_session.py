"""The sandbox of a session: opened, reported, used, and closed with the session."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest
import trio

from leeward.runtime.config import load
from leeward.runtime.describe import sandbox_word, status_lines
from leeward.runtime.installation import installation, running_code
from leeward.runtime.policy import to_policy
from leeward.security.paths import protected_reason
from leeward.security.policy import Policy, Sandboxing
from leeward.security.session import Session

TRIED = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true")
WORKS = shutil.which("bwrap") is not None and subprocess.run(TRIED, capture_output=True).returncode == 0
BUBBLEWRAP = pytest.mark.skipif(not WORKS, reason="bubblewrap is not installed, or does not work here")


def shell(command: str) -> tuple[str, ...]:
    return "call", "shell", f'{{"command": "{command}"}}'


def carrying(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if mark.encode() in (folder / "environ").read_bytes() and state not in "ZX":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


# ------------------------------------------------------------------ what it lets a session do


@BUBBLEWRAP
def test_without_auto_allow_a_command_is_asked_about(leeward):
    assert leeward(*shell("touch x")).code == 4 and not (leeward.workspace / "x").exists()


@BUBBLEWRAP
def test_with_auto_allow_a_command_needs_nobody_and_a_refusal_stays(leeward):
    leeward.configure("[tools.sandbox]\nauto_allow = true\n")
    ran = leeward(*shell("touch x"), "--output", "json")
    assert ran.code == 0 and (leeward.workspace / "x").exists()
    assert leeward(*shell("rm -rf /"), "--output", "json").json["error"]["code"] == "PERMISSION_DENIED"
    assert "allowed answered by sandbox" in leeward("audit", "list").out
    # In a list a long path of the workspace cuts off what stands behind it.
    assert '"sandbox": "bubblewrap"' in leeward("audit", "list", "--output", "json").out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('level = "none"', "no sandbox works here"),
        ("network = true", "[tools.sandbox] network is on"),
        ('extra_write = ["/srv"]', "more than the workspace can be changed"),
        ('level = "landlock"', "change the mode: ESCAPED"),
    ],
)
def test_auto_allow_is_off_where_the_sandbox_does_not_hold(leeward, text, why):
    leeward.configure(f"[tools.sandbox]\nauto_allow = true\n{text}\n")
    assert leeward(*shell("touch x")).code == 4 and not (leeward.workspace / "x").exists()
    told = leeward("doctor")
    if "landlock: " in told.out and "landlock" in text and "not landlock" in told.out:
        pytest.skip("the kernel has no Landlock")
    assert (
        "[tools.sandbox] auto_allow is off for this session" in told.out
        and why in told.out
        and told.code == 4
    )


def test_without_a_sandbox_that_is_required_there_is_no_session(leeward):
    leeward.configure('[tools.sandbox]\nrequired = true\nlevel = "none"\n')
    ran = leeward("call", "read", '{"path": "notes.md"}', "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "SANDBOX_REQUIRED")
    assert "no sandbox works here: the configuration asks for none" in ran.json["error"]["message"]


@BUBBLEWRAP
def test_what_a_command_leaves_for_others_to_obey_is_told_as_a_block(leeward):
    leeward.configure("[tools.sandbox]\nauto_allow = true\n")
    (leeward.workspace / "do.sh").write_text("git init -q sub; cp /bin/true sub/.git/hooks/pre-commit\n")
    ran = leeward(*shell("sh ./do.sh"), "--output", "json")
    assert (
        ran.json["error"]["code"] == "POLICY_BLOCKED"
        and "sub/.git/hooks/pre-commit appeared" in ran.json["error"]["message"]
    )
    assert not (leeward.workspace / "sub/.git/hooks/pre-commit").exists()


# ------------------------------------------------------------------ what is said of it


def test_doctor_tells_what_holds_and_what_is_whole(leeward):
    before = leeward("doctor")
    assert "there is none yet" in before.out and before.code == 0
    leeward("call", "read", '{"path": "notes.md"}')
    ran = leeward("doctor", "--output", "json")
    findings = ran.json["data"]["findings"]
    assert {"leeward", "config", "sandbox", "database", "audit"} <= {one["name"] for one in findings}
    assert all(one["well"] is not False for one in findings) and ran.code == 0


def test_doctor_tells_what_bounds_a_command_and_by_what(leeward):
    leeward.configure("[tools.shell]\nmemory = 104857600\n")
    told = next(line for line in leeward("doctor").out.splitlines() if "limits" in line)
    assert "a command may use 100.0 MiB of memory, and " in told and "control group" in told


def test_a_command_that_takes_too_much_memory_is_told_and_on_record_as_that(leeward):
    leeward.configure('[tools.shell]\nmemory = 67108864\n[permissions]\nautonomy = "full"\n')
    (leeward.workspace / "hog.py").write_text("x = b'x' * 400_000_000; import time; time.sleep(60)\n")
    ran = leeward(*shell(f"{sys.executable} -I -S hog.py"), "--output", "json")
    assert ran.json["error"]["code"] == "LIMIT_EXCEEDED", ran.json
    assert "more than 64.0 MiB of memory ([tools.shell] memory" in ran.json["error"]["message"]
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as database, database:
        (body,) = database.execute("SELECT body FROM audit WHERE kind = 'outcome'").fetchone()
    database.close()
    assert '"category":"limit_exceeded"' in body


def test_doctor_finds_a_database_that_was_tampered_with(leeward):
    leeward("call", "read", '{"path": "notes.md"}')
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as database, database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
        for name in tables:
            database.execute(f"DROP TRIGGER {name}")
        database.execute("UPDATE audit SET body = replace(body, 'notes', 'other') WHERE kind = 'decision'")
    database.close()
    ran = leeward("doctor")
    assert ran.code == 4 and "PROBLEM" in ran.out and "audit" in ran.err


@pytest.mark.parametrize(
    ("sandbox", "paths", "said"),
    [
        (Sandboxing(), (), "none: programs run with all your rights"),
        (Sandboxing("bubblewrap"), (), "bubblewrap: no network, only the workspace can be changed"),
        (Sandboxing("landlock", network=True), (), "landlock: network on, only the workspace can be changed"),
        (
            Sandboxing("bubblewrap", extra_write=("/a",)),
            ("/b",),
            "bubblewrap: no network, the workspace and 2 more can be changed",
        ),
        (
            Sandboxing("bubblewrap", answers=True),
            (),
            "bubblewrap: no network, only the workspace can be changed; commands run without a question",
        ),
    ],
)
def test_the_line_says_what_keeps_programs_in(sandbox, paths, said):
    policy = Policy("/ws", "/home/ada", sandbox=sandbox, allowed_paths=paths)
    assert sandbox_word(policy) == said
    assert f"sandbox     {said}" in list(status_lines(Session("s", policy), "offline"))


# ------------------------------------------------------------------ what programs must leave alone


def test_what_runs_leeward_cannot_be_changed_wherever_it_lies(tmp_path):
    loaded = load(config_dir=tmp_path, environment={})
    code = [str(path) for path in running_code(loaded.config, tmp_path)]
    assert os.path.realpath(sys.prefix) in code and any(path.endswith("/tools") for path in code)
    policy = to_policy(
        loaded,
        workspace=tmp_path,
        home=tmp_path,
        headless=True,
        data_dir=tmp_path / "data",
        config_dir=tmp_path,
    )
    for path in (
        f"{os.path.realpath(sys.prefix)}/bin/python",
        str(Path(__file__).resolve().parents[2] / "tools" / "process" / "run.py"),
    ):
        assert protected_reason(path, policy) == "it belongs to Leeward or to what runs it"


def test_a_workspace_inside_an_interpreters_folder_can_still_be_worked_in(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    loaded = load(config_dir=tmp_path, environment={})
    assert tmp_path not in running_code(loaded.config, tmp_path / "work") and str(tmp_path) in list(
        installation()
    )


def test_enabled_plug_ins_are_found_without_running_them(tmp_path, monkeypatch):
    (tmp_path / "planted_plugin").mkdir()
    (tmp_path / "planted_plugin" / "__init__.py").write_text("raise SystemExit('it was run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "config.toml").write_text(
        '[tools]\nexecutors = ["planted_plugin.inner:factory", "no_such_module:x"]\n'
    )
    loaded = load(config_dir=tmp_path, environment={})
    assert Path(os.path.realpath(tmp_path / "planted_plugin")) in running_code(
        loaded.config, tmp_path / "work"
    )


# ------------------------------------------------------------------ when the session is gone


@pytest.mark.parametrize("level", ["auto", "landlock", "none"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_ending_the_process_leaves_no_command(leeward, level, number):
    mark = uuid.uuid4().hex
    leeward.configure(f'[tools.sandbox]\nlevel = "{level}"\n')
    # Of the environment only a few variables go on to commands; the user's name is one.
    env = {**leeward.environment, "LOGNAME": mark}
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            leeward.argv(*shell("sleep 300 & setsid sleep 300 & touch begun; wait"), "--autonomy", "full"),
            cwd=leeward.workspace, env=env, stdin=-3, stdout=-3, stderr=-3,
        )  # fmt: skip
        while not (leeward.workspace / "begun").exists():
            assert process.poll() is None, "it ended by itself"
            await trio.sleep(0.01)
        assert carrying(mark)
        process.send_signal(number)
        await process.wait()
        while carrying(mark):
            await trio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a setting")
@pytest.mark.parametrize(("words", "expected"), [("claim_process()", "0"), ("None", "1")])
def test_the_process_of_the_command_line_can_be_traced_by_nobody(words, expected):
    """An embedding program's is left as it is."""
    source = (
        f"import ctypes; from leeward.tools.process import claim_process; {words}; "
        f"print(ctypes.CDLL(None).prctl(3))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
