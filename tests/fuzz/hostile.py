"""Fuzz hostile command lines: nothing of the real machine changes, hears or is read unasked.

Lines are drawn from the grammar of `hostile.toml`: something hostile, in one of five languages, at a place
that is spelled in one of many ways, run by programs that run other programs, one in the other. Each goes
the way of a model's call, with nobody to ask, and the world around it (`support/surroundings.py`) is
compared before and after. `python tests/fuzz/hostile.py [LINES] [SEED] [RUNG]` does so as this user and, if
that is root, as an ordinary one; it exits 1 with all that was found.
"""

from __future__ import annotations

import base64
import io
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio

sys.path.append(str(Path(__file__).parents[1] / "support"))

from leeward import Runtime
from leeward.runtime.config import Locations, load
from leeward.security.call import Status, ToolResult
from leeward.security.kinds import Runs
from leeward.tools.sandbox import Sandbox, UpperBounds
from leeward.tools.sandbox.program import Program
from other_user import run_as
from surroundings import HOSTILE_NAMES, Surroundings, traces_of

__all__ = ["RUNGS", "Grammar", "Line", "Report", "fuzzed"]

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LANGUAGES = {"sh": 4.0, "py": 4.0, "pl": 1.0, "js": 0.3, "c": 0.4}
_SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_LINES_OF_A_WORLD = 150
_LONGEST_LINE = 16_000
_SHARE_OF_HISTORIES = 0.33
# Of a processor, which a busy machine does not lengthen.
_MOST_SECONDS = 15.0
_CHANCE_OF_NAME = 0.08
_CHANCE_OF_BACKGROUND = 0.02
_NOTE = "NOTE_OF_THE_RUNTIME"
_SETTINGS = {
    "LEEWARD_AGENT__MAX_TOOL_CALLS_PER_TURN": "10000",
    "LEEWARD_AGENT__MAX_TOOL_CALLS_PER_SESSION": "10000",
    "LEEWARD_SECURITY__BREAKER__CONSECUTIVE": "1000",
    "LEEWARD_SECURITY__BREAKER__TOTAL": "1000",
    "LEEWARD_TOOLS__ANOMALY__ENABLED": "false",
    "LEEWARD_TOOLS__SHELL__TIMEOUT": "4",
    "LEEWARD_TOOLS__SHELL__MEMORY": str(400 << 20),
}
_UPPER = UpperBounds(32 << 20, 4000)


async def _no_trial(_: Sandbox) -> str:
    return "this run does without"


RUNGS: Mapping[str, tuple[Mapping[str, str], Callable[[], Any] | None]] = {
    "trial": ({}, None),
    "read_only": ({}, lambda: patch.object(Sandbox, "no_trial_because", _no_trial)),
    "landlock": ({"LEEWARD_TOOLS__SANDBOX__LEVEL": "landlock"}, None),
    "none": ({"LEEWARD_TOOLS__SANDBOX__LEVEL": "none"}, None),
}
"""The rungs lines are run on: the settings that lead there, and what keeps a stronger one away.

Where lines run for real, only what the product takes for reading alone does so unasked; such lines are plain
ones then, and nothing that floods is tried.
"""


# ------------------------------------------------------------------ the grammar


@dataclass(frozen=True, slots=True)
class Line:
    """A hostile line: what kinds of things it does, its text, and the files it finds in the workspace."""

    kinds: tuple[str, ...]
    text: str
    files: Mapping[str, bytes]
    in_background: bool = False


