"""Sessions in which everything happens that Leeward keeps: played to make the fixtures, and played again
by the tests, which hold what is written today against what is written down.

Only the console script is needed, at a terminal and without one, so that this can be played by any version.
"""

from __future__ import annotations

import fcntl
import http.server
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TESTS = Path(__file__).parents[1]
LEEWARD = Path(sys.executable).with_name("leeward")
PLACE = Path("/tmp/leeward-0.1.0")
MARKER = ".of-the-tests-of-leeward"
PATIENCE = 100  # seconds
PAGE = "<h1>Timetable</h1><p>The ferry leaves at seven. <a href='/winter'>winter</a></p>"

# Nothing that is kept expires before it is looked at, whenever that may be.
CONFIG = """\
[agent]
max_turns = 20
[llm]
model = "offline"
[memory]
retention_days = 36500
[tools.overflow]
threshold = 4000
retention_days = 36500
[tools.fetch]
allow_networks = ["127.0.0.0/8"]
allow_http = ["127.0.0.1"]
[[permissions.rules]]
tool = "write"
match = "**/*.lock"
action = "deny"
[[permissions.rules]]
tool = "read"
match = "**/*.chart"
action = "ask"
"""

TITLE = "read notes.md and then read plan.md"
YES_OR_NO = "[y]es / [n]o"

SCRIPT = """\
read notes.md
!expect allowed read
!expect text "ferry"
write tide.lock: low
!expect denied write permissions
run touch later
!expect asked shell
/clear
guess the website of lighthouse
!expect denied fetch grounding
"""


