"""A person's own programs and git identity, run at each level: what works and what stays hidden."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.security.policy import Policy
from leeward.tools.process import environment, find_programs, git_settings, open_kit
from leeward.tools.sandbox import Ran, Sandbox, SandboxSettings, open_sandbox
from leeward.tools.sandbox import sandbox as confined_module
from leeward.tools.sandbox import toolchains as toolchain_secrets

TOOLS = str(Path(confined_module.__file__).resolve().parents[1])
PREFIXES = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), TOOLS)
LEVELS = ("bubblewrap", "landlock", "none")
CONFINED = LEVELS[:2]


@pytest.fixture
def home(tmp_path) -> Path:
    home = tmp_path.resolve() / "home"
    (home / "ws").mkdir(parents=True)
    return home


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def link(path: Path, target: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(str(target))


class Session:
    """What runs in a sandbox with what is given of a person's."""

    def __init__(self, sandbox: Sandbox, env: dict[str, str], refresh) -> None:
        self.sandbox, self.env, self.refresh = sandbox, env, refresh

    async def run(self, line: str, cwd: Path | None = None) -> Ran:
        self.refresh()
        return await self.sandbox.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", line],
            cwd=str(cwd or self.sandbox.confinement.workspace),
            env=self.env,
            deadline=trio.current_time() + 60,
            max_bytes=100_000,
        )


@asynccontextmanager
async def session(home: Path, level: str, *entries: object, **variables: str) -> AsyncIterator[Session]:
    policy = Policy(str(home / "ws"), str(home))
    parent = {"PATH": ":".join((*map(str, entries), "/usr/local/bin:/usr/bin:/bin")), **variables}
    with open_kit(find_programs(parent, policy), git_settings(parent, str(home))) as kit:
        settings = SandboxSettings(
            policy, str(home.parent / "aside"), level, prefixes=(*PREFIXES, *kit.readable)
        )
        async with open_sandbox(settings) as sandbox:
            if sandbox.level != level:
                pytest.skip("; ".join(sandbox.weaker_because))
            env = {**environment(str(home), parent), **kit.variables(confined=level != "none")}
            yield Session(sandbox, env, kit.refresh)


# ------------------------------------------------------------------ toolchains that people have


def pyenv(home: Path) -> tuple[list[object], str, str]:
    root = home / ".pyenv"
    shim = f'export PYENV_ROOT="{root}"\nexec "{root}/libexec/pyenv" exec "${{0##*/}}" "$@"\n'
    program(root / "shims" / "python", f"#!/usr/bin/env bash\n{shim}")
    of_version = 'exec "$PYENV_ROOT/versions/$(<"$PYENV_ROOT/version")/bin/$2" "${@:3}"\n'
    program(root / "libexec" / "pyenv", f"#!/bin/bash\n{of_version}")
    program(
        root / "versions" / "3.12.1" / "bin" / "python", '#!/bin/sh\ncat "${0%/*}/../lib/os.py"; echo "$@"\n'
    )
    program(root / "versions" / "3.12.1" / "lib" / "os.py", "stdlib\n")
    (root / "version").write_text("3.12.1\n")
    return [root / "shims", root / "bin"], "python -m x", "stdlib\n-m x\n"


def nvm(home: Path) -> tuple[list[object], str, str]:
    prefix = home / ".nvm" / "versions" / "node" / "v20.1.0"
    program(prefix / "bin" / "node", '#!/bin/sh\necho node "$1"; cat "$1"\n')
    program(prefix / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "#!/usr/bin/env node\n// npm\n")
    link(prefix / "bin" / "npm", "../lib/node_modules/npm/bin/npm-cli.js")
    return [prefix / "bin"], "npm", f"node {prefix}/bin/npm\n#!/usr/bin/env node\n// npm\n"


def cargo(home: Path) -> tuple[list[object], str, str]:
    program(
        home / ".cargo" / "bin" / "rustup",
        "#!/bin/sh\nroot=${RUSTUP_HOME:-$HOME/.rustup}\n"
        'exec "$root/toolchains/$(cat "$root/settings.toml")/bin/${0##*/}" "$@"\n',
    )
    link(home / ".cargo" / "bin" / "rustc", "rustup")
    link(home / ".cargo" / "bin" / "cargo", "rustup")
    stable = home / ".rustup" / "toolchains" / "stable"
    program(stable / "bin" / "rustc", '#!/bin/sh\ncat "${0%/*}/../lib/std.rlib"\n')
    build = "rustc && cat ~/.cargo/registry/src/serde/lib.rs && touch ~/.cargo/.package-cache\n"
    program(stable / "bin" / "cargo", f"#!/bin/sh\n{build}")
    (home / ".rustup" / "settings.toml").write_text("stable")
    program(stable / "lib" / "std.rlib", "std\n")
    program(home / ".cargo" / "registry" / "src" / "serde" / "lib.rs", "serde\n")
    return [home / ".cargo" / "bin"], "cargo", "std\nserde\n"


