"""What does it cost to read and judge a command line, and what is said of ordinary and hostile ones?

Prints microseconds (median and worst) for reading a line and for judging what was read, over the tables
of the tests and over the largest lines within the limits; then how often each word is said.
"""

from __future__ import annotations

import posixpath
import statistics
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from leeward.security.command.nouns import CommandFacts, CommandLine
from leeward.security.command.read import parse_command
from leeward.security.command.rules import ShellRules
from leeward.security.command.survey import surveyed, wanted
from leeward.security.command.verdict import ruling_of
from leeward.security.policy import Policy
from leeward.security.unreadable import Unreadable

TABLES = Path(__file__).resolve().parent.parent / "tests" / "security" / "command_tables"
POLICY = Policy("/srv/ws", "/home/ada")
RULES = ShellRules()
WORDS = ("no word", "ask", "ask by force", "deny")
MISSING = frozenset({"no-such-program", "LS", "cargo", "go", "rustc"})
LINKS = {
    "/srv/ws/link-out": "/etc/passwd",
    "/srv/ws/link-to-secret": "/home/ada/.ssh/id_rsa",
    "/srv/ws/link-folder": "/etc",
}
LARGEST = (
    "a" + " | b" * 255,
    "a;" * 256,
    "cat " + "a " * 250,
    "rm -rf " + "../a " * 250,
    "cd a && " * 80 + "cat x",
    ">a " * 200,
    "a=b;" * 255,
    "\\x" * 4000,
    "'a'" * 2600,
    "sh -c '" + "ls;" * 200 + "'",
    "if a; then " * 20 + "b" + "; fi" * 20,
    "$(" * 20 + "a" + ")" * 20,
    "x " * 4000,
    "(" * 200,
    "for a in " + " ".join("abcdefghijklmnop") + "; do " + "ls $a; " * 60 + "done",
    "for a in " + " ".join("abcdefghijklmnop") + "; do " + 'sh -c "ls $a"; ' * 40 + "done",
    "for a in " + " ".join("abcdefghijklmnop") + "; do " + "find $a -exec ls {} +; " * 25 + "done",
    "".join(f"x{number}=/a; " for number in range(60)) + "".join(f"cat $x{number}; " for number in range(60)),
    "; ".join("sh -c '" + "a " * 200 + "'" for _ in range(18)),
    "echo 'echo \"echo ls | sh\" | sh' | sh; " * 20,
    "parallel 'parallel x ::: " + "a " * 16 + "' ::: " + "b " * 16,
    ("gdb " + "rm -rf a b c d " * 8 + "; ") * 5,
    "find . " + "-exec ls {} \\; " * 50,
    "".join(f"f{one}(){{ f{(one + 1) % 28}; f{(one + 2) % 28}; }}; " for one in range(28)),
    "(" + "rm ~ / " * 1100,
    "(" + "a" * 8000,
    "git -C . log; " * 60,
)


def led(path: str) -> str:
    """Return where a path leads, by the links the tables speak of."""
    for link, target in LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path[len(link) :]
    return posixpath.normpath(path)


def below(folder: str) -> tuple[str, ...]:
    """Return the links below a folder; all lead out of it."""
    return tuple(link for link in LINKS if link.startswith(folder))


def looked_up(line: CommandLine) -> CommandLine:
    """Return a line with facts of a machine where everything is what and where it seems."""
    asked = wanted(line, POLICY, RULES)
    matches = {pattern: (pattern.replace("*", "x"),) for pattern in asked.matches}
    facts = CommandFacts(
        real={
            path: led(path) for path in (*asked.real, *(one for found in matches.values() for one in found))
        },
        matches=matches,
        programs={name: None if name in MISSING else f"/usr/bin/{name}" for name in asked.programs},
        trees={path: below(posixpath.normpath(path)) for path in asked.trees},
        repositories=dict.fromkeys(asked.repositories, ()),
    )
    return surveyed(line, facts, POLICY)


def microseconds(run: Callable[[], object], times: int = 5) -> float:
    """Return the best of some runs: what the work costs, not what else the machine does."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best * 1e6


def costs(lines: list[str]) -> tuple[list[float], list[float]]:
    """Return the costs of reading and of judging each line."""
    reading, judging = [], []
    for text in lines:
        reading.append(microseconds(lambda text=text: parse_command(text)))  # type: ignore[misc]
        line = parse_command(text)
        known = line if isinstance(line, Unreadable) else looked_up(line)
        judging.append(
            microseconds(lambda known=known, text=text: ruling_of(known, text, POLICY, RULES))  # type: ignore[misc]
        )
    return reading, judging


def rates(lines: list[str]) -> Counter[str]:
    """Return how often each word is said."""
    said: Counter[str] = Counter()
    for text in lines:
        line = parse_command(text)
        known = line if isinstance(line, Unreadable) else looked_up(line)
        said[WORDS[ruling_of(known, text, POLICY, RULES).say]] += 1
    return said


def main() -> None:
    """Print the figures."""
    tables = {}
    for name in ("ordinary", "adversarial"):
        groups = tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))["group"]
        tables[name] = [line for group in groups for line in group["lines"]]
    for name, lines in (*tables.items(), ("largest", list(LARGEST))):
        for what, found in zip(("reading", "judging"), costs(lines), strict=True):
            print(f"{name:12} {what}: median {statistics.median(found):7.0f} µs, worst {max(found):7.0f} µs")
    for name, lines in tables.items():
        said = rates(lines)
        shares = ", ".join(f"{word} {said[word] / len(lines):.1%}" for word in WORDS)
        print(f"{name:12} {len(lines)} lines: {shares}")


if __name__ == "__main__":
    main()
