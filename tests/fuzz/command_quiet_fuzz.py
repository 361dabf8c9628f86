"""Fuzz unasked command lines: none may change a file, print a secret, or start what it did not name.

Random lines are made of the programs of the small table, with every option those programs have here, of
files, links and secrets, patterns, loops and wrappers. Every line that would run without a question where
nothing runs on trial is run as it is printed, by bash in a sandbox without network, and all files are compared
before and after. `python
tests/fuzz/command_quiet_fuzz.py [LINES] [SEED]` exits 1 if one did more than reading.
"""

# ruff: noqa: E501 — the tables are wide

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leeward.security.command import Say, parse_command, ruling_of, surveyed, wanted
from leeward.security.command.programs.tables import lines_of
from leeward.security.kinds import CommandLine
from leeward.security.policy import Policy, ShellRules
from leeward.tools.survey import looked_up

__all__ = ["Report", "fuzzed"]

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CANARY = "ZEBRA-7731"
MARK = "RAN-UNFORESEEN"
RULES = ShellRules(confirm=())
# Nothing to be told here: it waits.
LEFT_OUT = frozenset({"sleep"})
FILES = {
    "a.txt": "one\ntwo\nthree\n", "b.txt": "two\nthree\nfour\n", "c.json": '{"a": [1, 2], "b": "x"}\n',
    "d.csv": "a,b\n1,2\n",
    "src/e.py": "import os\n", "src/f.py": "x = 1\n", ".env": f"KEY={CANARY}\n",
    "src/.env": f"KEY={CANARY}\n", "-o": "", "-i": "", "@f": "-o\nout\n",
    "--output=z": "", "names0": ".env\0../outside/secret\0", "src/prog.sed": "w out\n",
    "prog.awk": 'BEGIN{system("touch out")}\n',
}  # fmt: skip
LINKS = {
    "link": "../outside/secret",
    "src/link.py": "../../outside/secret",
    "folder": "../outside",
    "keys": "../.ssh",
}
OPERANDS = (
    "a.txt b.txt c.json d.csv src/e.py src . .. .env link folder/secret keys/id ../outside/secret "
    "~/.ssh/id $HOME/.ssh/id out /etc/hosts "
    "*.txt *.json src/*.py * .* l* ?.txt ./* src/* -- - '*' x 'two' \"$x\" $x {a,b}.txt names0 "
    "src/prog.sed prog.awk ../*/* folder/* -o @f "
    "p s/o/x/ '{print}' '.' '1,2p' 'w out' '1e touch out' 's/o/x/w out' 's/o/x/e' '{print > \"out\"}' "
    "'BEGIN{system(\"touch out\")}' HEAD HEAD:a.txt"
    " {} ./{} x{} '{}/.env' '{}/../.ssh/id' '{}/id' '[^a]env' '.\\env' '[[:punct:]]env' keys"
).split(" ")
VALUES = (
    "a.txt out .env link 1 2 ./evil names0 src/prog.sed prog.awk '*.py' x , link/../x ../outside/secret "
    "'{}' exec=./evil"
).split(" ")
TEMPLATES = (
    "@", "@", "@", "@", "@ | @", "@ ; @", "@ && @", "cd src && @", "cd folder; @", "cd src/.. && @",
    "for x in ? ?; do @; done", "for x in ?; do @ $x; done",
    'for x in ?; do @ "$x"; done', "x=?; @ $x", "timeout 2 @", "env @", "nice @", "command @", "sh -c '@'",
    "bash -c '@' ? ?", "echo ? | xargs @", "printf '%s\\0' ? | xargs -0 @",
    "find . -name ? -exec @ {} \\;", "find src -exec @ {} +", "find . -name ? -exec @ ? \\;",
    "find ? -exec @ ? \\;", "find ? -type f -name ? -exec @ ? +", "@ < ?", "@ <<< ?", "@ <(@)", "echo $(@)",
    "[ -f ? ] && @", "if @; then @; fi", "( @ )", "{ @; } < ?", "@ 2>&1", "@ 2>/dev/null",
    "while read -r x; do @ $x; done < ?", 'ls | while read x; do @ "$x"; done', "x=';'; @ $x", "stdbuf -oL @",
    "time @", "eval '@'", "xargs @ < names0", "ls | xargs @",
)  # fmt: skip

