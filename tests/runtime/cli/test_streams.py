"""A lost answer is a failure, for every command and every way a stream can fail."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FORMS = ("text", "json", "jsonl")
OFFLINE = ("--model", "offline", "--quiet")

# Each command, with arguments that make it answer on stdout.
COMMANDS: dict[str, tuple[str, ...]] = {
    "-p": ("-p", "read notes.md", *OFFLINE),
    "script": ("--script", "steps.leeward", *OFFLINE),
    "call": ("call", "read", '{"path": "notes.md"}'),
    "check": ("check", "read", '{"path": "notes.md"}'),
    "check --batch": ("check", "--batch", "calls.jsonl"),
    "tools": ("tools",),
    "config show": ("config", "show"),
    "config path": ("config", "path"),
    "doctor": ("doctor", "--quiet"),
    "permissions list": ("permissions", "list"),
    "storage status": ("storage", "status"),
    "sessions list": ("sessions", "list"),
    "sessions search": ("sessions", "search", "notes"),
    "sessions show": ("sessions", "show", "SESSION"),
    "sessions export": ("sessions", "export", "SESSION"),
    "audit list": ("audit", "list"),
    "audit show": ("audit", "show", "CALL"),
    "audit why": ("audit", "why", "CALL"),
    "audit verify": ("audit", "verify"),
    "audit stats": ("audit", "stats"),
    "audit tail": ("audit", "tail", "--timeout", "1.5"),
    "audit replay": ("audit", "replay", "--session", "SESSION"),
    "audit export": ("audit", "export"),
    "audit export csv": ("audit", "export", "--format", "csv"),
    "--help": ("--help",),
    "help of a command": ("audit", "--help"),
    "--version": ("--version",),
}
# These print the same in every form.
ONE_FORM = (
    "audit tail",
    "check --batch",
    "audit export",
    "audit export csv",
    "--help",
    "help of a command",
    "--version",
)
# The text of each command, always; its two other forms are the same again.
CASES = [
    pytest.param(name, form, marks=[pytest.mark.slow] if form != "text" else [])
    for name in COMMANDS
    for form in FORMS
    if form == "text" or name not in ONE_FORM
]
LOST = "leeward: the answer is lost: standard output cannot be written to: "

pytestmark = pytest.mark.skipif(
    not (Path("/bin/bash").exists() and Path("/dev/full").exists()),
    reason="needs a bash that redirects, and a device that is always full",
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


REDIRECTION = re.compile(r"(?P<number>[12]?)(?P<way>[<>])(?P<to>&-|/dev/full)")


def redirected_to(line: str, files: ExitStack) -> dict[str, Any] | None:
    """The streams of a process below these redirections of a shell; None for a line only a shell can read."""
    streams: dict[str, Any] = {"closed": []}
    for word in line.split():
        found = REDIRECTION.fullmatch(word)
        if found is None:
            return None
        number = int(found["number"] or found["way"] == ">")
        if found["to"] == "&-":
            streams["closed"].append(number)
        else:
            name = ("stdin", "stdout", "stderr")[number]
            streams[name] = files.enter_context(Path(found["to"]).open("wb"))
    return streams


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, preloaded: Any) -> Run:
    """A process below a shell's redirections, at home with somebody who has a session.

    It is forked with its streams redirected or closed; `real=True` asks for a shell and the console script.
    """
    folder = tmp_path_factory.mktemp("streams")
    (folder / "notes.md").write_text("the ferry leaves at seven\n")
    (folder / "steps.leeward").write_text("read notes.md\n!expect allowed read\n/status\n")
    (folder / "calls.jsonl").write_text(json.dumps({"tool": "read", "args": {"path": "notes.md"}}) + "\n")
    (folder / ".config/leeward").mkdir(parents=True)
    (folder / ".config/leeward/config.toml").write_text('[llm]\nmodel = "offline"\n')
    names: dict[str, str] = {}

    def run(
        words: tuple[str, ...], redirected: str = "", *, real: bool = False, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        given = ["--workspace", str(folder), *(names.get(word, word) for word in words)]
        around = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        with ExitStack() as files:
            streams = None if real else redirected_to(redirected, files)
            if streams is not None:
                ran = preloaded.run(given, cwd=folder, env=around, timeout=120, text=True, **streams | more)
                ran.stdout, ran.stderr = ran.stdout or "", ran.stderr or ""
                return ran
        line = shlex.join([str(Path(sys.executable).with_name("leeward")), *given])
        return subprocess.run(
            ["/bin/bash", "-c", f"{line} {redirected}"],
            cwd=folder, env=around, timeout=120, check=False, text=True,
            **({"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more),
        )  # fmt: skip

    told = json.loads(run((*COMMANDS["-p"], "--output", "json")).stdout)["data"]
    names.update(SESSION=told["session"], CALL=told["calls"][0]["call"])
    return run


@pytest.fixture(scope="module")
def usual(lived: Run) -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """How each command ends when nothing is redirected."""
    return cache(lambda name, form: lived(words_of(name, form)))


def words_of(name: str, form: str) -> tuple[str, ...]:
    return COMMANDS[name] if name in ONE_FORM else (*COMMANDS[name], "--output", form)


def no_traceback(ran: subprocess.CompletedProcess[str]) -> bool:
    return not any(word in ran.stderr for word in ("Traceback", "Exception ignored", "BrokenPipe"))


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_lost_answer_is_a_failure_with_one_line_that_says_so(
    lived: Run, usual: Run, name: str, form: str
) -> None:
    assert usual(name, form).stdout, "it has an answer"
    for redirected, why in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        ran = lived(words_of(name, form), redirected)
        assert (ran.returncode, ran.stderr) == (1, f"{LOST}{why}\n"), redirected


@pytest.mark.parametrize(("name", "form"), CASES)
def test_whoever_reads_no_more_is_told_nothing(lived: Run, name: str, form: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = lived(words_of(name, form), stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (1, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_stderr_does_not_take_costs_nothing(lived: Run, usual: Run, name: str) -> None:
    expected = usual(name, "text")
    words = tuple(word for word in words_of(name, "text") if word != "--quiet")
    for redirected in ("2>/dev/full", "2>&- <&-"):
        ran = lived(words, redirected)
        assert (ran.returncode, ran.stderr) == (expected.returncode, ""), redirected
        assert ran.stdout


@pytest.mark.parametrize("redirected", [">/dev/full 2>/dev/full", ">&- 2>&-", ">&- 2>&- <&-", "2>&1 | true"])
@pytest.mark.parametrize("name", ["-p", "audit export", "--help"])
def test_with_nobody_to_tell_it_the_code_still_does(lived: Run, name: str, redirected: str) -> None:
    ran = lived(COMMANDS[name], f"{redirected}; exit ${{PIPESTATUS[0]}}")
    # A pipe may have taken a short answer before its reader was gone.
    codes = {0, 1} if "|" in redirected else {1}
    assert ran.returncode in codes and (ran.stdout, ran.stderr) == ("", "")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--bogus",), 2),
        (("call", "raed", "{}"), 5),
        (("call", "fetch", '{"url": "https://example.com/"}'), 7),
        (("audit", "show", "missing"), 5),
        ((), 4),
    ],
)
@pytest.mark.parametrize("redirected", ["", ">/dev/full", ">&-", "2>/dev/full", "2>&-", "2>&- >&- <&-"])
def test_an_error_that_needed_no_answer_keeps_its_code(
    lived: Run, words: tuple[str, ...], code: int, redirected: str
) -> None:
    ran = lived(words, redirected)
    assert ran.returncode == code and no_traceback(ran)
    assert "answer is lost" not in ran.stderr


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("words", [("--bogus",), ("call", "raed", "{}")])
def test_an_error_that_was_to_be_read_as_json_is_an_answer(
    lived: Run, words: tuple[str, ...], form: str
) -> None:
    ran = lived((*words, "--output", form), ">/dev/full")
    assert (ran.returncode, ran.stderr) == (1, f"{LOST}No space left on device\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (COMMANDS["-p"], 0),
        (COMMANDS["call"], 0),
        (("--script", "-", *OFFLINE), 2),
        (("check", "--batch", "-"), 2),
        ((), 4),
    ],
)
def test_without_standard_input_what_does_not_need_it_works(
    lived: Run, words: tuple[str, ...], code: int
) -> None:
    ran = lived(words, "<&-")
    assert ran.returncode == code and no_traceback(ran)
    assert code != 2 or "cannot be read: Bad file descriptor" in ran.stderr


def test_what_was_done_before_the_answer_was_lost_is_on_record(lived: Run) -> None:
    def sessions() -> set[str]:
        return {one["id"] for one in json.loads(lived(listing).stdout)["data"]["sessions"]}

    listing = ("sessions", "list", "--output", "json")
    before = sessions()
    assert lived(COMMANDS["-p"], ">/dev/full").returncode == 1
    (new,) = sessions() - before
    records = json.loads(lived(("audit", "list", "--session", new, "--output", "json")).stdout)["data"]
    assert {"session", "turn"} <= {record["kind"] for record in records["records"]}
    assert lived(("audit", "verify")).returncode == 0


def test_a_file_opened_in_the_place_of_a_closed_stream_is_not_written_to(lived: Run) -> None:
    """The database would be the next to get the number of a closed stream."""
    for _ in range(3):
        lived((*COMMANDS["-p"], "--output", "jsonl"), ">&- 2>&- <&-", real=True)
    assert lived(("audit", "verify")).returncode == 0
    status = json.loads(lived(("storage", "status", "--output", "json")).stdout)["data"]
    assert status["damage"] == []