def go(home: Path) -> tuple[list[object], str, str]:
    root = home / "sdk" / "go1.22"
    build = "cat $root/VERSION $root/src/fmt.go && $root/pkg/tool/compile && cat ~/go/pkg/mod/x.go\n"
    program(root / "bin" / "go", f"#!/bin/sh\nroot=${{0%/*}}/..; {build}")
    program(root / "pkg" / "tool" / "compile", "#!/bin/sh\necho compiled\n")
    program(root / "src" / "fmt.go", "fmt\n")
    (root / "VERSION").write_text("go1.22\n")
    program(home / "go" / "pkg" / "mod" / "x.go", "module\n")
    program(home / "go" / "bin" / "gopls", "#!/bin/sh\necho gopls\n")
    return [root / "bin", home / "go" / "bin"], "go && gopls", "go1.22\nfmt\ncompiled\nmodule\ngopls\n"


def uv(home: Path) -> tuple[list[object], str, None]:
    share = home / ".local" / "share" / "uv"
    program(share / "python" / "cpython-3.12.7" / "bin" / "python3.12", '#!/bin/sh\necho python "${1##*/}"\n')
    link(share / "python" / "cpython-3.12", "cpython-3.12.7")
    link(
        share / "tools" / "tool" / "bin" / "python", share / "python" / "cpython-3.12" / "bin" / "python3.12"
    )
    program(share / "tools" / "tool" / "bin" / "tool", f"#!{share}/tools/tool/bin/python\n")
    link(home / ".local" / "bin" / "tool", share / "tools" / "tool" / "bin" / "tool")
    program(home / ".local" / "bin" / "uv", "#!/bin/sh\necho uv\n")
    return [home / ".local" / "bin"], "tool && uv", None


def pipx(home: Path) -> tuple[list[object], str, str]:
    venv = home / ".local" / "share" / "pipx" / "venvs" / "app"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    program(venv / "bin" / "app", f"#!{venv}/bin/python\nimport sys\nprint(sys.prefix)\n")
    link(home / ".local" / "bin" / "app", venv / "bin" / "app")
    return [home / ".local" / "bin"], "app", f"{venv}\n"


def venv(home: Path) -> tuple[list[object], str, str]:
    venv = home / "envs" / "work"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "pytest.py").write_text("print('pytest of the environment')\n")
    program(venv / "bin" / "pytest", f"#!{venv}/bin/python\nimport pytest\n")
    return [venv / "bin"], "pytest && python -m pytest", "pytest of the environment\n" * 2


def elsewhere(home: Path) -> tuple[list[object], str, str]:
    """A program linked into a folder of the person's, from a toolchain that is nowhere else in PATH."""
    program(
        home / "opt" / "node-v20" / "bin" / "node",
        '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../lib/core.js"\n',
    )
    program(home / "opt" / "node-v20" / "lib" / "core.js", "core\n")
    link(home / "bin" / "node", home / "opt" / "node-v20" / "bin" / "node")
    program(home / "projects" / "x" / "run.sh", "#!/bin/sh\necho run\n")
    link(home / "bin" / "run_x", home / "projects" / "x" / "run.sh")
    return [home / "bin"], "node && run_x", "core\nrun\n"


def sdkman(home: Path) -> tuple[list[object], str, str]:
    candidates = home / ".sdkman" / "candidates" / "java"
    program(
        candidates / "17" / "bin" / "java", '#!/bin/sh\ncat "${0%/*}/../conf/x" "${0%/*}/../lib/modules"\n'
    )
    program(candidates / "17" / "conf" / "x", "conf\n")
    program(candidates / "17" / "lib" / "modules", "modules\n")
    link(candidates / "current", candidates / "17")
    return [candidates / "current" / "bin"], "java", "conf\nmodules\n"


