"""Which modules a start loads, and that every public name exists."""

from __future__ import annotations

import subprocess
import sys

import pytest

import leeward
import leeward.runtime

HEAVY = ("trio", "pydantic", "httpx", "aiosqlite", "prompt_toolkit", "rich", "asyncio", "importlib.metadata")


def loaded_by(code: str) -> set[str]:
    """Run code in a fresh interpreter and return the names of the modules it loaded."""
    told = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nfinally:\n    print(*sys.modules, "
        f"file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def started(*words: str) -> set[str]:
    return loaded_by(
        f"sys.argv = ['leeward', *{list(words)!r}]; from leeward.__main__ import main; sys.exit(main())"
    )


@pytest.mark.parametrize("words", [("--help",), ("call", "--help"), ("--bogus",)])
def test_help_and_usage_load_nothing_heavy(words):
    assert not started(*words).intersection(HEAVY)


def test_version_loads_next_to_nothing():
    names = started("--version")
    assert not names.intersection({*HEAVY, "argparse", "dataclasses", "json"})
    assert len([name for name in names if name.startswith("leeward")]) < 12


def test_the_fronts_are_lazy():
    assert not loaded_by("import leeward, leeward.runtime").intersection(HEAVY)
    assert not loaded_by("from leeward.runtime import CliError").intersection({"trio", "pydantic"})


def test_a_call_loads_no_model_client_and_no_terminal(leeward):
    names = started("check", "read", "{}")
    assert "trio" in names
    assert not names.intersection({"httpx", "httpcore", "h2", "prompt_toolkit", "rich", "mcp", "mcp_types"})


# What a start that needs none of it does not load; a name that ends in a point stands for all below it.
UNUSED = (
    "leeward.security.command.",
    "leeward.security.record.replay",
    "leeward.runtime.repl",
    "leeward.runtime.slash.",
    "leeward.runtime.audit.",
    "leeward.runtime.providers.anthropic.",
    "leeward.tools.distill.rules",
    "leeward.tools.distill.page",
    "leeward.tools.git.",
    "leeward.tools.http.client",
    "leeward.tools.http.dial",
    "leeward.tools.http.html",
    "leeward.tools.proxy.",
    "leeward.tools.shell.readers",
    "leeward.tools.shell.trials",
    "jsonschema_rs",
    "prompt_toolkit",
    "rich",
    "selectolax",
    "tree_sitter",
)
NETWORK = ("leeward.runtime.providers.network", "leeward.runtime.providers.transport", "httpx", "h2", "h11")


def needless(names: set[str], unused: tuple[str, ...]) -> list[str]:
    below = tuple(name if name.endswith(".") else f"{name}." for name in unused)
    return sorted(name for name in names if name in unused or name.startswith(below))


def test_a_run_loads_what_it_uses(leeward):
    names = started("-p", "hello", "--model", "offline", "--quiet")
    assert "leeward.runtime.providers.offline" in names
    assert needless(names, (*UNUSED, *NETWORK)) == []


def test_a_service_is_loaded_with_its_own_dialect_alone(leeward):
    leeward.configure(
        '[llm]\nretries = 0\n[[llm.providers]]\nname = "none"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    names = started("-p", "hello", "--model", "none:x", "--quiet")
    # Where click is installed, which the MCP SDK brings, httpx loads rich for a command line of its own.
    unused = tuple(name for name in UNUSED if name != "rich" or "httpx._main" not in names)
    assert "httpx" in names and needless(names, unused) == []


def test_cryptography_is_loaded_with_the_first_head(leeward):
    assert "cryptography" not in started("check", "read", "{}") | started("audit", "list")


def test_a_command_line_loads_what_reads_it(leeward):
    assert "leeward.security.command.judge.verdict" in started("check", "shell", '{"command": "ls"}')


def test_version_is_told():
    done = subprocess.run(
        [sys.executable, "-m", "leeward", "--version"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"leeward {leeward.__version__}\n", "")


@pytest.mark.parametrize("front", [leeward, leeward.runtime])
def test_every_public_name_is_there(front):
    for name in front.__all__:
        assert getattr(front, name) is getattr(front, name)
    assert set(front.__all__) <= set(dir(front))
    with pytest.raises(AttributeError, match="no_such_name"):
        front.no_such_name  # noqa: B018


def test_the_collector_is_switched_on_again():
    code = (
        "import gc; sys.argv = ['leeward', 'tools', '--quiet']; from leeward.__main__ import main;"
        "assert not gc.isenabled(); main(); assert gc.isenabled() and gc.get_freeze_count() > 10_000"
    )
    assert loaded_by(code)


@pytest.mark.parametrize("name", ["Always", "Answer", "Question", "Reply", "Scope"])
def test_what_approvers_imported_from_security_is_handed_on_with_a_warning(name):
    public = getattr(leeward, name)
    assert name in leeward.__all__
    with pytest.warns(
        DeprecationWarning, match=f"import {name} from leeward, not from leeward.security"
    ) as told:
        old = {}
        exec(f"from leeward.security import {name}", old)
    assert old[name] is public
    assert {one.filename for one in told} == {"<string>"}


def test_no_other_name_is_handed_on_from_security():
    with pytest.raises(ImportError):
        exec("from leeward.security import Pipeline", {})
