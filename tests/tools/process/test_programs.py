"""Where a person's programs are found: their order, what never comes into PATH, and what becomes readable."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from leeward.security.policy import Policy, Sandboxing
from leeward.tools.process import SEARCH_PATH, find_programs, open_kit
from leeward.tools.process import git_settings as no_settings

SYSTEM = SEARCH_PATH.split(":")


@pytest.fixture
def home(tmp_path) -> Path:
    home = tmp_path.resolve() / "home"
    (home / "ws").mkdir(parents=True)
    return home


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def environment(folder: Path, *names: str) -> Path:
    """A Python environment of stand-ins; return where its programs lie."""
    for name in names:
        program(folder / "bin" / name)
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder / "bin"


def found(home: Path, *entries: object, **variables: str):
    policy = Policy(str(home / "ws"), str(home))
    return find_programs({"PATH": ":".join(map(str, entries)), **variables}, policy)


# ------------------------------------------------------------------ the order


def test_the_order_is_the_persons_and_the_system_is_complete(home):
    venv = environment(home / "venvs" / "a", "python")
    cargo = program(home / ".cargo" / "bin" / "cargo").parent
    entries = found(home, venv, "/usr/bin", cargo, venv, "/bin").entries
    assert entries[:4] == (str(venv), "/usr/bin", str(cargo), "/bin")
    assert {*SYSTEM} <= {*entries} and len(entries) == len({*entries})


def test_without_a_path_there_is_the_systems(home):
    for programs in (find_programs({}, Policy(str(home / "ws"), str(home))), found(home)):
        assert programs.entries == tuple(SYSTEM) and programs.readable == ()


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin", "~/bin", "../x", "ws/bin"])
def test_what_is_not_absolute_leads_nowhere(home, entry, monkeypatch):
    monkeypatch.chdir(home)
    program(home / "bin" / "ls")
    assert found(home, entry, "/usr/bin", entry).entries == (
        "/usr/bin",
        *(e for e in SYSTEM if e != "/usr/bin"),
    )


@pytest.mark.parametrize(
    "entry",
    ["ws", "ws/bin", "ws/node_modules/.bin", "to_ws", "ws/../ws/bin", "to_bin", "ws/link_out", "."]
    + ["..", "/"],
)
def test_nothing_of_the_workspace_or_around_it_comes_in(home, entry):
    for name in ("bin", "node_modules/.bin"):
        program(home / "ws" / name / "ls")
    program(home / "outside" / "bin" / "ls")
    (home / "to_ws").symlink_to("ws")
    (home / "to_bin").symlink_to(home / "ws" / "bin")
    (home / "ws" / "link_out").symlink_to(home / "outside" / "bin")
    programs = found(home, home / entry, "/usr/bin")
    assert {*programs.entries} == {*SYSTEM} and programs.readable == ()


@pytest.mark.parametrize("named", ["extra_write", "allowed_paths"])
def test_neither_does_what_else_may_be_written(home, named):
    program(home / "work" / "bin" / "ls")
    more = {"allowed_paths": (str(home / "work"),)}
    if named == "extra_write":
        more = {"sandbox": Sandboxing(extra_write=(str(home / "work"),))}
    policy = Policy(str(home / "ws"), str(home), **more)
    assert {*find_programs({"PATH": f"{home}/work/bin"}, policy).entries} == {*SYSTEM}


def test_what_anybody_may_write_does_not_come_in(home):
    open_folder = program(home / "open" / "bin" / "ls").parent
    open_folder.chmod(0o777)
    below = program(home / "shared" / "bin" / "ls").parent
    below.parent.chmod(0o777)
    sticky = program(home / "sticky" / "bin" / "ls").parent
    sticky.chmod(0o1777)
    link = home / "link"
    link.symlink_to(open_folder)
    fine = program(home / "tmp" / "bin" / "ls").parent
    fine.parent.chmod(0o1777)
    programs = found(home, open_folder, below, sticky, link, fine)
    assert programs.entries == (str(fine), *SYSTEM)


@pytest.mark.parametrize("entry", [".ssh/bin", ".config/gh", ".env/bin", "missing/bin", "file"])
def test_neither_secret_nor_missing_places_come_in(home, entry):
    program(home / ".ssh" / "bin" / "ls")
    program(home / ".config" / "gh" / "ls")
    program(home / ".env" / "bin" / "ls")
    program(home / "file")
    assert {*found(home, home / entry).entries} == {*SYSTEM}


def test_toolchains_in_a_workspace_that_is_the_home_come_last(home):
    cargo = program(home / ".cargo" / "bin" / "ls").parent
    programs = find_programs({"PATH": f"{cargo}:/usr/bin"}, Policy(str(home), str(home)))
    assert programs.entries[-1] == str(cargo) and programs.find("ls") in {"/usr/bin/ls", "/bin/ls"}


def test_a_link_on_the_way_is_gone_before_it_can_be_changed(home):
    real = program(home / "v20" / "bin" / "node").parent
    (home / "current").symlink_to("v20")
    programs = found(home, home / "current" / "bin")
    assert programs.entries[0] == str(real)
    assert {str(home / "current" / "bin"), str(real)} <= {*programs.readable}


# ------------------------------------------------------------------ an environment in the workspace


@pytest.mark.parametrize("name", [".venv", "venv"])
def test_it_is_last_but_for_python_and_pip(home, name):
    names = ("python", "python3", "python3.11", "pip", "ls", "git", "sh", "pytest_x", "pipx")
    own = environment(home / "ws" / name, *names)
    programs = found(home, own, "/usr/bin")
    assert programs.path.split(":").index(str(own)) > programs.path.split(":").index("/bin")
    for which in ("python", "python3", "python3.11", "pip", "pytest_x"):
        assert programs.find(which) == f"{own}/{which}"
    for which in ("ls", "git", "sh"):
        assert programs.find(which).startswith(("/usr/", "/bin/"))
    assert "pipx" not in programs.of_workspace()


def test_the_active_one_comes_before_the_usual_ones(home):
    environment(home / "ws" / ".venv", "python")
    active = environment(home / "ws" / "sub" / "env312", "python")
    assert found(home, VIRTUAL_ENV=str(active.parent)).find("python") == f"{active}/python"
    assert found(home, active).find("python") == f"{active}/python"


def test_it_is_found_once_it_is_made_and_no_longer_when_it_is_gone(home):
    programs = found(home)
    system = programs.find("python3")
    own = environment(home / "ws" / ".venv", "python3")
    assert programs.find("python3") == f"{own}/python3" != system
    (own.parent / "pyvenv.cfg").unlink()
    assert programs.find("python3") == system


@pytest.mark.parametrize("name", ["tools", "build", "ve"])
def test_one_from_which_nothing_counts_as_run_later_is_none(home, name):
    own = environment(home / "ws" / name, "python", "made_up")
    programs = found(home, own, VIRTUAL_ENV=str(own.parent))
    assert programs.find("made_up") is None and "VIRTUAL_ENV" not in programs.variables


def test_of_a_link_in_it_nothing_becomes_readable(home):
    private = program(home / "private" / "bin" / "python").parent
    own = environment(home / "ws" / ".venv")
    (own / "python").symlink_to(private / "python")
    programs = found(home, own, VIRTUAL_ENV=str(own.parent))
    assert not any("private" in path for path in programs.readable)


# ------------------------------------------------------------------ what becomes readable


def test_around_programs_it_is_what_they_need_and_nothing_else(home):
    prefix = home / "venvs" / "a"
    environment(prefix, "python")
    for name in ("lib/x.py", "share/x", "src/secret.py", ".env", "pip.conf", "notes.txt", "etc/npmrc"):
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text("x")
    (prefix / "lib64").symlink_to("lib")
    (prefix / "include").symlink_to(home)
    readable = {*found(home, prefix / "bin").readable}
    assert readable == {f"{prefix}/{name}" for name in ("bin", "lib", "lib64", "share", "pyvenv.cfg")}


def test_of_the_home_itself_only_its_bin(home):
    program(home / "bin" / "x")
    (home / "lib").mkdir()
    (home / "share").mkdir()
    assert found(home, home / "bin").readable == (str(home / "bin"),)


def test_of_a_folder_that_holds_other_things_as_well_only_programs_and_libraries(home):
    folder = home / "Documents"
    program(folder / "tool")
    program(folder / "lib" / "x.so")
    program(folder / "private" / "letter.txt")
    (folder / "letter.txt").write_text("x")
    (folder / "way").symlink_to(home / ".ssh")
    programs = found(home, folder)
    assert programs.find("tool") == f"{folder}/tool"
    assert {*programs.readable} == {f"{folder}/lib", f"{folder}/tool"}


@pytest.mark.parametrize(
    "entry", ["/proc/self", "/proc/1/root/usr/bin", "/proc/1/cwd", "/dev", "/sys/kernel", "/" + "a/" * 3000]
)
def test_places_of_the_kernel_and_those_that_cannot_be_followed_are_left_out(home, entry):
    programs = found(home, entry, CARGO_HOME=entry, GOROOT=entry, VIRTUAL_ENV=entry)
    assert {*programs.entries} <= {*SYSTEM} and programs.readable == () and not programs.variables


def test_a_link_among_programs_brings_its_file_or_the_folder_of_programs_it_is_in(home):
    folder = home / ".local" / "bin"
    alone = program(home / "projects" / "x" / "run.sh")
    (home / "projects" / "x" / "private.txt").write_text("x")
    python = program(home / "opt" / "python3.12" / "bin" / "python3.12")
    (home / "opt" / "python3.12" / "lib").mkdir()
    (home / "opt" / "current").symlink_to("python3.12")
    secret = program(home / ".ssh" / "id_rsa")
    of_workspace = program(home / "ws" / "tool")
    anybodys = program(home / "open" / "tool")
    anybodys.parent.chmod(0o777)
    folder.mkdir(parents=True)
    for name, target in (
        ("x", alone), ("p", home / "opt" / "current" / "bin" / "python3.12"), ("s", secret),
        ("w", of_workspace), ("a", anybodys), ("loop", "loop"), ("gone", "/nowhere"), ("ls", "/usr/bin/ls"),
    ):  # fmt: skip
        (folder / name).symlink_to(target)
    readable = {path for path in found(home, folder).readable if not path.startswith(f"{folder}")}
    opt = home / "opt"
    assert readable == {
        str(alone), f"{opt}/current/bin", f"{opt}/current/lib", f"{python.parent}", f"{opt}/python3.12/lib",
    }  # fmt: skip


def test_the_links_of_a_folder_open_a_bounded_number_of_others(home):
    for number in range(400):
        target = program(home / "many" / f"p{number}" / "tool")
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin" / f"t{number}").symlink_to(target)
    assert 1 < len(found(home, home / "bin").readable) <= 101


def test_what_is_readable_within_something_else_is_not_named_again(home):
    java = program(home / ".sdkman" / "candidates" / "java" / "17" / "bin" / "java")
    (java.parents[2] / "current").symlink_to(java.parents[1])
    assert found(home, java.parents[2] / "current" / "bin", java.parent).readable == ()
    program(home / "a" / "bin" / "deep" / "bin" / "x")
    assert found(home, home / "a" / "bin" / "deep" / "bin", home / "a" / "bin").readable == (
        str(home / "a" / "bin"),
    )


def test_toolchains_at_another_place_are_found_by_their_variables(home):
    for name in ("cargo/bin", "cargo/registry", "rustup/toolchains", "ws/cargo/bin", "gopath/pkg"):
        (home / name).mkdir(parents=True)
    (home / "cargo" / "credentials.toml").write_text("x")
    programs = found(
        home, CARGO_HOME=f"{home}/cargo", RUSTUP_HOME=f"{home}/rustup", GOPATH=str(home), NVM_DIR="ws",
        PYENV_ROOT="/", GOROOT=f"{home}/ws/cargo", JAVA_HOME=f"{home}/none",
    )  # fmt: skip
    assert dict(programs.variables) == {"CARGO_HOME": f"{home}/cargo", "RUSTUP_HOME": f"{home}/rustup"}
    assert {*programs.readable} == {
        f"{home}/{name}" for name in ("cargo/bin", "cargo/registry", "rustup/toolchains")
    }


# ------------------------------------------------------------------ what programs are given


def test_scripts_run_python_and_pip_of_the_workspace_as_long_as_there_is_one(home):
    programs = found(home)
    own = environment(home / "ws" / ".venv", "python", "pip", "ls")
    program(own / "python", '#!/bin/sh\necho "$0" "$@"\n')
    with open_kit(programs, no_settings({}, str(home))) as kit:
        kit.refresh()
        path = kit.variables(confined=False)["PATH"]
        line = ["/bin/sh", "-c", "python 'a b'; command -v ls"]
        told = subprocess.run(line, env={"PATH": path}, check=True, capture_output=True, text=True)
        python, ls = told.stdout.splitlines()
        assert python == f"{own}/python a b" and not ls.startswith(str(home))
        assert sorted(entry.name for entry in Path(kit.folder, "bin").iterdir()) == ["pip", "python"]
        (own / "pip").unlink()
        kit.refresh()
        assert [entry.name for entry in Path(kit.folder, "bin").iterdir()] == ["python"]
        (own.parent / "pyvenv.cfg").unlink()
        kit.refresh()
        assert [entry.name for entry in Path(kit.folder, "bin").iterdir()] == []
    assert not Path(kit.folder).exists()


def test_a_workspace_with_an_odd_name_is_still_one_word(tmp_path):
    home = tmp_path.resolve()
    workspace = home / "w s'; touch out; '$(touch out)"
    own = environment(workspace / ".venv", "python")
    program(own / "python", "#!/bin/sh\necho ran\n")
    programs = find_programs({}, Policy(str(workspace), str(home)))
    with open_kit(programs, no_settings({}, str(home))) as kit:
        path = kit.variables(confined=True)["PATH"]
        line = ["/bin/sh", "-c", "python"]
        done = subprocess.run(line, env={"PATH": path}, cwd=home, check=True, capture_output=True, text=True)
    assert done.stdout == "ran\n" and not (home / "out").exists()


def test_what_programs_are_given_lies_outside_of_what_a_model_may_change(home, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(home / "ws"))
    with open_kit(found(home), no_settings({}, str(home)), (str(home / "ws"),)) as kit:
        assert not kit.folder.startswith(str(home / "ws"))


@pytest.mark.parametrize("name", ["a\nb", "a:b", "a\x1bb", "a\u202eb"])
def test_a_place_that_cannot_be_shown_or_listed_is_left_out(home, name):
    program(home / name / "bin" / "tool")
    programs = found(home, home / name / "bin", JAVA_HOME=f"{home / name}")
    assert programs.find("tool") is None and programs.readable == () and not programs.variables