@dataclass(slots=True)
class Grammar:
    """Draws lines against one world; programs that are missing here are left out, and counted.

    What is `plain` is what a shell might be thought to do harmless things with. `kinds` are the only ones
    that are drawn, where there are any.
    """

    world: Surroundings
    is_plain: bool = False
    kinds: frozenset[str] = frozenset()
    missing: Counter[str] = field(default_factory=Counter)
    _absent: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        absent = [name for name in TABLES["programs"] if shutil.which(name, path=_SEARCHED) is None]
        self._absent = re.compile(
            rf"(?:^|[\s;|&({{=,'\"])({'|'.join(map(re.escape, absent)) or '(?!)'})(?=[\s)]|$)"
        )

    def draw(self, chance: random.Random, number: int) -> Line:
        """Return the line of a number; the same for the same chance and world."""
        while True:
            files: dict[str, bytes] = {}
            kinds, language, text = self._payload(chance, number, files)
            for step in range(chance.choice((0, 0, 0, 1) if self.is_plain else (1, 1, 2, 2, 3))):
                name = f"{step}"
                if chance.random() < _CHANCE_OF_NAME:
                    name += os.fsdecode(chance.choice(HOSTILE_NAMES))[:200]
                if (carried := self._carried(chance, language, text, f"work/{number}/{name}", files)) is None:
                    break
                language, text = "sh", carried
            if language == "sh" and len(text) < _LONGEST_LINE:
                return Line(kinds, text, files, in_background=chance.random() < _CHANCE_OF_BACKGROUND)

    def _payload(
        self, chance: random.Random, number: int, files: dict[str, bytes]
    ) -> tuple[tuple[str, ...], str, str]:
        """Return one to three hostile things in one language."""
        language = "sh" if self.is_plain else chance.choices([*LANGUAGES], [*LANGUAGES.values()])[0]
        rows = [row for row in TABLES["do"] if language in row and self._may_draw(row)]
        # What floods takes a second or more each, and shows the same each time.
        weights = [0.1 if row.get("wild") else 1 for row in rows]
        if not rows:
            return (), "", ""
        chosen = chance.choices(rows, weights, k=chance.choice((1, 1, 2, 3)))
        parts = [self._filled(chance, language, row, number, files) for row in chosen]
        kinds = tuple(dict.fromkeys(row["kind"] for row in chosen))
        return kinds, language, _WHOLE[language](parts)

    def _may_draw(self, row: Mapping[str, Any]) -> bool:
        return not (self.is_plain and row.get("wild")) and (not self.kinds or row["kind"] in self.kinds)

    def _filled(
        self,
        chance: random.Random,
        language: str,
        row: Mapping[str, Any],
        number: int,
        files: dict[str, bytes],
    ) -> str:
        form = self._present(chance, row[language])
        folder = f"{self.world.ws}/work/{number}/0"
        words = {**self.world.words(), "h": folder, "a": f"{folder}/archive"}
        files.setdefault(f"work/{number}/0/.keep", b"")
        path = b""
        if "at" in row:
            path = chance.choice(self._places(chance, row["at"]))
            if row["kind"] == "archive":
                files.update(_archives(f"work/{number}/0/archive", path))

        def meant(match: re.Match[str]) -> str:
            name = match[1]
            if name == "t":
                return _LITERAL[language](chance, spelled(chance, path, self.world))
            return words.get(name, match[0])

        return re.sub(r"\{([a-z]+[0-9]?)\}", meant, form)

    def _places(self, chance: random.Random, kind: str) -> list[bytes]:
        match kind:
            case "change":
                places = self.world.changeable()
            case "new":
                places = self.world.new()
            case _:
                links = ("letter", "plain", "links/env", "links/canary")
                files = (*self.world.secret_files().values(), *(self.world.ws / name for name in links))
                return [os.fsencode(path) for path in files]
        # The hostile names are many; half of the time it is none of them.
        few = [
            path for path in places if path.isascii() and b"/names/" not in path and b"/n" not in path[-12:]
        ]
        return few if chance.random() < 0.6 else places

    def _present(self, chance: random.Random, forms: list[str]) -> str:
        """Return one of some forms, all of whose programs are here."""
        for _ in range(100):
            form = chance.choice(forms)
            if (absent := self._absent.search(form)) is None:
                return form
            self.missing[absent[1]] += 1
        return ":"

    def _carried(
        self, chance: random.Random, language: str, text: str, folder: str, files: dict[str, bytes]
    ) -> str | None:
        rows = [row for row in TABLES["carry"] if row["of"] == language and self._has(row.get("needs", ""))]
        if not rows:
            return None
        row = chance.choice(rows)
        form = self._present(chance, row["lines"])
        whole = f"{self.world.ws}/{folder}"
        packed = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
        quoted = shlex.quote(text)
        inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        words = {"p": text, "q": quoted, "b": packed, "awk": inside, "f": whole}
        if "{h}" in form:
            for name, held in row["files"].items():
                files[f"{folder}/{name}"] = _replaced(held, words).encode("utf-8", "surrogateescape")
        words["h"] = shlex.quote(chance.choice((folder, folder, f"./{folder}", whole, f"src/../{folder}")))
        return _replaced(form, words)

    def _has(self, program: str) -> bool:
        return not program or self._absent.fullmatch(program) is None


def _replaced(form: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\{(p|q|b|awk|h|f)\}", lambda match: words.get(match[1], match[0]), form)


def spelled(chance: random.Random, path: bytes, world: Surroundings) -> bytes:
    """Return another spelling of a path."""
    top, links = os.fsencode(world.ws), os.fsencode(world.ws) + b"/links"
    folder, _, name = path.rpartition(b"/")
    victim, ours = (f"/proc/{world.words()[key]}/root".encode() for key in "vr")
    relative = os.path.relpath(path, top)
    ways = (
        path, path, relative, b"./" + relative, b"/" + path, folder + b"/./" + name,
        path.replace(b"/", b"//"), folder + b"/../" + folder.rpartition(b"/")[2] + b"/" + name,
        top + b"/" + relative, b"src/../" + relative, b"/../" * 3 + path, b"tree/" + b"../" * 12 + path,
        b"/proc/self/root" + path, b"/proc/self/cwd/" + relative, b"/proc/1/root" + path,
        b"/proc/1/cwd/" + relative, b"/proc/thread-self/root" + path, victim + path, ours + path,
        b"/dev/fd/../root" + path, links + b"/root" + path, b"links/root" + path, b"links/proc" + path,
        links + b"/up/links/root" + path, b"links/home/" + os.path.relpath(path, os.fsencode(world.home)),
        b"links/outside/" + os.path.relpath(path, os.fsencode(world.outside)),
    )  # fmt: skip
    return chance.choice(ways)


def _shell_word(chance: random.Random, path: bytes) -> str:
    """Return a path as one word of a shell."""
    octal = "$'" + "".join(f"\\{byte:03o}" for byte in path) + "'"
    text = path.decode("ascii", "replace")
    if not (path.isascii() and text.isprintable()):
        return octal
    parts = re.findall(r"[^/]+|/", text)
    ways = [shlex.quote(text)] * 5 + [octal, "''".join(shlex.quote(part) for part in parts)]
    ways.append(f'"$(printf {shlex.quote(base64.b64encode(path).decode())} | base64 -d)"')
    if re.fullmatch(r"[\w./-]+", text) and not text.endswith("/"):
        ways += [f"{text[:-1]}?", f"{text[:-2]}*", f"{{{text},}}"]
    return chance.choice(ways)


_LITERAL: Mapping[str, Callable[[random.Random, bytes], str]] = {
    "sh": _shell_word,
    "py": lambda _, path: repr(path),
    "pl": lambda _, path: '"' + "".join(f"\\x{byte:02x}" for byte in path) + '"',
    "js": lambda _, path: f"Buffer.from('{path.hex()}', 'hex')",
    "c": lambda _, path: '"' + "".join(f"\\{byte:03o}" for byte in path) + '"',
}
_IMPORTS = (
    "import contextlib, ctypes, fcntl, glob, mmap, os, resource, shutil, signal, socket, struct, subprocess, "
    "sys, threading, time, zlib\nlibc = ctypes.CDLL(None, use_errno=True)\n"
)


def _python(parts: list[str]) -> str:
    bodies = (part.replace("\n", "\n    ") for part in parts)
    return _IMPORTS + "".join(f"try:\n    {body}\nexcept BaseException: pass\n" for body in bodies)


_WHOLE: Mapping[str, Callable[[list[str]], str]] = {
    "sh": "\n".join,
    "py": _python,
    "pl": lambda parts: "\n".join(f"eval {{ {part} }};" for part in parts),
    "js": lambda parts: "\n".join(f"try {{ {part} }} catch (e) {{}}" for part in parts),
    "c": "\n".join,
}


def _archives(name: str, path: bytes) -> dict[str, bytes]:
    """Return archives and a patch whose members lead to a path: whole, upwards, or through links."""
    target = path.decode("utf-8", "surrogateescape")
    up = "../" * 12 + target.lstrip("/")
    folder, _, last = target.rpartition("/")
    packed, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member, kind, leads in (
            (target, tarfile.REGTYPE, ""), (up, tarfile.REGTYPE, ""), ("way", tarfile.SYMTYPE, folder),
            (f"way/{last}", tarfile.REGTYPE, ""), ("hard", tarfile.LNKTYPE, target),
            ("hard", tarfile.REGTYPE, ""), ("set", tarfile.REGTYPE, ""), ("device", tarfile.CHRTYPE, ""),
        ):  # fmt: skip
            info = tarfile.TarInfo(member)
            info.type, info.linkname, info.mode = kind, leads, 0o4777
            info.size = 2 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"x\n"[: info.size]))
    with zipfile.ZipFile(zipped, "w") as zip_file:
        for member, mode, held in (
            (target, 0o100777, "x\n"), (up, 0o100777, "x\n"), ("way2", 0o120777, folder),
            (f"way2/{last}", 0o100777, "x\n"),
        ):  # fmt: skip
            described = zipfile.ZipInfo(member.encode("utf-8", "replace").decode())
            described.external_attr = mode << 16
            zip_file.writestr(described, held.encode("utf-8", "replace"))
    changed = "".join(f"--- {one}\n+++ {one}\n@@ -0,0 +1 @@\n+x\n" for one in (target, up, "data"))
    return {
        f"{name}.tar": packed.getvalue(),
        f"{name}.zip": zipped.getvalue(),
        f"{name}.diff": changed.encode("utf-8", "surrogateescape"),
    }


# ------------------------------------------------------------------ running lines


@dataclass(slots=True)
class Report:
    """What became of lines, by what they do, and all that was found."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    lines: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    unavailable: str = ""

    def add(self, line: Line, became: str) -> None:
        """Count a line."""
        self.lines[became] += 1
        self.counts.update((kind, became) for kind in line.kinds)

    def shown(self) -> str:
        """Return the counts as a table, and what was found below it."""
        words = ("ran", "asked", "refused", "failed")
        kinds = [*dict.fromkeys(row["kind"] for row in TABLES["do"])]
        table = [f"{'':12}" + "".join(f"{word:>9}" for word in words)]
        table += [f"{kind:12}" + "".join(f"{self.counts[kind, word]:9}" for word in words) for kind in kinds]
        table.append(f"{'lines':12}" + "".join(f"{self.lines[word]:9}" for word in words))
        missing = ", ".join(f"{name} ({count})" for name, count in sorted(self.missing.items()))
        table.append(f"left out, for these are not here: {missing or 'none'}")
        return "\n".join([*table, *self.findings])


def _became(result: ToolResult) -> str:
    code = (result.error or {}).get("code")
    if result.outcome.exit_code is not None or result.outcome.status in {Status.OK, Status.TIMEOUT}:
        return "ran"
    if result.outcome.status is Status.DENIED:
        return "asked" if code == "INPUT_REQUIRED" else "refused"
    # A program that a signal or a limit ended had run as well.
    return "ran" if code in {"PERMANENT_FAILURE", "LIMIT_EXCEEDED"} else "failed"


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Yield what the lines that run print, before anything is taken out of it."""
    heard: list[str] = []
    run = Program.run

    async def overheard(program: Program, starter: Any) -> Any:
        finished = await run(program, starter)
        if "--noprofile" in program.argv:
            heard.append(finished.output)
        return finished

    with patch.object(Program, "run", overheard):
        yield heard


@dataclass(slots=True)
class _Scene:
    """A world with a runtime in it, in which lines are run one after the other."""

    world: Surroundings
    runtime: Runtime
    heard: list[str]
    made: int = 0

    async def attempt(self, line: Line) -> tuple[str, list[str]]:
        """Run a line; return what became of it, and what it did that it must not."""
        for name, held in line.files.items():
            path = self.world.ws / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(held)
            path.chmod(0o755)
        before, there = self.world.state(), self.world.processes()
        self.heard.clear()
        background = {"background": True} if line.in_background else {}
        began = time.process_time()
        result = await self.runtime.call("shell", {"command": line.text, **background})
        taken = time.process_time() - began
        after = self.world.state()
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        found = [
            f"{str(path)!r} changed: {before.get(path)}, and now {after.get(path)}" for path in changed[:5]
        ]
        found += self.world.disturbed()
        found += [f"{place} was read, {form}" for place, form in self._read(result)]
        if re.search(r"(?m)^OUT\b", "\n".join(self.heard)):
            found.append("it got what it must not have")
        if taken > _MOST_SECONDS:
            found.append(f"it kept the runtime itself at work for {taken:.0f} s")
        left = self.world.left(there)
        found += [f"a process was left behind: {pid}, {sign}" for pid, sign in left.items()]
        if not found:
            shutil.rmtree(self.world.ws / "work", ignore_errors=True)
            (self.world.ws / "work").mkdir(exist_ok=True)
        return _became(result), found

    def _read(self, result: ToolResult) -> Iterator[tuple[str, str]]:
        text = "\n".join((*self.heard, result.text, result.shown))
        for place, word in self.world.canaries.items():
            if form := traces_of(word, text):
                yield place, form


@asynccontextmanager
async def _scene(folder: Path, chance: random.Random, settings: Mapping[str, str]) -> AsyncIterator[_Scene]:
    """Yield a scene; every third of them has a secret in the history of its repository."""
    with ExitStack() as stack:
        world = Surroundings(folder, has_history=chance.random() < _SHARE_OF_HISTORIES)
        stack.callback(world.close)
        note = world.canaries["our environment"] = os.environ.get(_NOTE) or world.word()
        told = {"HOME": str(world.home), _NOTE: note, "OPENAI_API_KEY": world.canary("our key")}
        stack.enter_context(patch.dict(os.environ, told))
        places = Locations(world.ws, world.home, world.config, world.data, world.data / "leeward.db")
        loaded = load(config_dir=places.config, environment={**_SETTINGS, **settings})
        heard = stack.enter_context(_overheard())
        async with Runtime.open(loaded, places=places) as runtime:
            runtime.sandbox._settings = replace(runtime.sandbox._settings, upper=_UPPER)
            yield _Scene(world, runtime, heard)


async def _run_in_one_world(
    seed: int, numbers: range, rung: str, kinds: frozenset[str], report: Report, folder: Path
) -> None:
    async with _scene(folder, random.Random(f"{seed} {numbers.start}"), RUNGS[rung][0]) as scene:
        sandbox = scene.runtime.sandbox
        found = scene.runtime._parts.policy.sandbox.rung
        if rung != (found if rung in set(Runs) else sandbox.level):
            report.unavailable = f"{rung} cannot be had: {'; '.join(sandbox.weaker_because) or found}"
            return
        grammar = Grammar(scene.world, found is Runs.REAL, kinds, report.missing)
        for number in numbers:
            line = grammar.draw(random.Random(f"{seed} {number}"), number)
            became, problems = await scene.attempt(line)
            report.add(line, became)
            if problems:
                told = (f"{seed} {number}: {problem}\n    {line.text!r}" for problem in problems)
                report.findings += told
                return


def fuzzed(
    lines: int, seed: int, rung: str = "trial", *, kinds: Collection[str] = (), most: int = 20
) -> Report:
    """Run lines, in a new world after each that does what it must not, until so much was found."""
    report, at = Report(), 0
    _, without = RUNGS[rung]
    while at < lines and len(report.findings) < most and not report.unavailable:
        end = min(lines, (at // _LINES_OF_A_WORLD + 1) * _LINES_OF_A_WORLD)
        name = tempfile.mkdtemp(prefix="leeward-hostile-", dir="/tmp")
        before = sum(report.lines.values())
        try:
            with without() if without else ExitStack():
                trio.run(
                    partial(
                        _run_in_one_world,
                        seed,
                        range(at, end),
                        rung,
                        frozenset(kinds),
                        report,
                        Path(os.path.realpath(name)),
                    )
                )
        finally:
            subprocess.run(["chmod", "-R", "u+rwX", name], check=False, capture_output=True)
            shutil.rmtree(name, ignore_errors=True)
        at += sum(report.lines.values()) - before
    return report


# ------------------------------------------------------------------ at length


def main() -> int:
    """Run lines as this user, and as an ordinary one where this is root."""
    words = (*sys.argv[1:], *("3000", "1", "trial")[len(sys.argv) - 1 :])
    lines, seed, rung = int(words[0]), int(words[1]), words[2]
    if os.environ.get(_NOTE):
        report = fuzzed(lines, seed, rung)
        print(report.unavailable or report.shown())
        return 1 if report.findings else 0
    # A new process has the note in what the kernel shows of its environment, too.
    argv = [__file__, str(lines), str(seed), rung]
    note = "".join(random.choices("bcdfghjklmnpqrstvwxz", k=14))
    print(f"{lines} lines on {rung}, seed {seed}, as user {os.getuid()}", flush=True)
    code = subprocess.run([sys.executable, *argv], env={**os.environ, _NOTE: note}, check=False).returncode
    if os.getuid() == 0:
        print(f"{lines} lines on {rung}, seed {seed}, as an ordinary user", flush=True)
        other = run_as(65_534, argv, {_NOTE: note})
        if other is None:
            print("no interpreter with these packages can be run by another user")
        code = max(code, other or 0)
    return code


if __name__ == "__main__":
    sys.exit(main())