@dataclass(frozen=True)
class Machine:
    """A home, a workspace and a person who runs `leeward` there: the script, or quicker, `preloaded`.

    `trial` is said of `[tools.shell] trial`, where it is said.
    """

    home: Path
    workspace: Path
    preloaded: Any = None
    trial: str = ""

    @property
    def data(self) -> Path:
        return self.home / ".local/share/leeward"

    @property
    def config(self) -> Path:
        return self.home / ".config/leeward/config.toml"

    @property
    def environment(self) -> dict[str, str]:
        trial = {"LEEWARD_TOOLS__SHELL__TRIAL": self.trial} if self.trial else {}
        return {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **trial}

    def settle(self, config: str = CONFIG) -> None:
        """Make the folders, the configuration and the files that the sessions are about."""
        for folder in (self.config.parent, self.workspace):
            folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(config, encoding="utf-8")
        (self.workspace / "notes.md").write_text("the ferry leaves at seven\n", encoding="utf-8")
        (self.workspace / "harbour.chart").write_text("shoals\n", encoding="utf-8")
        (self.workspace / "link.md").symlink_to("notes.md")
        (self.workspace / "replies.toml").write_text('[[reply]]\ntext = "Aye."\n', encoding="utf-8")

    def run(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Ran:
        options = {"env": self.environment | (env or {}), "input": stdin, "text": True, "timeout": 120}
        if self.preloaded is None:
            done = subprocess.run([str(LEEWARD), *words], cwd=self.workspace, capture_output=True, **options)
        else:
            done = self.preloaded.run(words, cwd=self.workspace, **options)
        return Ran(done.returncode, done.stdout, done.stderr)

    def run_each(self, commands: list[tuple[tuple[str, ...], str]]) -> list[Ran]:
        """Run command lines with their standard input one after another in one process, which is quicker."""
        done = subprocess.run(
            [sys.executable, "-c", _EACH, json.dumps(commands), str(self.home)],
            cwd=self.workspace,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return [Ran(*one) for one in json.loads(done.stdout)]


# The function behind the console script, with files in the place of the three standard streams.
_EACH = """
import json, os, sys
from importlib.metadata import entry_points

main = entry_points(group="console_scripts", name="leeward")["leeward"].load()
commands, folder = json.loads(sys.argv[1]), sys.argv[2]
names = [os.path.join(folder, f"stream-{number}") for number in range(3)]
ran, before = [], os.dup(1)
for words, told in commands:
    with open(names[0], "w", encoding="utf-8") as file:
        file.write(told)
    for number, name in enumerate(names):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0), 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    sys.argv = ["leeward", *words]
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    ran.append([code, *(open(name, encoding="utf-8").read() for name in names[1:])])
os.write(before, json.dumps(ran).encode())
"""


@dataclass(frozen=True)
class Ran:
    """How a command line ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class PlaceTaken(Exception):
    """Somebody else's folder stands where the sessions were recorded."""


@contextmanager
def recorded_place() -> Iterator[Path]:
    """Yield an empty folder at the path that the records name; one process has it at a time.

    A session belongs to the absolute path of its workspace, and its records cannot be rewritten: they are
    signed.

    Raises:
        PlaceTaken: it cannot be had.
    """
    handle = _locked(PLACE)
    try:
        for path in PLACE.iterdir():
            if path.name != MARKER:
                shutil.rmtree(path)
        yield PLACE
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
        os.close(handle)


def _locked(folder: Path) -> int:
    until = time.monotonic() + PATIENCE
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # whoever had it has just removed it
        except OSError as error:
            raise PlaceTaken(f"{folder}: {error.strerror}") from error
        found = os.fstat(handle)
        if found.st_uid != os.getuid() or folder.resolve() != folder:
            os.close(handle)
            raise PlaceTaken(f"{folder} is another user's, or lies elsewhere")
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.stat().st_ino == found.st_ino:
                _marked(folder, handle)
                return handle
        os.close(handle)
        if time.monotonic() > until:
            raise PlaceTaken(f"another process has had {folder} for {PATIENCE} s")
        time.sleep(0.05)


def _marked(folder: Path, handle: int) -> None:
    """Mark an empty folder as one of these tests, which may be emptied; leave any other alone."""
    if not any(folder.iterdir()):
        (folder / MARKER).touch()
    elif not (folder / MARKER).is_file():
        os.close(handle)
        raise PlaceTaken(f"{folder} holds what is not of these tests")


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/start" else 200)
        if self.path == "/start":
            self.send_header("location", "/timetable")
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer on loopback; yield the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _terminal() -> Any:
    """Return the terminal of the tests, wherever among them it stands; this file runs without pytest too."""
    (path,) = TESTS.rglob("pty_terminal.py")
    return SimpleNamespace(**runpy.run_path(str(path)))


class Chat:
    """A chat at a terminal, in which questions are answered."""

    def __init__(self, machine: Machine, *words: str) -> None:
        terminal = _terminal()
        if machine.preloaded is None:
            start = partial(terminal.launch, [str(LEEWARD), *words])
        else:
            start = partial(machine.preloaded.start, words, terminal=True)
        self.tty = terminal.Tty(start, machine.workspace, machine.environment, rows=60, columns=100)

    def say(self, text: str) -> str:
        """Say something that leads to no question; return what the screen shows then."""
        self.tty.say(text)
        return self.tty.text

    def answer(self, text: str, *answers: tuple[str, str]) -> None:
        """Say something, and answer the questions it leads to: what each shows, and what is typed.

        A key answers by itself, and a line with Enter.
        """
        self.tty.prompt()
        self.tty.type(text, "\r")
        for question, typed in answers:
            # What is asked stands right above the line with what holds, in as many lines as it takes.
            self.tty.see(lambda seen, question=question: question in "".join(seen.split("\n")[-4:-1]))
            self.tty.type(typed, "" if question == YES_OR_NO else "\r")
        self.tty.prompt()

    def leave(self) -> None:
        self.tty.prompt()
        self.tty.type("/exit", "\r")
        assert self.tty.ended() == 0


def play(machine: Machine) -> None:
    """Live through the sessions: one that is cut off, a long one, one without anybody, one forked, one gone
    on with.
    """
    heads = machine.home / "elsewhere.heads"
    _told(
        machine.run("call", "read", '{"path": "notes.md"}', env={"LEEWARD_TOOLS__AUDIT__HEADS": str(heads)}),
        0,
    )
    _told(machine.run("storage", "prune", "--audit", "--older-than", "0"), 0)
    with serving(_Pages) as site:
        _chat(machine, site)
    _calls(machine)
    script = machine.home / "steps.leeward"
    script.write_text(SCRIPT, encoding="utf-8")
    _told(machine.run("--script", str(script), env={"LEEWARD_TOOLS__AUDIT__HEADS": str(heads)}), 0)
    long = sessions(machine)[TITLE]
    _told(machine.run("sessions", "fork", long, "--turn", "2"), 0)
    _told(machine.run("--resume", long, "-p", "run wc -l notes.md"), 0)


def be_killed(machine: Machine) -> None:
    """Begin a session whose process is killed in the middle of a call."""
    words = [str(LEEWARD), "-p", "run echo begun && sleep 600", "--output", "jsonl"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=machine.workspace, env=machine.environment, **pipes) as process:
        try:
            for line in process.stdout:
                if json.loads(line)["type"] == "output":
                    return
            raise AssertionError("the call put out nothing")
        finally:
            process.kill()


def sessions(machine: Machine) -> dict[str, str]:
    """The id of each session by its title; of a fork, the first."""
    listed = machine.run("sessions", "list", "--output", "json").json["data"]["sessions"]
    return {one["title"]: one["id"] for one in listed if not one["forked_from"]}


def _calls(machine: Machine) -> None:
    """Make calls whose records say what those of the sessions do not: what was hidden, misspelt or led
    elsewhere.
    """
    calls = (
        ("write", {"path": "key.txt", "content": "ghp_" + "A1b2" * 9}, 4),
        ("raed", {"path": "notes.md"}, 5),
        ("read", {"path": 3}, 2),
        ("read", {"path": "link.md"}, 0),
        ("read", {"path": "harbour.chart"}, 4),
        ("copy_path", {"source": "notes.md", "destination": "copy.md"}, 4),
        ("shell", {"command": "echo $("}, None),
    )
    words = [(("call", tool, json.dumps(arguments)), "") for tool, arguments, _ in calls]
    for ran, (_, _, code) in zip(machine.run_each(words), calls, strict=True):
        assert code in {None, ran.code}, ran


def _told(ran: Ran, code: int) -> None:
    assert ran.code == code, ran


def _chat(machine: Machine, site: str) -> None:
    chat = Chat(machine)
    try:
        _files(chat)
        _outputs_and_pages(chat, site)
        _refusals(chat)
        _levels_and_models(chat)
        chat.answer("edit notes.md: replace 'seven' with 'eight'", (YES_OR_NO, "y"))
        chat.leave()
    finally:
        chat.tty.close()


def _files(chat: Chat) -> None:
    rule, where, until = "rule ", "where: ", "until: "
    chat.say(TITLE)
    chat.answer("write plan.md: take the ferry", (YES_OR_NO, "A"), (rule, ""), (where, "w"), (until, "never"))
    chat.answer("write log.md: first", (YES_OR_NO, "y"))
    chat.answer("run touch ready", (YES_OR_NO, "n"))
    chat.answer("run mkdir quay", (YES_OR_NO, "A"), (rule, ""), (where, "e"), (until, "never"))
    chat.say("/undo")
    chat.say("/redo")
    chat.answer('call memory_save {"text": "the ferry leaves at seven"}', (YES_OR_NO, "y"))


def _outputs_and_pages(chat: Chat, site: str) -> None:
    chat.say("run seq 1 3000")
    chat.say("overflow limit 60")
    chat.say(f"fetch {site}/start")
    chat.say(f"fetch {site}/winter")
    chat.say(f"/browse --forget {site}/start")
    chat.say('call shell {"command": "sleep 0.1", "background": true}')
    while "running" in chat.say("/jobs"):
        pass


def _refusals(chat: Chat) -> None:
    chat.say("guess the website of lighthouse")
    chat.say("list .")
    chat.say('call read_overflow {"id": "../etc/passwd"}')
    chat.say("search ferry in notes.md")
    chat.say("run bash -c 'r\"\"m -rf ~'")
    chat.say("find *.md")
    chat.say("run wc -l notes.md | head -1")


def _levels_and_models(chat: Chat) -> None:
    chat.say("run ls winter.md")
    for month in ("spring", "summer", "autumn", "winter"):
        chat.say(f"find {month} in {month}")
    chat.say("/trust find_path trusted")
    chat.say("/trust reset")
    chat.say("/permissions allow shell date")
    (grant,) = re.findall(r"(g_\w+) +allow shell date", chat.say("/permissions"))
    chat.say(f"/permissions revoke {grant}")
    chat.say("/permissions allow shell touch ready")
    chat.say("/model scripted:replies.toml")
    chat.say("hello")
    chat.say("/model offline")


def key_paths(value: Any, at: str = "") -> set[str]:
    """Return every key a value of JSON has at any depth, as "records[].body.gate"."""
    match value:
        case dict():
            below = (
                key_paths(one, f"{at}.{key}" if at else key) | {f"{at}.{key}" if at else key}
                for key, one in value.items()
            )
            return set().union(*below)
        case list():
            return set().union(*(key_paths(one, f"{at}[]") for one in value))
    return set()