DRIVER = """
import json, os, shutil, signal, subprocess, sys
place = json.load(open("/stage/place"))
root, workspace, home = place["root"], place["workspace"], place["home"]
def state():
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            at = os.lstat(path)
            found[path] = (at.st_mode, at.st_size if not os.path.isdir(path) else 0, at.st_mtime_ns if not os.path.isdir(path) else 0, at.st_ino)
    return found
def fresh():
    for name in os.listdir(root):
        path = os.path.join(root, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    subprocess.run(["cp", "-a", "/stage/copy/.", root], check=True)
fresh()
before, results = state(), []
for line in json.load(open("/stage/lines")):
    env = {"PATH": place["path"], "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "CI": "1"}
    process = subprocess.Popen(["/bin/bash", "--noprofile", "--norc", "-c", "--", line], cwd=workspace, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        said = process.communicate(timeout=3)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0]
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    after = state()
    changed = sorted({path for path in {*before, *after} if before.get(path) != after.get(path)})
    results.append({"said": said[:200000].decode("utf-8", "replace"), "changed": changed})
    if changed:
        fresh()
        before = state()
json.dump(results, open("/stage/results", "w"))
"""
EVIL = f"#!/bin/sh\nprintf 'RAN-%s\\n' {MARK[4:]}\ntouch \"${{0%/*}}/out.$$\"\n"


@dataclass
class Report:
    """What came of the lines; `wrong` holds a line, how it was printed, and what it did."""

    lines: int = 0
    quiet: int = 0
    wrong: list[tuple[str, str, str]] = field(default_factory=list)


def made(root: Path) -> tuple[Path, Path]:
    """Make a home with a workspace that holds traps, and secrets beside it."""
    home = root / "home"
    workspace = home / "ws"
    (home / ".ssh").mkdir(parents=True)
    (home / "outside").mkdir()
    (home / ".ssh" / "id").write_text(f"key {CANARY}\n")
    (home / "outside" / "secret").write_text(f"{CANARY}\n")
    for name, text in FILES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    for name, target in LINKS.items():
        (workspace / name).symlink_to(target)
    (workspace / "evil").write_text(EVIL)
    (workspace / "evil").chmod(0o755)
    git = ["git", "-C", str(workspace), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "a.txt", "c.json", "src/e.py"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True, env={"PATH": SEARCH_PATH, "HOME": str(home)})
    (workspace / ".gitattributes").write_text("* diff=e\n")
    (workspace / "a.txt").write_text("one\nTWO\nthree\n")
    return workspace, home


