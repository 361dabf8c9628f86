"""Fuzz file names: a verdict takes a bounded number of steps, whatever the workspace's files are called.

Folders are filled with hostile names (long runs, pattern characters, bytes that are not text, links in
circles, pipes), and lines with patterns made for them are judged as a call's would be. Counted is the work
that was looked up for each: entries of folders, names held against patterns, parts of paths followed.
`python tests/fuzz/names_fuzz.py [NAMES] [SEED]` exits 1 if one took too much.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from leeward.security.command import Say, parse_command, ruling_of, surveyed, wanted
from leeward.security.kinds import Unreadable
from leeward.security.policy import Policy
from leeward.tools.survey import MOST_STEPS, Work, looked_up

__all__ = ["Report", "fuzzed"]

NAMES_IN_A_FOLDER = 25
SAID = {Say.NOTHING: "nothing", Say.ASK: "ask", Say.FORCE: "force", Say.DENY: "deny"}
PIECES = [
    "a", "ab", "aab", "*", "?", "[", "]", "[a", "{a,b}", "-", "--", ".", "..", "~", " ", "\n", "\t", "'", '"',
    "\\", "$x", "$(a)", "`a`", "é", "\u0301", "\u202e", "\udcff", "\udc80", "#", "=", ":", "%", "|", ";", "&",
    "<", "git", ".git", ".env", "id_rsa", "-rf",
]  # fmt: skip
WILD = ["*", "*", "*", "?", "[a-b]", "[!a]", "[]a]", "**", "?*", "*?", ".*", "*/", "*/*", ".*/", "[a]*"]
LINES = [
    "ls @", "cat @", "rm -rf @", "cp @ x", "grep -r a @", "find @ -name @", "git add @", "chmod 600 @",
    "head @ @", "wc -l @ | sort", "mv @ @ d", "for x in @; do cat $x; done", "tar cf x @", "ls @ @ @ @",
    "echo a > @",
]  # fmt: skip
STEPS_FOR_A_LINE = 200_000
"""What no line here comes near, though each name is held against every pattern in it."""


@dataclass(slots=True)
class Report:
    """What was judged, how, and what the most laborious line took."""

    names: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    most: tuple[int, str] = (0, "")
    slowest: tuple[float, str] = (0.0, "")
    too_much: list[str] = field(default_factory=list)


def random_name(chance: random.Random) -> bytes:
    """Return a name that a disk can hold."""
    if chance.random() < 0.4:
        text = chance.choice(["a", "b", "ab", "aab", ".", "é", "-"]) * chance.choice([5, 50, 120])
    else:
        text = "".join(chance.choices(PIECES, k=chance.randrange(1, 30)))
    name = os.fsencode(text)[: chance.choice([8, 60, 200, 255])]
    return b"x" if name in {b".", b"..", b""} else name


def random_pattern(chance: random.Random, name: bytes) -> str:
    """Return a pattern as it stands in a line: pieces of a name, stars in between, or nothing but stars."""
    plain = "".join(char for char in name.decode("utf-8", "replace") if char.isalnum() or char in "._-")
    if chance.random() < 0.4:
        unit = chance.choice(["*a", "*ab", "?*", "*a?", "*[a-b]", "*/", ".*", "*aab"])
        return unit * chance.choice([2, 6, 30, 100]) + chance.choice(["", "b", "*b", "ab"])
    pieces = [chance.choice(WILD) if chance.random() < 0.5 else plain[at : at + 9] for at in range(0, 60, 9)]
    return "".join(pieces) or "*"


def make(folder: Path, name: bytes, chance: random.Random) -> None:
    """Put something under a name: a file, a folder, a pipe, or a link that may lead anywhere."""
    path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118 — bytes
    kind = chance.random()
    if kind < 0.5:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    elif kind < 0.65:
        os.mkdir(path)  # noqa: PTH102 — bytes
    elif kind < 0.75:
        os.mkfifo(path)
    else:
        far = b"/".join([name] + [chance.choice([b"..", b".", name, b"d/.."])] * 300)
        target = chance.choice([name, b".", b"..", b"/", b"/etc", b"/dev/zero", far, b"/proc/self/cwd"])
        os.symlink(target[:4000], path)  # noqa: PTH211 — bytes


def judged(line: str, policy: Policy, work: Work) -> str:
    """Return what is said to a line, looked up and judged as that of a call."""
    read = parse_command(line)
    if not isinstance(read, Unreadable):
        facts = looked_up(wanted(read, policy, policy.shell), policy, "/usr/bin:/bin", work)
        read = surveyed(read, facts, policy)
    return SAID[ruling_of(read, line, policy, policy.shell).say]


def fuzzed(names: int, seed: int) -> Report:
    """Judge a line for each of so many names, in folders of their own."""
    report, chance = Report(), random.Random(seed)
    while report.names < names:
        folder = Path(tempfile.mkdtemp(prefix="names-")).resolve()
        try:
            _folder(report, folder, min(NAMES_IN_A_FOLDER, names - report.names), chance)
        finally:
            shutil.rmtree(os.fsencode(folder))
    return report


def _folder(report: Report, folder: Path, count: int, chance: random.Random) -> None:
    policy = Policy(str(folder), "/home/ada")
    found = list({random_name(chance) for _ in range(count)})
    for name in found:
        make(folder, name, chance)
    for at in range(count):
        line = chance.choice(LINES)
        while "@" in line:
            line = line.replace("@", random_pattern(chance, found[at % len(found)]), 1)
        work = Work()
        began = time.perf_counter()
        verdict = judged(line, policy, work)
        took = time.perf_counter() - began
        steps = MOST_STEPS - work.left
        report.names += 1
        report.verdicts[verdict] += 1
        report.steps += steps
        report.most = max(report.most, (steps, line))
        report.slowest = max(report.slowest, (took, line))
        if steps > STEPS_FOR_A_LINE:
            report.too_much.append(line)


def main() -> None:
    """Print what was seen."""
    given = list(map(int, sys.argv[1:]))
    names, seed = (*given, *(100_000, 1)[len(given) :])
    report = fuzzed(names, seed)
    print(f"{report.names} names judged: {dict(report.verdicts)}; {report.steps} steps")
    print(f"most steps: {report.most[0]} for {report.most[1]!r}")
    print(f"slowest: {report.slowest[0]:.3f} s for {report.slowest[1]!r}")
    sys.exit(bool(report.too_much))


if __name__ == "__main__":
    main()
