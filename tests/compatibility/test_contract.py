"""Everything that scripts, programs and extensions rely on is listed in `contract.json` and unchanged.

A difference is either a mistake, or a change that others are told of in CHANGELOG.md. To write the file anew:
LEEWARD_WRITE_CONTRACT=1 pytest tests/compatibility/test_contract.py
"""

from __future__ import annotations

import enum
import http.server
import importlib
import inspect
import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

CONTRACT = Path(__file__).with_name("contract.json")
WRITES = bool(os.environ.get("LEEWARD_WRITE_CONTRACT"))

# Behind these stand names that are a tool's, a gate's, a command line's or a value's own.
OPEN = re.compile(r"\b(parameters|facts|value|looked_up\.\w+)\..*")

BATCH = (
    '{"tool": "read", "args": {"path": "notes.md"}}\n{"tool": "shell", "args": {"command": "touch x"}}\n[]\n'
)
LOOKING = {
    "call": ("call", "read", '{"path": "notes.md"}'),
    "call, refused": ("call", "shell", '{"command": "touch ready"}'),
    "call, rejected": ("call", "read_overflow", '{"id": "../etc/passwd"}'),
    "check": ("check", "shell", '{"command": "ls"}'),
    "check --batch": ("check", "--batch", "-"),
    "-p": ("-p", "read notes.md", "--model", "offline"),
    "--script": ("--script", "-", "--model", "offline"),
    "audit list": ("audit", "list", "--kind", "turn"),
    "audit show": ("audit", "show", "CALL"),
    "audit why": ("audit", "why", "CALL"),
    "audit verify": ("audit", "verify"),
    "audit replay": ("audit", "replay", "--session", "SESSION", "--autonomy", "readonly"),
    "audit stats": ("audit", "stats"),
    "sessions list": ("sessions", "list"),
    "sessions show": ("sessions", "show", "SESSION"),
    "sessions search": ("sessions", "search", "ferry"),
    "sessions export": ("sessions", "export", "SESSION"),
    "permissions list": ("permissions", "list"),
    "storage status": ("storage", "status"),
    "storage prune": ("storage", "prune"),
    "storage vacuum": ("storage", "vacuum"),
    "tools": ("tools",),
    "models": ("models", "offline"),
    "config show": ("config", "show"),
    "config path": ("config", "path"),
    "doctor": ("doctor",),
    "no such session": ("sessions", "show", "nothing"),
    "usage": ("audit", "nothing"),
}


