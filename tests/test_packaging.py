"""The installed package matches the sources: dependencies, archives, and the documented ways to start."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from loading import SAFE, load_module

ROOT = Path(__file__).parents[1]
FOLDERS = ("security", "memory", "tools", "runtime")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
VERSIONS = ROOT / ".ci" / "versions.py"
LOGIN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def distribution(requirement: str) -> str:
    """The name in a requirement, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def imported(*folders: str) -> set[str]:
    """The distributions of what is imported below some folders; what is nobody's stays a module's name."""
    found, known = set(), packages_distributions()
    shared = {path.stem for path in (ROOT / "tests" / "support").glob("*.py")}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        # Scripts share some modules that lie beside them.
        ours = {"leeward", "", *shared, *(beside.stem for beside in path.parent.glob("*.py"))}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            tops = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - ours
            found |= {distribution(known.get(top, [top])[0]) for top in tops}
    return found


def shipped() -> set[str]:
    """Every file that belongs into a wheel."""
    own = [path for path in (ROOT / "src" / "leeward").iterdir() if path.is_file()]
    files = {f"leeward/{path.name}" for path in own}
    return files | {f"leeward/{path}" for folder in FOLDERS for path in below(folder)}


def below(folder: str) -> set[str]:
    """The files below a folder at the root, without what running them leaves there."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if not {"__pycache__", "dist"} & {*path.parts}}


def test_each_dependency_is_declared_once_and_with_its_lowest_version() -> None:
    everything = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    lowest = subprocess.run(
        [sys.executable, VERSIONS, "lowest"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    assert len(lowest) == len({distribution(entry) for entry in everything}) == len(everything)
    built = {distribution(entry): entry for entry in SETTINGS["build-system"]["requires"]}
    assert built["hatchling"] in everything


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    declared = {distribution(entry) for entry in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    extra = {distribution(entry) for name in ("mcp", "prices", "testing") for entry in extras[name]}
    assert imported(*FOLDERS, "src") == declared | extra
    tools = {
        "pytest-trio",
        "pytest-xdist",
        "mypy",
        "ruff",
        "hatchling",
        "ipykernel",
        "pyright",
    }  # run, not imported
    for_tests = {distribution(entry) for entry in PROJECT["optional-dependencies"]["dev"]}
    assert extra <= for_tests
    assert imported("tests", "bench", "examples") - declared - extra == for_tests - tools - extra


def test_each_dependency_has_its_reason_on_its_line() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for entry in PROJECT["dependencies"]:
        assert re.search(rf'"{re.escape(entry)}",\s+# .{{15,}}', text), entry


def bounds(group: list[str]) -> dict[str, SpecifierSet]:
    """The versions allowed by some entries; a name that stands there twice would be lost."""
    entries = list(map(Requirement, group))
    assert len({distribution(entry.name) for entry in entries}) == len(entries)
    return {distribution(entry.name): entry.specifier for entry in entries}


def locked() -> dict[str, tuple[str, list[str]]]:
    """What the lock pins: name, version, hashes. Every line of it must be one of the two kinds."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in (ROOT / "requirements.lock").read_text(encoding="ascii").splitlines():
        if pinned := re.fullmatch(r"([a-z0-9.-]+)==([0-9a-z.]+) \\", line):
            name = distribution(pinned[1])
            assert name not in found
            found[name] = (pinned[2], [])
        else:
            found[name][1].append(re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})(?: \\)?", line)[1])
    return found


def test_the_lock_pins_every_dependency_within_its_bounds_with_hashes_and_names_no_address() -> None:
    # `locked` reads nothing but pins and hashes: an address or an option in it would fail there.
    pinned = locked()
    declared = bounds(PROJECT["dependencies"]) | bounds(PROJECT["optional-dependencies"]["dev"])
    assert declared.keys() <= pinned.keys()
    assert not {name: pinned[name][0] for name in declared if not declared[name].contains(pinned[name][0])}
    assert all(hashes for _, hashes in pinned.values())
    assert "requirements.lock" in " ".join(recipe("$(VENV)/installed-dev"))


def test_parsers_that_verdicts_rest_on_are_bounded_on_both_sides() -> None:
    allowed = bounds(PROJECT["dependencies"])
    for end in ("lowest", "highest"):
        argv = [sys.executable, VERSIONS, end, "--parsers"]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
        named = bounds(done.stdout.split())
        assert named.keys() >= {"ada-url", "google-re2", "jsonschema-rs", "tree-sitter", "tree-sitter-bash"}
        for name, wanted in named.items():
            assert {one.operator for one in allowed[name]} == {">=", "<"}, name
            lowest = next(one.version for one in allowed[name] if one.operator == ">=")
            assert wanted == (SpecifierSet(f"=={lowest}") if end == "lowest" else allowed[name])
    assert not any(map(allowed["tree-sitter"].contains, ("0.25.0", "0.25.2", "0.26.0")))


