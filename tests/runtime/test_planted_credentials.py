"""Credentials planted in toolchain folders: no program of a session can read one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leeward.security.call import Asker
from leeward.security.ports import Answer

MARK = "planted-credential"
IN_HOME = (
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".cargo/config.toml",
    ".cargo/registry/src/one/.npmrc",
    ".npmrc",
    ".yarnrc.yml",
    ".nvm/versions/node/v1/lib/node_modules/npm/.npmrc",
    ".nvm/versions/node/v1/etc/npmrc",
    ".pypirc",
    ".netrc",
    ".pip/pip.conf",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".config/go/env",
    ".config/uv/credentials.toml",
    "go/pkg/mod/example.com/x/.netrc",
    ".pyenv/versions/3.11/lib/python3.11/site-packages/tool/.env",
    ".local/share/uv/credentials/one.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".docker/config.json",
)
IN_WORKSPACE = (".venv/pip.conf", "venv/pip.conf", ".npmrc", ".pypirc", ".env", "sub/.netrc")
TOOLS = (".cargo/bin/tool", "go/bin/tool", ".nvm/versions/node/v1/bin/tool", ".local/bin/tool")

SCAN = f"""import os, sys
MARK = b"{MARK[:7]}" + b"{MARK[7:]}"
for top in sys.argv[1:]:
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in names:
            path = os.path.join(folder, name)
            try:
                held = open(path, "rb").read(4096) if os.path.isfile(path) else b""
            except OSError:
                continue
            if MARK in held:
                print("READ", path)
for path in sys.argv[1].split(":"):
    print("LISTED", len(os.listdir(path)))
print("DONE")
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    top = tmp_path.resolve()
    for below, names in (("home", IN_HOME), ("ws", IN_WORKSPACE)):
        for name in names:
            path = top / below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"password = {MARK}\n")
    for name in TOOLS:
        path = top / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\necho a tool\n")
        path.chmod(0o755)
    (top / "ws" / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (top / "ws" / "scan.py").write_text(SCAN)
    return top


@pytest.mark.parametrize("trial", ["off", "auto"])
async def test_no_program_of_a_session_reads_one(sessions, planted, monkeypatch, trial) -> None:
    home = planted / "home"
    folders = ":".join(str(home / name).rpartition("/")[0] for name in TOOLS)
    monkeypatch.setenv("PATH", f"{folders}:{os.environ['PATH']}")
    monkeypatch.setenv("CARGO_HOME", str(home / ".cargo"))
    monkeypatch.setenv("GOPATH", str(home / "go"))
    person = sessions.Answers(Answer.YES)
    async with sessions.session(planted, trial=trial, approver=person) as runtime:
        if runtime.sandbox.level == "none":
            pytest.skip("a sandbox is needed")
        if trial == "auto" and (problem := await runtime.sandbox.no_trial_because()):
            pytest.skip(f"trial runs are needed: {problem}")
        line = f"python3 scan.py {planted / 'ws'} {home}; tool; cat {home}/.cargo/bin/tool"
        result = await runtime.call("shell", {"command": line}, asker=Asker.MODEL)
        assert "DONE" in result.shown and "a tool" in result.shown, result.shown
        assert "READ" not in result.shown, result.shown


NAMED = ("~/.cargo/credentials.toml", "~/.npmrc", "~/.pypirc", ".venv/pip.conf", "~/.config/go/env", ".npmrc")


@pytest.mark.parametrize("trial", ["off", "auto"])
@pytest.mark.parametrize("path", NAMED)
async def test_nor_is_one_had_by_its_name(sessions, planted, path, trial) -> None:
    person = sessions.Answers(Answer.YES)
    async with sessions.session(planted, trial=trial, approver=person) as runtime:
        if runtime.sandbox.level == "none":
            pytest.skip("a sandbox is needed")
        for line in (f"cat {path}", f"tail -c 100 {path} | rev", f"cp {path} copy && rev copy"):
            line = line.replace("~", str(planted / "home"))
            result = await runtime.call("shell", {"command": line}, asker=Asker.MODEL)
            assert MARK not in result.shown and MARK[::-1] not in result.shown, line