def options_of(program: str) -> list[str]:
    """Return the options a program tells of itself, and every letter."""
    try:
        done = subprocess.run(
            [program, "--help"],
            capture_output=True,
            timeout=3,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.findall(r"(?<![\w-])(--?[a-zA-Z0-9][a-zA-Z0-9-]*)(=)?", done.stdout + done.stderr)
    return sorted(
        {name + mark for name, mark in found}
        | {f"-{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"}
    )


def programs() -> dict[str, list[str]]:
    """Return the programs of the table that are here, with their options."""
    names = [
        name for name in lines_of("programs.toml") if re.fullmatch(r"[\w.-]+", name) and name not in LEFT_OUT
    ]
    here = [
        name
        for name in names
        if shutil.which(name, path=SEARCH_PATH) or name in {"test", "cd", "type", "printf", "echo"}
    ]
    return {name: options_of(name) for name in here}


def command(chance: random.Random, known: dict[str, list[str]]) -> str:
    """Return one command."""
    name = chance.choice(list(known))
    words = [name]
    line = lines_of("programs.toml")[name]
    allowed = [token.partition(":")[0].rstrip("?") for token in line.get("options", "").split()]
    letters = [f"-{letter}" for token in allowed if not token.startswith("--") for letter in token[1:]]
    pool = [*(token for token in allowed if token.startswith("--")), *letters, *letters]
    pool += line.get("words", "").split()
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        option = (
            chance.choice(pool) if pool and chance.random() < 0.75 else chance.choice(known[name] or ["-o"])
        )
        if chance.random() < 0.25 and len(option) == 2 and letters:
            option += chance.choice(letters)[1:] + chance.choice(("", "", "o", "out", "e"))
        if option.endswith("=") or chance.random() < 0.2:
            option = option.rstrip("=") + chance.choice(("=", " ", "")) + chance.choice(VALUES)
        words.append(option)
    words += [chance.choice(OPERANDS) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
    if chance.random() < 0.2:
        chance.shuffle(rest := words[1:])
        words[1:] = rest
    return " ".join(words)


def random_line(chance: random.Random, known: dict[str, list[str]]) -> str:
    """Return one line."""
    line = chance.choice(TEMPLATES)
    while "@" in line:
        line = line.replace("@", command(chance, known).replace("@", "%"), 1)
    return "".join(chance.choice(OPERANDS) if char == "?" else char for char in line.replace("%", "@"))


def fuzzed(count: int, seed: int, *, batch: int = 2000) -> Report:
    """Judge this many random lines and run those nobody is asked about.

    Raises:
        RuntimeError: there is no bash or no bubblewrap to run them in.
    """
    if shutil.which("bwrap") is None or not Path("/bin/bash").exists():
        raise RuntimeError("bash and bubblewrap are needed")
    chance, report, known = random.Random(seed), Report(), programs()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        root = Path(name) / "world"
        workspace, home = made(root)
        policy = Policy(str(workspace), str(home))
        while report.lines < count:
            quiet = []
            for _ in range(min(batch, count - report.lines)):
                report.lines += 1
                line = random_line(chance, known)
                if (printed := _printed(line, policy)) is not None:
                    quiet.append((line, printed))
            report.quiet += len(quiet)
            for (line, printed), result in zip(
                quiet, _run([printed for _, printed in quiet], Path(name), root, workspace, home), strict=True
            ):
                did = _did(result)
                if did:
                    report.wrong.append((line, printed, did))
    return report


def _printed(line: str, policy: Policy) -> str | None:
    """Return how a line is run if nobody is asked, else None."""
    read = parse_command(line)
    if not isinstance(read, CommandLine):
        return None
    known = surveyed(read, looked_up(wanted(read, policy, RULES), policy, SEARCH_PATH), policy)
    return known.printed if ruling_of(known, line, policy, RULES).say == Say.NOTHING else None


def _did(result: dict[str, Any]) -> str:
    if result["changed"]:
        return f"changed {result['changed'][:3]}"
    if MARK in result["said"]:
        return "started what it did not name"
    return f"printed a secret: {result['said'][:200]!r}" if CANARY in result["said"] else ""


def _run(lines: list[str], stage: Path, root: Path, workspace: Path, home: Path) -> list[dict[str, Any]]:
    (stage / "stage").mkdir(exist_ok=True)
    for name, value in (
        ("lines", lines),
        ("place", {"root": str(root), "workspace": str(workspace), "home": str(home), "path": SEARCH_PATH}),
    ):
        (stage / "stage" / name).write_text(json.dumps(value))
    (stage / "stage" / "driver.py").write_text(DRIVER)
    if not (stage / "stage" / "copy").exists():
        subprocess.run(["cp", "-a", str(root), str(stage / "stage" / "copy")], check=True)
    roots = [
        path for path in ("/usr", "/lib", "/lib64", "/bin", "/etc", sys.base_prefix) if Path(path).exists()
    ]
    binds = [word for path in roots for word in ("--ro-bind", path, path)]
    python = str(Path(sys.executable).resolve())
    subprocess.run(
        ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", *binds, "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/var",
         "--bind", str(root), str(root), "--bind", str(stage / "stage"), "/stage", python, "-I",
         "/stage/driver.py"],
        check=True, timeout=3600, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return list(json.loads((stage / "stage" / "results").read_text()))


def main() -> int:
    """Run from the command line; print what was found."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    report = fuzzed(count, seed)
    print(
        f"seed {seed}: {report.lines} lines, {report.quiet} run without a question, {len(report.wrong)} "
        f"did more than reading"
    )
    for line, printed, did in report.wrong[:40]:
        print(f"{did}\n  line    {line!r}\n  printed {printed!r}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