def brew(home: Path) -> tuple[list[object], str, str]:
    prefix = home / "linuxbrew"
    for number in range(150):
        program(
            prefix / "Cellar" / f"t{number}" / "1" / "bin" / f"t{number}",
            '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../x"\n',
        )
        (prefix / "Cellar" / f"t{number}" / "1" / "x").write_text(f"{number}\n")
        link(prefix / "bin" / f"t{number}", f"../Cellar/t{number}/1/bin/t{number}")
    return [prefix / "bin"], "t0; t149", "0\n149\n"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("made", [sdkman, brew, pyenv, nvm, cargo, go, uv, pipx, venv, elsewhere])
async def test_a_toolchain_of_the_person_works(home, made, level):
    entries, line, expected = made(home)
    async with session(home, level, *entries) as opened:
        ran = await opened.run(line)
    assert ran.finished.exit_code == 0, ran.finished.output
    assert expected is None or ran.finished.stdout == expected


async def test_rustup_at_another_place_works(home):
    _, line, expected = cargo(home)
    (home / ".cargo").rename(home / "c")
    (home / ".rustup").rename(home / "r")
    # Were it not there, rustup would make it, where nothing can be made.
    (home / "r" / "update-hashes").mkdir()
    async with session(
        home, "bubblewrap", home / "c" / "bin", CARGO_HOME=f"{home}/c", RUSTUP_HOME=f"{home}/r"
    ) as opened:
        ran = await opened.run('rustc; ls "$RUSTUP_HOME"')
    assert ran.finished.stdout == "std\nsettings.toml\ntoolchains\nupdate-hashes\n", (line, expected)


@pytest.mark.parametrize("level", LEVELS)
async def test_an_environment_in_the_workspace_works_from_when_it_is_made(home, level):
    own = home / "ws" / ".venv"
    async with session(home, level) as opened:
        made = await opened.run(
            f"{sys.executable} -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'"
        )
        assert made.finished.exit_code == 0, made.finished.output
        (site,) = (own / "lib").glob("python*/site-packages")
        (site / "pytest.py").write_text("print('pytest of the workspace')\n")
        for name in ("pytest_x", "pip"):
            program(own / "bin" / name, f"#!{own}/bin/python\nimport pytest, sys\nprint(sys.prefix)\n")
        ran = await opened.run("python -c 'import sys; print(sys.prefix)'; python3 -m pytest; pytest_x; pip")
    told = "pytest of the workspace\n"
    assert ran.finished.stdout == f"{own}\n{told}{told}{own}\n{told}{own}\n", ran.finished.output


# ------------------------------------------------------------------ what must not happen