@pytest.fixture(scope="module")
def contract() -> Iterator[dict[str, Any]]:
    """What is written down; written anew at the end where that is asked for."""
    held = json.loads(CONTRACT.read_text(encoding="utf-8")) if CONTRACT.exists() else {}
    yield held
    if WRITES:
        CONTRACT.write_text(json.dumps(held, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def hold(contract: dict[str, Any], name: str, found: Any) -> None:
    """Hold what was found against what is written down."""
    if WRITES:
        contract[name] = found
    assert found == contract[name]


@pytest.fixture(scope="module")
def about(played, story) -> dict[str, str]:
    """The session and the call that is asked about."""
    session = story.sessions(played)[story.TITLE]
    listed = played.run(
        "audit", "list", "--session", session, "--tool", "shell", "--denied", "--output", "json"
    )
    return {"SESSION": session, "CALL": listed.json["data"]["records"][0]["call"]}


def closed(paths: Iterable[str]) -> list[str]:
    """Key paths, cut where what follows is not ours to name."""
    return sorted({OPEN.sub(r"\1", path) for path in paths})


# -------------------------------------------------------------------------------------- what is stored


def test_records_have_the_kinds_and_fields_they_had(contract, played, story) -> None:
    exported = played.run("audit", "export", "--format", "jsonl")
    assert exported.code == 0, exported
    found: dict[str, set[str]] = {}
    for record in exported.lines:
        found.setdefault(record["kind"], set()).update(story.key_paths(record["body"]))
    hold(contract, "records", {kind: closed(paths) for kind, paths in found.items()})


def test_lines_of_a_conversation_have_the_fields_they_had(contract, played, about, story) -> None:
    entries = played.run("sessions", "show", about["SESSION"], "--output", "json").json["data"]["entries"]
    found: dict[str, set[str]] = {}
    for entry in entries:
        found.setdefault(entry["role"], set()).update(story.key_paths(entry["content"]))
    hold(contract, "entries", {role: closed(paths) for role, paths in found.items()})


def test_the_database_has_the_tables_and_columns_it_had(contract, played) -> None:
    database = sqlite3.connect(f"file:{played.data / 'leeward.db'}?mode=ro", uri=True)
    names = database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    found = {
        name: [column for (column,) in database.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        for (name,) in names.fetchall()
    }
    database.close()
    hold(contract, "tables", found)


# ---------------------------------------------------------------------------------------- what is answered


def told_to(name: str, story: Any) -> str:
    """The standard input of a command."""
    return {"check --batch": BATCH, "--script": story.SCRIPT + "/status\n" + "read autumn.md\n" * 4}.get(
        name, ""
    )


def answers(played: Any, about: dict[str, str], story: Any, form: str) -> dict[str, Any]:
    """How each command answers in a form."""
    commands = [
        ((*(about.get(word, word) for word in words), "--output", form), told_to(name, story))
        for name, words in LOOKING.items()
    ]
    return dict(zip(LOOKING, played.run_each(commands), strict=True))


def opened(values: dict[str, Any]) -> list[Any]:
    """The values of a configuration, whose keys are written down elsewhere."""
    return list(values.values())


def test_answers_in_json_have_the_keys_they_had(contract, played, about, story) -> None:
    found = {}
    for name, ran in answers(played, about, story, "json").items():
        told = {"lines": ran.lines} if name == "check --batch" else ran.json
        if name == "config show":
            told["data"]["values"] = opened(told["data"]["values"])
        code = None if name == "doctor" else ran.code  # that one is about the machine
        found[name] = {"exit": code, "keys": closed(story.key_paths(told))}
    hold(contract, "json", found)


def test_events_have_the_types_and_keys_they_had(contract, played, about, story) -> None:
    found: dict[str, set[str]] = {}
    for name, ran in answers(played, about, story, "jsonl").items():
        for event in ran.lines if name != "check --batch" else ():
            assert event["schema"] == 1
            if event["type"] == "config" and "values" in event:
                event["values"] = opened(event["values"])
            found.setdefault(event["type"], set()).update(story.key_paths(event))
    hold(contract, "events", {kind: closed(paths) for kind, paths in found.items()})


def test_the_exit_codes_mean_what_they_meant(contract, played, story) -> None:
    script = ("--script", "-", "--model", "offline")
    commands = {
        "a call that is let through": (("call", "read", '{"path": "notes.md"}'), ""),
        "a call that fails": (("call", "read", '{"path": "missing.md"}'), ""),
        "an argument that does not fit": (("call", "read", "{}"), ""),
        "a rejected pattern": (("call", "read_overflow", '{"id": "../x"}'), ""),
        "a configuration that is not there": (("config", "show", "--config", "/missing.toml"), ""),
        "a call that was refused in a run": (script, "run touch x\n"),
        "an expectation that is not met": (script, "read notes.md\n!expect denied read\n"),
        "a question to nobody": (("call", "shell", '{"command": "touch x"}'), ""),
        "no such tool": (("call", "nothing", "{}"), ""),
        "a refused call": (("call", "shell", '{"command": "rm -rf ~"}'), ""),
        "a time that ran out": (("call", "shell", '{"command": "sleep 60"}', "--timeout", "0.5"), ""),
    }
    with ExitStack() as stack:
        for status in (401, 429, 503):
            config = played.home / f"answers-{status}.toml"
            config.write_text(
                _model_at(stack.enter_context(story.serving(_answering(status)))), encoding="utf-8"
            )
            words = ("-p", "hello", "--model", "refusing:any", "--config", str(config))
            commands[f"a model that answers {status}"] = (words, "")
        ran = played.run_each(list(commands.values()))
    found = {name: one.code for name, one in zip(commands, ran, strict=True)}
    for number in (signal.SIGINT, signal.SIGTERM):
        found[number.name] = _signalled(story, played, number)
    hold(contract, "exits", found)


def _answering(status: int) -> type[http.server.BaseHTTPRequestHandler]:
    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    return Answering


def _model_at(site: str) -> str:
    return f'[llm]\nretries = 0\n[[llm.providers]]\nname = "refusing"\nbase_url = "{site}/v1"\n'


def _signalled(story: Any, machine: Any, number: signal.Signals) -> int:
    words = [
        str(story.LEEWARD),
        "-p",
        "run echo begun && sleep 600",
        "--output",
        "jsonl",
        "--model",
        "offline",
    ]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=machine.workspace, env=machine.environment, **pipes) as process:
        for line in process.stdout:
            if json.loads(line)["type"] == "output":
                process.send_signal(number)
        return process.wait(60)


# ---------------------------------------------------------------------------------------- what is imported


def surface(thing: Any) -> dict[str, list[str]]:
    """What somebody who imports a name can see of it: members, and parameters of what can be called."""
    if not inspect.isclass(thing):
        return {"parameters": list(inspect.signature(thing).parameters)} if callable(thing) else {}
    ours = [kind for kind in thing.__mro__ if kind.__module__.partition(".")[0] == "leeward"]
    members = {name: value for kind in reversed(ours) for name, value in vars(kind).items()}
    shown = {name for name in members if not name.startswith("_")}
    if issubclass(thing, enum.Enum):
        return {"members": sorted(shown & {*thing.__members__, *members})}
    fields = {name for kind in ours for name in inspect.get_annotations(kind) if not name.startswith("_")}
    told = {"members": sorted(shown | fields)}
    for name in sorted(shown):
        if inspect.isfunction(members[name]) or isinstance(members[name], classmethod | staticmethod):
            told[f"{name}()"] = list(inspect.signature(getattr(thing, name)).parameters)
    return told


@pytest.mark.parametrize(
    "module", ["leeward", "leeward.aio", "leeward.events", "leeward.sync", "leeward.testing"]
)
def test_public_names_are_what_they_were(contract, module) -> None:
    loaded = importlib.import_module(module)
    assert sorted(loaded.__all__) == loaded.__all__
    hold(contract, module, {name: surface(getattr(loaded, name)) for name in loaded.__all__})


def test_types_for_annotations_can_still_be_imported(contract) -> None:
    """Only their names are promised: what a program may use of them is in the reference."""
    loaded = importlib.import_module("leeward.types")
    assert all(getattr(loaded, name) for name in loaded.__all__)
    hold(contract, "leeward.types", sorted(loaded.__all__))


def test_the_errors_a_tool_raises_are_one_family() -> None:
    leeward = importlib.import_module("leeward")
    errors = [getattr(leeward, name) for name in leeward.__all__]
    family = {
        kind.__name__ for kind in errors if inspect.isclass(kind) and issubclass(kind, leeward.ToolError)
    }
    assert len(family) == 10, family


def test_the_console_script_is_where_it_was() -> None:
    (script,) = entry_points(group="console_scripts", name="leeward")
    assert script.value == "leeward.__main__:main"