def test_both_ways_of_installing_for_development_bring_the_same() -> None:
    assert SETTINGS["dependency-groups"]["dev"] == ["leeward[dev]"]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel from the tree, a source archive from the tree, and a wheel from that archive."""
    folder = tmp_path_factory.mktemp("archives")

    def build(tree: Path, kind: str, name: str) -> Path:
        argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder / name)]
        subprocess.run(argv, cwd=tree, check=True, capture_output=True, timeout=120)
        (built,) = (folder / name).iterdir()
        return built

    made = {"wheel": build(ROOT, "wheel", "direct"), "sdist": build(ROOT, "sdist", "source")}
    with tarfile.open(made["sdist"]) as archive:
        archive.extractall(folder / "unpacked", **SAFE)
    (tree,) = (folder / "unpacked").iterdir()
    return made | {"tree": tree, "wheel from sdist": build(tree, "wheel", "again")}


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment in which the wheel is installed; what it depends on is ours."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    target = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    argv = [folder / "bin" / "python", "-m", "pip", "install", *options, archives["wheel from sdist"]]
    subprocess.run(argv, check=True, capture_output=True, cwd=folder, env=LOGIN, timeout=120)
    (Path(target) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wheel", "wheel from sdist"])
def test_a_wheel_holds_everything_and_nothing_else(archives, name) -> None:
    with zipfile.ZipFile(archives[name]) as wheel:
        held = {entry for entry in wheel.namelist() if ".dist-info/" not in entry}
    manual = f"leeward-{PROJECT['version']}.data/data/share/man/man1/leeward.1"
    assert held == {*shipped(), manual}
    assert {entry for entry in held if entry.endswith((".toml", ".typed"))} >= {
        "leeward/py.typed",
        "leeward/security/text/secrets.toml",
        "leeward/tools/distill/rules.toml",
        "leeward/security/command/programs/programs.toml",
    }


@pytest.mark.slow
def test_a_source_archive_holds_each_file_once(archives) -> None:
    with tarfile.open(archives["sdist"]) as archive:
        assert all(entry.isfile() for entry in archive.getmembers())
        held = [entry.name.partition("/")[2] for entry in archive.getmembers()]
    assert len(held) == len(set(held))
    beside = set().union(*map(below, ("tests", "docs", "examples", "bench", ".ci", ".github")))
    at_root = {path.name for path in ROOT.iterdir() if path.suffix in {".md", ".toml"}}
    at_root |= {
        "LICENSE",
        "Makefile",
        ".gitignore",
        ".pre-commit-config.yaml",
        "PKG-INFO",
        "requirements.lock",
    }
    assert set(held) == {f"src/{name}" for name in shipped()} | beside | at_root


@pytest.mark.slow
def test_the_tests_of_an_unpacked_source_archive_are_collected(archives, installed) -> None:
    argv = [installed / "python", "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        argv, cwd=archives["tree"], env=LOGIN, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    counts = {name: int(number) for name, number in re.findall(r"(?m)^(tests/\S+): (\d+)$", done.stdout)}
    assert set(counts) == {path for path in below("tests") if re.fullmatch(r"test_.*\.py", Path(path).name)}


@pytest.mark.slow
def test_the_metadata_names_what_is_tested(archives) -> None:
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        (name,) = (entry for entry in wheel.namelist() if entry.endswith("/METADATA"))
        told = message_from_bytes(wheel.read(name))
    versions = {entry.rpartition(" ")[2] for entry in told.get_all("Classifier") if "Python :: 3." in entry}
    assert versions == {"3.11", "3.12", "3.13", "3.14"}
    assert (told["License-Expression"], told["Requires-Python"]) == ("MIT", ">=3.11")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix is not None
    assert set(re.findall(r"[\d.]+", matrix[1])) == versions


def test_the_workflow_calls_targets_that_exist() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    called = re.findall(r"run: make (\w+)", workflow)
    assert set(called) == {"check", "tests", "build"}
    assert all(recipe(target) for target in called)
    assert "://" not in workflow


def test_the_lowest_versions_are_installed_past_the_lock_which_takes_no_others() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    lowest = workflow.partition("matrix.dependencies == 'lowest'")[2].partition("\n\n")[0]
    assert "--constraint lowest.txt" in lowest
    assert not re.search(r"PIP_CONSTRAINT|\bmake\b|requirements\.lock", lowest)


@pytest.mark.parametrize("entries", [["ada-url>=4.0"], ["trio"], ["ada-url>=4.0,<5"] * 2])
def test_a_parser_without_bounds_or_named_twice_is_not_printed_as_a_version(entries) -> None:
    versions = load_module(VERSIONS)
    with pytest.raises(ValueError, match=r"bound|needed once"):
        list(versions.requirements("lowest", entries, parsers=True))


@pytest.mark.slow
def test_what_is_installed_tells_its_version_decides_and_gives_the_tour(installed, tmp_path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "work" / "examples")
    (tmp_path / "work" / "line.leeward").write_text("read examples/tour/notes.md\n!expect allowed read\n")
    around = LOGIN | {"HOME": str(tmp_path)}
    where = [installed / "python", "-c", "import leeward; print(leeward.__file__)"]
    found = subprocess.run(
        where, cwd=tmp_path, env=around, check=True, capture_output=True, text=True, timeout=60
    )
    assert Path(found.stdout).is_relative_to(installed.parent)
    for words, code, wanted in (
        (("--version",), 0, PROJECT["version"]),
        (("check", "shell", '{"command": "wc -l examples/tour/notes.md"}'), 0, "allow"),
        (("check", "shell", '{"command": "rm -rf ~"}'), 7, "deny"),
        (("--script", "line.leeward", "--model", "offline"), 0, "The ferry leaves at seven"),
    ):
        done = subprocess.run(
            [installed / "leeward", *words],
            cwd=tmp_path / "work",
            env=around,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert wanted in done.stdout + done.stderr


@pytest.mark.slow
def test_what_is_unpacked_works_without_the_tree(archives, tmp_path) -> None:
    with zipfile.ZipFile(archives["wheel from sdist"]) as wheel:
        wheel.extractall(tmp_path / "site")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.md").write_text("the ferry leaves at seven\n")
    around = LOGIN | {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    code = "import sys, leeward; print(leeward.__file__); from leeward.__main__ import main; sys.exit(main())"
    for words, wanted in (
        (("call", "read", '{"path": "notes.md"}'), "leaves at seven"),
        (("check", "shell", '{"command": "rm notes.md"}', "--rung", "real"), "ask "),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=folder,
            env=around,
            capture_output=True,
            text=True,
            timeout=60,
        )
        where, _, told = done.stdout.partition("\n")
        assert Path(where).is_relative_to(tmp_path / "site"), done.stderr
        assert wanted in told + done.stderr


@pytest.fixture(scope="module")
def plugin(installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of that environment once the example of a plug-in is built, and installed in it, too."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "examples" / "plugin", folder / "source", ignore=shutil.ignore_patterns("__*"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True, timeout=120)
    (wheel,) = (folder / "dist").iterdir()
    # With its dependencies: the only one is Leeward, which is there, and no index is asked.
    options = ["--quiet", "--no-index", "--disable-pip-version-check"]
    argv = [installed / "python", "-m", "pip", "install", *options, wheel]
    subprocess.run(argv, cwd=folder, env=LOGIN, check=True, capture_output=True, timeout=120)
    return installed


@pytest.mark.slow
@pytest.mark.parametrize("without", [(), ("-p", "no:trio", "-p", "no:anyio")])
def test_the_plugin_passes_its_own_tests_without_any_configuration(plugin, tmp_path, without) -> None:
    shutil.copy(ROOT / "examples" / "plugin" / "test_leeward_tides.py", tmp_path)
    argv = [plugin / "python", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *without]
    around = LOGIN | {"HOME": str(tmp_path / "home")}
    done = subprocess.run(
        argv, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


@pytest.mark.slow
def test_the_tools_of_a_plugin_are_judged_like_any_once_it_is_named(plugin, tmp_path) -> None:
    (tmp_path / "work").mkdir()
    config, log = tmp_path / ".config/leeward/config.toml", '{"path": "tides.log", "line": "x"}'
    config.parent.mkdir(parents=True)

    def ends(*words: str) -> tuple[int, str]:
        argv = [plugin / "leeward", *words]
        where = {"cwd": tmp_path / "work", "env": LOGIN | {"HOME": str(tmp_path)}}
        done = subprocess.run(argv, **where, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    assert ends("check", "tide_times", '{"port": "DE-HUS"}')[0] == 5, "installed is not enabled"
    config.write_text('[tools]\nplugins = ["tides"]\n')
    for words, code, told in (
        (("check", "tide_times", '{"port": "DE-HUS"}'), 0, "allow"),
        (("call", "tide_times", '{"port": "DE-HUS"}'), 0, "01:12"),
        (("check", "tide_times", '{"port": "../x"}'), 2, "arguments"),
        (("check", "tide_log", log), 4, "trust"),
        (("call", "tide_log", log), 4, "nobody is here to say yes"),
        (("check", "tide_log", '{"path": "/etc/passwd", "line": "x"}'), 7, "paths"),
        (("check", "tide_page", '{"page": "https://tides.example.com/x"}'), 7, "grounding"),
        (("tools",), 0, "tide_page        verified"),
    ):
        found = ends(*words)
        assert found[0] == code and told in found[1], (words, found)
    assert not (tmp_path / "work" / "tides.log").exists()
    config.write_text(
        '[tools]\nplugins = ["tides"]\n[[permissions.rules]]\ntool = "tide_log"\naction = "allow"\n'
    )
    assert ends("call", "tide_log", log)[0] == 0
    assert (tmp_path / "work" / "tides.log").read_text() == "x\n"


# ------------------------------------------------------------------ the Makefile and the check before a
# change


def recipe(target: str) -> list[str]:
    """The lines of a target's recipe."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"(?m)^{re.escape(target)}:.*\n((?:\t.*\n)+)", text)
    assert found is not None, target
    return [line.strip() for line in found[1].splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_lays_an_unpacked_source_archive_out_like_a_checkout(archives, tmp_path) -> None:
    tree = shutil.copytree(archives["tree"], tmp_path / "tree")
    for _ in range(2):
        subprocess.run(["make", *FOLDERS], cwd=tree, env=LOGIN, check=True, capture_output=True, timeout=60)
    for folder in FOLDERS:
        assert (tree / folder / "__init__.py").is_file()
        assert (tree / "src" / "leeward" / folder).readlink() == Path("..", "..", folder)
    wanted = subprocess.run(
        ["make", "-n", "tests"], cwd=tree, env=LOGIN, capture_output=True, text=True, timeout=60
    )
    assert wanted.returncode == 0, wanted.stderr
    assert "requirements.lock" in wanted.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_says_which_python_it_needs(tmp_path) -> None:
    old = tmp_path / "python-of-old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
    done = subprocess.run(
        ["make", f"PYTHON={old}", "run"], cwd=tmp_path, env=LOGIN, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "Leeward needs Python 3.11 or newer" in done.stdout + done.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_check_before_a_change_ends_with_the_summary_of_the_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.startswith("#!/usr/bin/env bash\n")
    assert script.rstrip().splitlines()[-3:] == ["make test", "make docs", "make test-all"]
    assert any(line.startswith("$(BIN)/pytest $(PARALLEL) -m 'not slow'") for line in recipe("test"))
    assert recipe("test-all")[-1] == "$(BIN)/pytest $(PARALLEL) -m slow"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    options = SETTINGS["tool"]["pytest"]["ini_options"]
    assert options["faulthandler_timeout"] > 60
    assert options["faulthandler_exit_on_timeout"]


STUBS = {
    "ruff": "exit 0",
    "mypy": "until test -e {0}/begun; do sleep 0.01; done; touch {0}/checked; exit {1}",
    "pytest": "touch {0}/begun; until test -e {0}/checked; do sleep 0.01; done; echo 1 passed; exit {2}",
}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(("types", "suite"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_types_are_checked_beside_the_tests_and_either_fails_both(tmp_path: Path, types, suite) -> None:
    (tmp_path / "bin").mkdir()
    for name, script in STUBS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{script.format(tmp_path, types, suite)}\n", encoding="utf-8")
        path.chmod(0o755)
    for made in ("installed", "installed-dev"):
        (tmp_path / made).touch()
    done = subprocess.run(
        ["make", f"VENV={tmp_path}", "test"],
        cwd=ROOT, env=LOGIN, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode == 0) == (types == suite == 0), done.stderr
    assert done.stdout.splitlines()[-1] == "1 passed"
    assert ("mypy found errors" in done.stderr) == bool(types)


def test_what_the_makefile_names_exists() -> None:
    named = re.findall(
        r"(?<![\w/])(?:tests|bench|examples|\.ci)/[\w./-]+\w", (ROOT / "Makefile").read_text(encoding="utf-8")
    )
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []
