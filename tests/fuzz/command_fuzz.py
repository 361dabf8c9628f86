"""Fuzz the reading of command lines: a real bash must run no program that was not among the actions read.

Random lines are made of everything a shell knows and then damaged. Those that are read are run twice, as they
are and as they are printed, by bash in a sandbox whose PATH holds programs that only record how they were
called. `python tests/fuzz/command_fuzz.py [LINES] [SEED]` exits 1 if a program ran that was not foreseen.
"""

# ruff: noqa: E501 — the tables are wide

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leeward.security.command import parse_command
from leeward.security.command.expand.visit import commands_of
from leeward.security.command.syntax import nodes as nouns

__all__ = ["Report", "fuzzed", "random_line"]

STUBS = "a b c d e n rm git zap"
REAL = "env nice nohup timeout sh xargs setsid"

WORDS = (
    "x -f --opt=1 'q r' \"q r\" \"$V\" $V ${V} ${V:-d} $'\\x72m' r\\m \\rm '' \"\" *.t {p,q} {1..3} ~ "
    "~/z a=b 2 # x#y !x "
    '$(b) `c` "$(d 1)" <(e) $((1+2)) "a`b`" \'$(zap)\' "\\$(zap)" \\; \';\' \'|\' "&" = == [x] [ ] {} '
    "{a} a{b,c}d "
    '${#V} "${V%x}" $? $# - -- \\  \\\' "it\'s" é \'ü ü\' $"loc" @(x) ?(y) a\\\nb "l\nm" \'l\nm\''
).split(" ")
COMMANDS = (
    "a b c d e n rm git echo true false : test printf cd export set eval exec command builtin env nice "
    "nohup timeout "
    "sh time ! { } ( ) [ [[ if for while case function coproc \\rm 'rm' \"r\"m r''m $V $(b) ./a /s/a "
    "source . trap read"
).split()
TEMPLATES = (
    "@", "@", "@", "@ | @", "@ && @", "@ || @", "@ ; @", "@ & @", "@ |& @", "! @", "( @ )", "(@)", "{ @; }",
    "time @",
    "if @; then @; fi", "if @; then @; else @; fi", "if @\nthen @\nelif @; then @; fi",
    "for V in ? ?; do @; done",
    "for V\ndo @\ndone", "while n; do @; done", "until a; do @; done", "case ? in ?) @;; *) @;; esac",
    "case ? in (x|y) @;& z) @;; esac", "f() { @; }; f", "function g { @; }\ng ?", "V=? @", "V=? W=? @",
    "V=?; @", "@\n@",
    "@ # @\n@", "@ \\\n ?", "@ <<< ?", "@ <<E\n?\nE\n", "@ <<'E' | @\n?\nE\n@", "@ <<-E\n\t?\n\tE\n",
    "@ <<E && @\n$(b)\nE",
    "@ > o", "@ 2>&1", "@ >o 2>&1 | @", "@ &> o", "@ >| o", "@ >> o ?", "> o @", "@ < /dev/null", "2>o @",
    "@ 3>&1 1>&2 2>&3",
    "eval '@'", "eval ? ?", "sh -c '@'", "env V=1 @", "env -i @", "nice -n 5 @", "timeout 5 @", "command @",
    "exec @",
    "nohup @", "trap '@' EXIT", "echo ? | xargs @", "a $(@)", "a `@`", 'a "$(@)"', "a <(@)",
    "[[ -n ? && ? == x* ]] && @",
    "[ ? = ? ] && @", "V=$(@)", "a ${V:-$(@)}", "cd / && @", "set -e; @", "export V=?; @", "coproc @", "@;",
    "@ &", "{ @; } > o",
    "(@; @) | @", "f() ( @ ); f | f2", "@ |\n@", "@ &&\n@", "echo ?\n\\rm ?", "@ >(@)",
    "select V in x; do @; done",
)  # fmt: skip
DAMAGE = "'\"`$\\(){}[]<>|&;\n #!~*?=-\tr"

# What these run is a file, which is an action but not a program.
_FILES = frozenset({".", "source"})

DRIVER = """
import json, os, signal, subprocess, sys
results = []
for number, line in enumerate(json.load(open("/stage/lines"))):
    folder = f"/stage/run/{number}"
    os.makedirs(folder)
    log = f"/stage/log/{number}"
    os.makedirs(log)
    env = {"PATH": "/s", "LOG": log, "HOME": "/stage/home", "V": "v", "LANG": "C.UTF-8"}
    argv = ["/bin/bash", "--noprofile", "--norc", "-c", "--", line]
    process = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(1)
        late = False
    except subprocess.TimeoutExpired:
        late = True
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    ran = [open(f"{log}/{name}", errors="replace").read() for name in sorted(os.listdir(log))[:1000]]
    results.append({"late": late, "ran": ran})
json.dump(results, open("/stage/results", "w"))
"""
STUB = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" > "${LOG:?}/$$"
case "${0##*/}" in n) exit 1;; esac
"""


@dataclass
class Report:
    """What came of the lines; `unforeseen` holds a line, how it was run, and the argument vector nobody read."""

    lines: int = 0
    read: int = 0
    printed: int = 0
    ran: int = 0
    late: int = 0
    unforeseen: list[tuple[str, str, str]] = field(default_factory=list)
    different: list[tuple[str, str]] = field(default_factory=list)


def random_line(chance: random.Random) -> str:
    """Return one line: a template filled in, joined with others, and sometimes damaged."""
    line = chance.choice(TEMPLATES)
    for _ in range(12):
        if "@" not in line:
            break
        deeper = chance.random() < 0.25 and len(line) < 80
        line = line.replace("@", chance.choice(TEMPLATES) if deeper else _command(chance), 1)
    line = "".join(chance.choice(WORDS) if char == "?" else char for char in line.replace("@", "a"))
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3))):
        at = chance.randrange(len(line) + 1)
        line = line[:at] + chance.choice(DAMAGE) + line[at + chance.randrange(2) :]
    return line


def _command(chance: random.Random) -> str:
    words = [chance.choice(COMMANDS if chance.random() < 0.4 else COMMANDS[:6])]
    words += [chance.choice(WORDS) for _ in range(chance.randrange(3))]
    return " ".join(words)


def fuzzed(count: int, seed: int, *, batch: int = 400) -> Report:
    """Read and run this many random lines.

    Raises:
        RuntimeError: there is no bash or no bubblewrap to run them in.
    """
    if shutil.which("bwrap") is None or not Path("/bin/bash").exists():
        raise RuntimeError("bash and bubblewrap are needed")
    chance, report = random.Random(seed), Report()
    while report.lines < count:
        wanted = min(batch, count - report.lines)
        read = []
        for _ in range(wanted):
            line = random_line(chance)
            report.lines += 1
            found = parse_command(line)
            if isinstance(found, nouns.CommandLine):
                read.append(found)
        report.read += len(read)
        _compare(read, report)
    return report


def _compare(read: list[nouns.CommandLine], report: Report) -> None:
    runs = [(line, "source", line.source) for line in read]
    runs += [(line, "printed", line.printed) for line in read]
    report.printed += len(runs) - len(read)
    seen: dict[int, Counter[str]] = {}
    for (line, how, text), result in zip(runs, _run([text for _, _, text in runs]), strict=True):
        ran = [record for record in result["ran"] if record]
        report.ran += len(ran)
        report.late += result["late"]
        foreseen = _foreseen(line)
        # A note says that it cannot be told what runs, so nothing is promised.
        noted = any(command.notes or command.name in _FILES for command in commands_of(line.root))
        for record in dict.fromkeys(ran):
            if not noted and not any(_matches(record, argv) for argv in foreseen):
                report.unforeseen.append((line.source, f"{how}: {text}", record.replace("\037", " ")))
        this = Counter(ran)
        if how == "source":
            seen[id(line)] = Counter() if result["late"] else this
        elif not result["late"] and seen[id(line)] and seen[id(line)] != this:
            report.different.append((line.source, text))


def _foreseen(line: nouns.CommandLine) -> list[tuple[str, ...]]:
    return [(argv[0].rpartition("/")[2], *argv[1:]) for argv in line.written]


def _matches(record: str, argv: tuple[str, ...]) -> bool:
    """Whether a call is one of the actions; behind an open word, anything may follow."""
    called = record.split("\037")[:-1]
    for index, word in enumerate(argv):
        if "⟨" in word:
            return True
        if index >= len(called) or called[index] != word:
            return False
    return len(called) == len(argv)


def _run(lines: list[str]) -> list[dict[str, Any]]:
    if not lines:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stubs = folder / "stubs"
        (folder / "work" / "run").mkdir(parents=True)
        (folder / "work" / "home").mkdir()
        stubs.mkdir()
        (stubs / "stub").write_text(STUB)
        (stubs / "stub").chmod(0o755)
        for stub in STUBS.split():
            (stubs / stub).symlink_to("stub")
        for program in REAL.split():
            (stubs / program).symlink_to(shutil.which(program) or "/bin/false")
        (folder / "work" / "lines").write_text(json.dumps(lines))
        (folder / "work" / "driver.py").write_text(DRIVER)
        _sandboxed(folder, stubs)
        return list(json.loads((folder / "work" / "results").read_text()))


def _sandboxed(folder: Path, stubs: Path) -> None:
    roots = [path for path in ("/usr", "/lib", "/lib64", "/bin", sys.base_prefix) if Path(path).exists()]
    binds = [word for path in roots for word in ("--ro-bind", path, path)]
    python = str(Path(sys.executable).resolve())
    subprocess.run(
        ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", *binds, "--dev", "/dev", "--proc", "/proc",
         "--tmpfs", "/tmp", "--ro-bind", str(stubs), "/s", "--bind", str(folder / "work"), "/stage",
         python, "-I", "/stage/driver.py"],
        check=True, timeout=600, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def main() -> int:
    """Run from the command line; print what was found."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    report = fuzzed(count, seed)
    print(
        f"seed {seed}: {report.lines} lines, {report.read} read, {report.printed} printed, "
        f"{report.late} stopped"
    )
    print(
        f"{report.ran} programs ran, {len(report.unforeseen)} unforeseen, {len(report.different)} "
        f"printed differently"
    )
    for source, text, ran in report.unforeseen[:20]:
        print(f"UNFORESEEN {ran!r}\n  line    {source!r}\n  {text!r}")
    for source, text in report.different[:10]:
        print(f"different\n  line    {source!r}\n  printed {text!r}")
    return 1 if report.unforeseen else 0


if __name__ == "__main__":
    sys.exit(main())