@pytest.mark.parametrize("level", LEVELS)
async def test_nothing_of_the_workspace_shadows_a_program_of_the_system(home, level):
    own = home / "ws" / ".venv" / "bin"
    names = ("ls", "git", "sh", "cat", "env", "bash")
    for folder in (own, home / "ws" / "bin", home / "ws" / "node_modules" / ".bin"):
        for name in names:
            program(folder / name, "#!/bin/bash\necho PLANTED\n")
    program(own / "python", "#!/bin/bash\necho python\n")
    (own.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (home / "linked").symlink_to(own)
    entries = (own, home / "ws" / "bin", home / "linked", "", ".", "bin", f"{home}/ws/node_modules/.bin")
    async with session(home, level, *entries, VIRTUAL_ENV=str(own.parent)) as opened:
        where = f"for one in {' '.join(names)}; do command -v $one; done"
        ran = await opened.run(
            f"python; {where}; ls / >/dev/null; sh -c 'cat /dev/null'; git --version >/dev/null; env true"
        )
    first, *found = ran.finished.stdout.splitlines()
    assert (
        first == "python"
        and len(found) == len(names)
        and all(path.startswith(("/usr/", "/bin/")) for path in found)
    )


SHUT = (
    ".cargo/credentials.toml", ".cargo/config.toml", ".npmrc", ".pypirc", ".config/gh/hosts.yml",
    ".config/uv/uv.toml", ".local/share/keyrings/k", ".local/share/app/private.db", ".local/state/x/log",
    ".local/bin/.env", ".local/bin/id_rsa", ".local/lib/x/.netrc", ".nvm/.npmrc",
    ".nvm/versions/node/v20/etc/npmrc", ".pyenv/versions/3.12/.pypirc", ".rustup/other",
    ".pyenv/.git/config", "envs/work/.env", "envs/work/pip.conf", "envs/work/src/private.py",
    "envs/work/lib/deep/er/.netrc", "envs/work/share/server.key", "envs/notes.txt", "go/src/app/main.go",
    "miniconda3/.condarc", "miniconda3/envs/a/pip.conf",
)  # fmt: skip
OPEN = (
    ".cargo/bin/t", ".cargo/registry/src/x/lib.rs", ".local/bin/t", ".local/lib/python3/site-packages/x.py",
    ".nvm/versions/node/v20/lib/x.js", ".pyenv/versions/3.12/lib/os.py", ".rustup/toolchains/s/lib/x",
    "envs/work/bin/t", "envs/work/lib/x.py", "go/pkg/mod/x/x.go", "miniconda3/lib/x",
)  # fmt: skip


@pytest.mark.parametrize("level", CONFINED)
async def test_beside_programs_nothing_else_is_read_nor_anything_changed(home, level):
    for name in (*SHUT, *OPEN):
        program(home / name, f"<{name}>\n")
    link(home / ".local" / "bin" / "key", home / ".ssh" / "id_rsa")
    program(home / ".ssh" / "id_rsa", "<.ssh/id_rsa>\n")
    (home / ".gitconfig").write_text("[user]\nname = <gitconfig>\n")
    async with session(home, level, home / "envs/work/bin", home / ".local/bin") as opened:
        ran = await opened.run(
            f"cd {home}; cat {' '.join((*SHUT, *OPEN))} .gitconfig .ssh/id_rsa .local/bin/key"
        )
        await opened.run(
            f"cd {home}; for f in {' '.join(OPEN)} ${{PATH%%:*}}/x $GIT_CONFIG_SYSTEM; "
            "do echo changed > $f; done"
        )
        again = await opened.run(f"cd {home}; cat {' '.join(OPEN)}; cat $GIT_CONFIG_SYSTEM; ls ${{PATH%%:*}}")
    assert set(re.findall("<(.*)>", ran.finished.stdout)) == {*OPEN}
    assert "changed" not in again.finished.stdout and "x" not in again.finished.stdout.split()
    assert all((home / name).read_text() == f"<{name}>\n" for name in OPEN)


async def test_a_toolchain_full_of_secrets_is_closed_as_one(home):
    for number in range(300):
        program(home / "odd" / "bin" / f"{number}.key", "secret\n")
    program(home / "odd" / "bin" / "tool", "#!/bin/sh\necho ran\n")
    async with session(home, "bubblewrap", home / "odd" / "bin") as opened:
        ran = await opened.run(f"cat {home}/odd/bin/*; tool; echo on")
    assert ran.finished.stdout == "on\n"


# ------------------------------------------------------------------ who commits

COMMIT = (
    "git init -q r && cd r && echo x > f && git add f && git commit -qm x "
    "&& git log -1 --format='%an <%ae>' && git branch --show-current"
)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_commit_is_the_persons(home, level):
    evil = program(home.parent / "evil", "#!/bin/sh\necho PLANTED >&2\n")
    (home / ".gitconfig").write_text(
        f"[user]\n\tname = Ada Lovelace\n\temail = ada@example.com\n[init]\n\tdefaultBranch = trunk\n"
        f"[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n[alias]\n\tlog = !{evil}\n"
    )
    async with session(home, level) as opened:
        ran = await opened.run(COMMIT)
        own = await opened.run(
            "cd r && git config user.email project@example.com; "
            "git commit -q --allow-empty -m y && git log -1 --format=%ae"
        )
    assert ran.finished.stdout == "Ada Lovelace <ada@example.com>\ntrunk\n", ran.finished.output
    if level != "none":
        assert "PLANTED" not in ran.finished.output
    # Its settings are kept from commands where they can be; what they say holds anyway.
    assert own.finished.stdout in {"project@example.com\n", "ada@example.com\n"}


@pytest.mark.parametrize("level", CONFINED)
async def test_what_a_repository_says_outweighs_what_the_person_says(home, level, git):
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.com\n")
    git(home / "ws", "init", "-q", "--template=")
    git(home / "ws", "config", "user.email", "project@example.com")
    async with session(home, level) as opened:
        ran = await opened.run("git commit -q --allow-empty -m y && git log -1 --format='%an <%ae>'")
    assert ran.finished.stdout == "Ada <project@example.com>\n", ran.finished.output


@pytest.mark.parametrize("level", CONFINED)
async def test_without_a_name_the_message_is_gits_own(home, level):
    async with session(home, level) as opened:
        ran = await opened.run(COMMIT)
    if ran.finished.exit_code == 0:
        pytest.skip("this machine's own settings say who commits")
    assert "Please tell me who you are" in ran.finished.output


@pytest.mark.parametrize("level", CONFINED)
async def test_a_line_may_still_set_what_holds_for_itself(home, level):
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.com\n")
    async with session(home, level) as opened:
        ran = await opened.run(f"git config --global user.name Grace && {COMMIT}")
    assert ran.finished.stdout.startswith("Grace <ada@example.com>\n"), ran.finished.output
    assert "Ada" in (home / ".gitconfig").read_text()


# ------------------------------------------------------------------ secrets kept among programs

PLANTED = (
    ".nvm/versions/node/v20/lib/node_modules/x/.npmrc",
    ".nvm/versions/node/v20/lib/node_modules/credentials",
    ".pyenv/versions/3.12/lib/python3.12/site-packages/.pypirc", ".pyenv/versions/3.12/pip.conf",
    ".pyenv/versions/3.12/lib/python3.12/site-packages/x/.netrc",
    ".pyenv/versions/3.12/lib/test/credentials", ".pyenv/plugins/x/.git/config", "go/pkg/credentials",
    "go/pkg/mod/example.com/x@v1/.env", "go/bin/.netrc", "go/pkg/mod/cache/.git-credentials",
    ".cargo/registry/credentials.toml", ".cargo/git/db/x/.netrc", ".cargo/registry/src/x/id_ed25519",
    ".cargo/git/checkouts/x/.aws/credentials", ".cargo/credentials.toml", ".cargo/credentials",
    ".cargo/bin/credentials", ".local/share/uv/tools/x/credentials", ".local/lib/_netrc",
    ".local/share/uv/python/p/pip.conf", ".local/share/uv/credentials/x", ".local/lib/x/auth.toml",
    ".opam/config", ".opam/repo/x", ".opam/default/lib/x/.netrc", ".virtualenvs/x/postactivate",
    ".dotnet/x", ".dotnet/corefx/cryptography/x509stores/my/x.pfx", ".juliaup/juliaup.json",
    "envs/work/lib/uv.toml", "envs/work/lib/python3/site-packages/NuGet.Config", "go/pkg/mod/x/.ENV.local",
    ".rustup/toolchains/s/.yarnrc.yml",
)  # fmt: skip
BESIDE = (
    ".nvm/versions/node/v20/lib/node_modules/x/index.js",
    "go/pkg/mod/google.golang.org/grpc/credentials/tls.go",
    ".pyenv/versions/3.12/lib/python3.12/site-packages/certifi/cacert.pem", ".opam/default/lib/x.cma",
    ".cargo/registry/src/x/tests/server.key", "go/pkg/mod/x/testdata/key.pem",
    ".cargo/git/checkouts/x/.git/config", "envs/work/lib/python3/site-packages/auth.py",
    ".opam/default/bin/ocaml", ".dotnet/sdk/8/x.dll",
)  # fmt: skip


@pytest.mark.parametrize("level", CONFINED)
async def test_credentials_among_toolchains_are_closed_and_what_packages_brought_is_not(home, level):
    for name in (*PLANTED, *BESIDE):
        program(home / name, f"<{name}>\n")
    program(home / "envs" / "work" / "bin" / "t", "<bin>\n")
    os.mkfifo(home / "go" / "pkg" / "mod" / "fifo")
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text("<linked>\n")
    os.link(home / ".aws" / "credentials", home / ".local" / "lib" / "innocent")
    async with session(home, level, home / "envs/work/bin", home / ".local/bin") as opened:
        ran = await opened.run(f"cd {home}; cat {' '.join((*PLANTED, *BESIDE))} .local/lib/innocent")
        searched = await opened.run(f"grep -rsh -D skip '<' {home}/.[a-z]* {home}/[a-z]*")
        fifo = await opened.run(f"cd {home}/go/pkg/mod; timeout 2 sh -c 'echo x > fifo'; echo $?")
    assert {*re.findall("<(.*)>", ran.finished.stdout)} == {*BESIDE}
    assert {*re.findall("<(.*)>", searched.finished.stdout)} <= {*BESIDE, "bin"}
    assert not fifo.finished.stdout.startswith(("0", "124"))


@pytest.mark.parametrize("level", CONFINED)
async def test_a_toolchain_reached_by_a_link_keeps_its_secrets(home, level):
    disk = home.parent / "disk"
    for name in ("pyenv/versions/3.12/bin/tool", "pyenv/versions/3.12/etc/.netrc", "share/keyrings/k"):
        program(disk / name, f"#!/bin/sh\necho '<{name}>'\n")
    link(home / ".pyenv", disk / "pyenv")
    for name in ("keyrings/k", "leeward/audit.db", "bin/tool"):
        program(home / ".local" / "share" / name, f"<{name}>\n")
    program(home / ".local" / "bin" / "own", "#!/bin/sh\necho '<own>'\n")
    link(home / "around", home / ".local")
    async with session(
        home, level, home / "around" / "bin", home / ".pyenv" / "versions" / "3.12" / "bin"
    ) as opened:
        ran = await opened.run(f"tool; own; grep -rsh '<' {home}/.pyenv {home}/around {home}/.local {disk}")
    told = {*re.findall("<(.*?)>", ran.finished.stdout)}
    assert told == {"pyenv/versions/3.12/bin/tool", "own"}


@pytest.mark.parametrize("level", CONFINED)
@pytest.mark.parametrize("target", [".", "..", "ws", ".ssh", "ws/way", "open"])
async def test_a_folder_of_toolchains_that_leads_elsewhere_is_not_mounted(home, level, target):
    program(home / ".ssh" / "id", "<ssh>\n")
    program(home / "letter", "<letter>\n")
    program(home / "ws" / ".env", "<env>\n")
    program(home / "other" / "x", "<other>\n")
    program(home / "open" / "x", "<open>\n")
    (home / "open").chmod(0o777)
    link(home / "ws" / "way", home / "other")
    link(home / ".local" / "lib", home / target)
    async with session(home, level) as opened:
        ran = await opened.run(f"grep -rsh '<' {home}/.local/ {home}/other {home}/open {home}/ws")
    assert "<" not in ran.finished.stdout


@pytest.mark.parametrize("level", CONFINED)
async def test_a_way_through_the_workspace_brings_nothing_when_it_is_turned(home, level):
    tool = program(home / "opt" / "bin" / "tool", "#!/bin/sh\necho ran\n")
    link(home / "ws" / "way", tool.parents[1])
    link(home / "mine", home / "ws" / "way")
    link(home / "bin" / "other", home / "mine" / "bin" / "tool")
    program(home / ".ssh" / "bin" / "tool", "<ssh>\n")
    async with session(home, level, home / "mine" / "bin", home / "bin", JAVA_HOME=f"{home}/mine") as opened:
        (home / "ws" / "way").unlink()
        (home / "ws" / "way").symlink_to(home / ".ssh")
        ran = await opened.run(f"grep -rsh '<' {home}/mine/ {home}/bin {home}/ws/way/; env")
    assert "<ssh>" not in ran.finished.stdout and "JAVA_HOME" not in ran.finished.stdout


@pytest.mark.parametrize("level", CONFINED)
async def test_what_is_too_much_to_look_through_is_closed_and_that_is_said(home, level, monkeypatch):
    monkeypatch.setattr(toolchain_secrets, "_MOST_ENTRIES", 50)
    for number in range(60):
        program(home / "go" / "pkg" / "mod" / f"m{number}" / "x.go", f"<{number}>\n")
    program(home / ".local" / "lib" / "x", "<x>\n")
    async with session(home, level) as opened:
        ran = await opened.run(f"cat {home}/.local/lib/x; cat {home}/go/pkg/mod/*/*")
        again = await opened.run("true")
    assert re.findall("<(.*)>", ran.finished.stdout) == ["x"]
    assert any(f"{home}/go/pkg" in notice and "extra_read" in notice for notice in ran.notices)
    assert not any("go/pkg" in notice for notice in again.notices)


async def test_a_secret_among_toolchains_that_has_gone_stops_no_command(home):
    conf = program(home / ".pyenv" / "versions" / "3.12" / "pip.conf", "<x>\n")
    async with session(home, "bubblewrap") as opened:
        await opened.run("true")
        conf.unlink()
        ran = await opened.run("echo on")
    assert ran.finished.stdout == "on\n", ran.finished.output
