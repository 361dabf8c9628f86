"""Fuzz unasked git commands: none may change a file, start a program or print a secret.

Repositories are made of a plain one and of traps: settings, attributes, links, pointers, hooks, submodules
and repositories around and below it, all of which start a program or lead to another repository. Every git
command that needs no question there is run as it is printed, with the environment of the product, and all
files are compared before and after. `python tests/fuzz/git_quiet_fuzz.py [REPOSITORIES] [SEED]` exits 1 if
one did more, or if a trap could be set nowhere.
"""

# ruff: noqa: E501 — the tables are wide

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from leeward.security.command import CommandLine, Say, parse_command, ruling_of, surveyed, wanted
from leeward.security.policy import Policy, ShellRules
from leeward.security.sandbox import HOOK_NAMES
from leeward.tools.process import environment
from leeward.tools.survey import looked_up

__all__ = ["LOUD", "OTHER", "PLAIN", "Place", "Report", "arm", "fuzzed", "made", "printed", "run"]

CANARY = "ZEBRA-7731"
RULES = ShellRules(confirm=())

PLAIN = (
    "git --version", "git rev-parse --show-toplevel", "git status", "git status -s", "git status -sb",
    "git status --short --branch", "git status --porcelain",
    "git status --porcelain=v2 --branch", "git branch", "git branch -a", "git branch -vv",
    "git branch --show-current", "git branch --list", "git log --oneline",
    "git log --oneline -5", "git log --oneline -n 3", "git --no-pager log --oneline --max-count=2",
    "cd . && git status", "git status | head -3",
    "git status; git log --oneline -2", "/usr/bin/git status", "! git status", "time git log --oneline",
)  # fmt: skip
OTHER = (
    "git status -v", "git status --ignored", "git status -uall", "git status .", "git -C . status",
    "git -C sub status", "cd sub && git status", "(cd sub && git log --oneline)",
    "cd sub; git branch", "git range-diff HEAD~1 HEAD HEAD", "git log", "git log -m -p",
    "git log --oneline -p", "git log --oneline --stat", "git log --oneline --show-signature",
    "git log --oneline .env", "git notes show", "git diff", "git diff --cached", "git show",
    "git show HEAD:a.bin", "git grep KEY", "git grep --cached KEY", "git cat-file -p HEAD",
    "git blame a.bin", "git stash list", "git describe --dirty", "git fetch", "git ls-files",
    "git config --list", "git reflog", "git tag", "git branch --format=%G?",
    "git branch --sort=signature", "git rev-parse --git-dir", "git version", "git help status", "git st",
    "git -p status", "git --git-dir=.git status", "git submodule status",
    "env git status", "command git status", "nice git status", "timeout 5 git status", "sh -c 'git status'",
    "eval 'git status'", "echo 'git status' | sh", "xargs git status",
    "find . -maxdepth 1 -name a.bin -exec git status ';'", "find sub -execdir git status ';'",
    "echo --ignore-submodules=none | xargs -I--ignore-submodules=all git status",
    "git-status", "/usr/lib/git-core/git status", "./git status", "sub/git status", "git.exe status", "tig",
    "gh pr list", "git-lfs status", "exa --git",
)  # fmt: skip
# What a person might type in such a repository: it tells whether the traps are live at all.
CAREFREE = (
    "git status; git branch; git log --oneline; git log -p -m --show-signature; git diff; git status -v; "
    "git -C sub status"
)
_ENDLESS = "it did not end"
# In a sandbox root obeys the modes of files as everybody does.
_UNPRIVILEGED = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    if os.geteuid() == 0 and shutil.which("setpriv")
    else ()
)
# Of a plain repository these replace so much that they are set last.
_REPLACING = frozenset(
    {
        "passed over for the root", "passed over for the parent", "gitfile", "linked tree", "no repository",
        "whole link", "common folder", "settings", "head", "objects", "references", "index", "device",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a repository is made: `home/ws` is the workspace; what its programs touch lies outside of it."""

    root: Path

    @property
    def home(self) -> Path:
        """The home; a repository of its own lies in it, which git finds when it walks up."""
        return self.root / "home"

    @property
    def workspace(self) -> Path:
        """The workspace."""
        return self.home / "ws"

    @property
    def git(self) -> Path:
        """The folder of the workspace's repository."""
        return self.workspace / ".git"

    @property
    def private(self) -> Path:
        """Another repository of the person's, outside of the workspace, whose messages are a secret."""
        return self.root / "private"

    @property
    def evil(self) -> str:
        """A program that leaves a mark."""
        return str(self.root / "evil")

    @property
    def mark(self) -> Path:
        """What the program leaves."""
        return self.root / "mark"

    def filled(self, text: str) -> str:
        """Return a text with the program for `EVIL` and the other repository for `PRIVATE`."""
        return text.replace("EVIL", self.evil).replace("PRIVATE", str(self.private / ".git"))


Trap = Callable[[Place, random.Random], object]


def _git(folder: Path, *words: str) -> str:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *named, *words], cwd=folder, check=True, capture_output=True, env=env, text=True, timeout=60
    )
    return done.stdout.strip()


def _plain_repository(folder: Path, files: dict[str, str], message: str) -> None:
    """Make a repository with two commits and a merge."""
    folder.mkdir(parents=True)
    _git(folder, "init", "-q", "--template=")
    for name, text in files.items():
        (folder / name).write_text(text)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", message)
    _git(folder, "checkout", "-qb", "topic")
    _git(folder, "commit", "-q", "--allow-empty", "-m", f"{message} on topic")
    _git(folder, "checkout", "-q", "main")
    _git(folder, "merge", "-q", "--no-ff", "-m", f"{message} merged", "topic")


_SIGNED = """tree {tree}
parent {parent}
author A <a@b.example> 1 +0000
committer A <a@b.example> 1 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 \n x
 -----END PGP SIGNATURE-----

signed
"""


def made(root: Path) -> None:
    """Make what all repositories are copies of."""
    place = Place(root)
    root.mkdir()
    _plain_repository(place.private, {"secret": f"{CANARY}\n"}, f"about {CANARY}")
    _plain_repository(place.workspace, {"a.bin": "a\n", "b.txt": "b\n", ".env": f"KEY={CANARY}\n"}, "first")
    _plain_repository(root / "hostile", {"x": "x\n"}, "hostile")
    for other in (place.private, root / "hostile"):
        # Every repository holds a copy of these; in fewer files it is made sooner.
        _git(other, "-c", "gc.packRefs=false", "gc", "-q")
    tree, parent = (_git(place.workspace, "rev-parse", name) for name in ("HEAD^{tree}", "HEAD"))
    (root / "commit").write_text(_SIGNED.format(tree=tree, parent=parent))
    commit = _git(place.workspace, "hash-object", "-t", "commit", "-w", str(root / "commit"))
    _git(place.workspace, "update-ref", "HEAD", commit)
    _git(place.workspace, "notes", "add", "-m", "a note")
    shutil.copytree(root / "hostile" / ".git", place.home / ".git")


# ------------------------------------------------------------------ traps


def _sets(place: Place, text: str) -> None:
    with (place.git / "config").open("a") as file:
        file.write(f"{place.filled(text)}\n")


def _written(name: str, text: str, setting: str = "") -> Trap:
    """Return a trap: a file of the workspace, where it has a name, and a setting that may lead to it."""

    def trap(place: Place, _: random.Random) -> None:
        if name:
            file = place.workspace / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(place.filled(text))
        if setting:
            _sets(place, setting)

    return trap


def _setting(text: str) -> Trap:
    return _written("", "", text)


def _part(name: str, text: str, setting: str = "") -> Trap:
    return _written(f".git/{name}", text, setting)


def _link(part: str) -> Trap:
    """Return a trap: a link to another repository's part in the place of one of this."""

    def trap(place: Place, _: random.Random) -> None:
        mine, other = place.git / part, place.private / ".git" / part
        shutil.rmtree(mine) if mine.is_dir() else mine.unlink()
        mine.symlink_to(other)

    return trap


def _link_out(name: str) -> Trap:
    """Return a trap: a file of the workspace that is a link to a secret."""

    def trap(place: Place, _: random.Random) -> None:
        (place.workspace / name).unlink(missing_ok=True)
        (place.workspace / name).symlink_to(place.private / "secret")

    return trap


def _gitfile(place: Place, chance: random.Random) -> None:
    """Put a file in the place of `.git`, spelled in one of many ways."""
    moved = chance.choice([place.root / "moved", place.workspace / "sub.git", place.home / "moved.git"])
    place.git.rename(moved)
    at = chance.choice([str(moved), os.path.relpath(moved, place.workspace)])
    begins = chance.choice(["gitdir: ", " gitdir: ", "\tgitdir: ", "gitdir:", "gitdir:  "])
    place.git.write_text(begins + at + chance.choice(["\n", "", "\n\n"]))


def _no_repository(place: Place, chance: random.Random) -> None:
    """Leave of `.git` what git does not take for a repository, so that it walks up."""
    way = chance.choice(("gone", "empty", "HEAD", "nonsense\n", "ref: elsewhere/main\n", "refs", "objects"))
    if way in {"gone", "empty"}:
        shutil.rmtree(place.git)
        _ = way == "empty" and place.git.mkdir()
    elif way in {"HEAD", "refs", "objects"}:
        (place.git / way).rename(place.root / way)
    else:
        (place.git / "HEAD").write_text(way)


def _submodule(place: Place, chance: random.Random) -> None:
    """Put another repository below, tracked or not, with settings of its own that start programs."""
    sub = place.workspace / "sub"
    shutil.copytree(place.root / "hostile", sub)
    _hostile(sub / ".git", place)
    os.utime(sub / "x", (9, 9))
    if chance.random() < 0.7:
        commit = _git(place.root / "hostile", "rev-parse", "HEAD")
        _git(place.workspace, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    if chance.random() < 0.3:
        text = '[submodule "sub"]\n\tpath = sub\n\turl = ext::EVIL\n\tignore = none\n\tupdate = !EVIL\n'
        (place.workspace / ".gitmodules").write_text(place.filled(text))
    if chance.random() < 0.3:
        (place.git / "modules").mkdir(exist_ok=True)
        (sub / ".git").rename(place.git / "modules" / "sub")
        (sub / ".git").write_text("gitdir: ../.git/modules/sub\n")


_HOSTILE = """[core]
\tfsmonitor = EVIL
\thooksPath = EVIL-hooks
[filter "e"]
\tclean = EVIL
[diff]
\texternal = EVIL
"""


def _hostile(git: Path, place: Place) -> None:
    """Have a repository start programs whatever is done in it."""
    with (git / "config").open("a") as file:
        file.write(place.filled(_HOSTILE))
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_text("* filter=e\n")


def _below(text: str | None) -> Trap:
    """Return a trap: a folder of the workspace with an empty `.git`, or one that leads elsewhere."""

    def trap(place: Place, _: random.Random) -> None:
        sub = place.workspace / "sub"
        sub.mkdir()
        (sub / "f").write_text("f\n")
        if text is None:
            (sub / ".git").mkdir()
        else:
            (sub / ".git").write_text(place.filled(text))

    return trap


def _hooks(place: Place, _: random.Random) -> None:
    (place.git / "hooks").mkdir()
    for name in HOOK_NAMES:
        (place.git / "hooks" / name).symlink_to(place.evil)


def _promisor(place: Place, _: random.Random) -> None:
    """Take away an object that a remote has promised, and which only a program can bring."""
    _sets(
        place,
        (
            '[remote "o"]\n\turl = ext::EVIL\n\tpromisor = true\n[extensions]\n\tpartialClone = '
            "o\n[protocol]\n\tallow = always"
        ),
    )
    blob = _git(place.workspace, "rev-parse", "HEAD:b.txt")
    (place.git / "objects" / blob[:2] / blob[2:]).unlink()


def _linked_twice(place: Place, _: random.Random) -> None:
    (place.git / "packed-refs").unlink(missing_ok=True)
    (place.git / "packed-refs").hardlink_to(place.private / "secret")


def _whole_link(place: Place, _: random.Random) -> None:
    shutil.rmtree(place.git)
    place.git.symlink_to(place.private / ".git")


def _programs(place: Place, _: random.Random) -> None:
    for name in ("git", "env", "cat", "head", "git-status"):
        shutil.copy2(place.evil, place.workspace / name)


def _linked_tree(place: Place, chance: random.Random) -> None:
    """Make the workspace a further work tree of a hostile repository, or give it one."""
    if chance.random() < 0.5:
        _git(place.workspace, "worktree", "add", "-q", str(place.root / "tree"), "topic")
        return
    shutil.rmtree(place.workspace)
    _git(place.root / "hostile", "worktree", "add", "-q", str(place.workspace), "topic")
    _hostile(place.root / "hostile" / ".git", place)


def _passed_over(instead: Callable[[Place], Path]) -> Trap:
    """Return a trap: git passes over `.git`, a part of which it may not enter, and takes another for these files."""

    def trap(place: Place, chance: random.Random) -> None:
        other = instead(place)
        shutil.copytree(place.git, other, dirs_exist_ok=True)
        settings = (
            f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = "
            f"{place.workspace}\n{_HOSTILE}"
        )
        (other / "config").write_text(place.filled(settings))
        (other / "info").mkdir(exist_ok=True)
        (other / "info" / "attributes").write_text("* filter=e\n")
        part = place.git / chance.choice(("refs", "objects"))
        shutil.rmtree(part)
        part.mkdir(0o400)

    return trap


def _random_settings(place: Place, chance: random.Random) -> None:
    """Add lines of what settings are made of, in any order and number."""
    pieces = [
        "[",
        "]",
        "[a",
        "[core]",
        '[filter "e"]',
        '"',
        "\\",
        "\\\n",
        " ",
        "\t",
        "\n",
        "\r",
        "=",
        "a",
        "clean",
        " = EVIL",
        "#",
        ";",
        "\v",
        "\x00",
        "\ufeff",
        "é",
    ]
    many = chance.choice((1, 1, 1, 50, 20_000))
    _sets(
        place,
        "".join(piece * chance.choice((1, 1, many)) for piece in chance.choices(pieces, k=30))[:250_000],
    )


# These start or read something unless they are seen: no status, branch or log may be quiet where one of them
# stands alone.
LOUD: dict[str, Trap] = {
    "filter": _setting('[filter "e"]\n\tclean = EVIL\n\tsmudge = EVIL'),
    "filter in one line": _setting('[FILTER "e"]CLEAN = EVIL'),
    "filter process": _setting('[filter "e"]\n\tprocess = EVIL\n\trequired = true'),
    "textconv": _setting('[diff "e"]\n\ttextconv = EVIL\n\tcachetextconv = true'),
    "diff command": _setting('[diff "e"]\n\tcommand = EVIL'),
    "fsmonitor": _setting("[core]\n\tfsmonitor = EVIL"),
    "fsmonitor, continued": _setting("[core]\n\tfsmonitor = \\\n EVIL"),
    "hooks path": _setting("[core]\n\thooksPath = EVIL-hooks"),
    "aliases": _setting("[alias]\n\tst = !EVIL\n\tstatus = !EVIL\n\tlog = !EVIL"),
    "pager": _setting("[core]\n\tpager = EVIL\n[pager]\n\tstatus = EVIL\n\tlog = EVIL\n\tbranch = EVIL"),
    "external diff": _setting("[diff]\n\texternal = EVIL"),
    "merge driver": _setting('[merge "e"]\n\tdriver = EVIL %O %A %B\n[log]\n\tdiffMerges = remerge'),
    "signature": _setting("[log]\n\tshowSignature = true\n[gpg]\n\tprogram = EVIL"),
    "format": _setting("[format]\n\tpretty = %h %G?\n[gpg]\n\tprogram = EVIL"),
    "sort": _setting("[branch]\n\tsort = signature\n[gpg]\n\tprogram = EVIL"),
    "credentials": _setting("[credential]\n\thelper = !EVIL"),
    "include": _written("more", "[core]\n\tfsmonitor = EVIL\n", "[include]\n\tpath = ../more"),
    "include if": _written(
        "more", '[filter "e"]\n\tclean = EVIL\n', '[includeIf "gitdir:**"]\n\tpath = ../more',
    ),
    "include outside": _setting("[include]\n\tpath = PRIVATE/../secret"),
    "work tree": _setting("[core]\n\tworktree = PRIVATE/.."),
    "settings of a tree": _part(
        "config.worktree", "[core]\n\tfsmonitor = EVIL\n", "[extensions]\n\tworktreeConfig = true",
    ),
    "submodule settings": _setting(
        "[submodule]\n\trecurse = true\n[diff]\n\tsubmodule = diff\n[status]\n\tsubmoduleSummary = true"
    ),
    "attributes file": _setting("[core]\n\tattributesFile = ../.gitattributes"),
    "excludes outside": _setting("[core]\n\texcludesFile = PRIVATE/../secret"),
    "editor and ssh": _setting(
        "[core]\n\teditor = EVIL\n\tsshCommand = EVIL\n\taskPass = EVIL\n\tgitProxy = EVIL"
    ),
    "promisor": _promisor,
    "alternates": _part("objects/info/alternates", "PRIVATE/objects\n"),
    "common folder": _part("commondir", "PRIVATE\n"),
    "pointer": _part("gitdir", "PRIVATE\n"),
    "gitfile": _gitfile,
    "linked tree": _linked_tree,
    "no repository": _no_repository,
    "whole link": _whole_link,
    "head": _link("HEAD"),
    "index": _link("index"),
    "settings": _link("config"),
    "objects": _link("objects"),
    "references": _link("refs"),
    "one reference": _link("refs/heads/topic"),
    "packed": _linked_twice,
    "device": lambda place, _: os.mkfifo(place.git / "shallow"),
    "passed over for the root": _passed_over(lambda place: place.workspace),
    "passed over for the parent": _passed_over(lambda place: place.home / ".git"),
}  # fmt: skip
# These do nothing to the plain forms as they are printed, or are asked about.
LATENT: dict[str, Trap] = {
    "hooks": _hooks,
    "own attributes": _part("info/attributes", "* filter=e diff=e merge=e\n"),
    "submodule": _submodule,
    "empty below": _below(None),
    "gitfile below": _below("gitdir: PRIVATE\n"),
    "gitfile below, with blanks": _below(" \tgitdir: PRIVATE\n"),
    "random settings": _random_settings,
    "remote": _setting(
        '[remote "o"]\n\turl = ext::EVIL\n\tfetch = +refs/heads/*:refs/remotes/o/*\n[branch '
        '"main"]\n\tremote = o\n\tmerge = refs/heads/main'
    ),
    "programs": _programs,
    "names": _link_out("mail"),
    "mailmap": _link_out(".mailmap"),
    "ignored": _link_out(".gitignore"),
    "linked file": _link_out("b.txt"),
    "state": _part("rebase-merge/git-rebase-todo", "exec EVIL\n"),
    "replaced": lambda place, _: _git(place.workspace, "replace", "-f", "HEAD", "HEAD~1"),
    "detached": lambda place, _: _git(place.workspace, "checkout", "-q", "--detach"),
}  # fmt: skip


# ------------------------------------------------------------------ trying


@dataclass
class Report:
    """What came of it; `wrong` tells the traps, the line, how it was printed, and what it did.

    `placed` counts the traps that stood by name, `unplaced` those that another stood in the way of.
    """

    repositories: int = 0
    plain: int = 0
    live: int = 0
    ran: int = 0
    placed: Counter[str] = field(default_factory=Counter)
    unplaced: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str, str, str]] = field(default_factory=list)


def fuzzed(count: int, seed: int) -> Report:
    """Make this many repositories, and run in each what nobody is asked about there."""
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve() / "base"
        made(base)
        deck: list[str] = []
        for at in range(count):
            place = Place(base.with_name(f"r{at}"))
            shutil.copytree(base, place.root, symlinks=True)
            _tried(place, random.Random(f"{seed} {at}"), report, deck)
            shutil.rmtree(place.root)
    return report


def _drawn(deck: list[str], count: int, chance: random.Random) -> list[str]:
    """Draw the names of traps; each comes once before one comes again."""
    if len(deck) < count:
        deck += chance.sample(sorted(LOUD.keys() - {*deck}), len(LOUD) - len(deck))
    return [deck.pop(0) for _ in range(count)]


def _tried(place: Place, chance: random.Random, report: Report, deck: list[str]) -> None:
    arm(place)
    loud = sorted(_drawn(deck, chance.choice((0, 1, 1, 2)), chance), key=_REPLACING.__contains__)
    latent = chance.sample(sorted(LATENT), chance.choice((1, 2, 3)))
    _set(latent, LATENT, place, chance, report)
    _set([one for one in loud if one not in _REPLACING], LOUD, place, chance, report)
    for name in ("a.bin", "b.txt"):
        # Their times differ from what the index holds, so that git reads them again.
        os.utime(place.workspace / name, (9, 9), follow_symlinks=False)
    _set([one for one in loud if one in _REPLACING], LOUD, place, chance, report)
    place.mark.unlink(missing_ok=True)
    lines = ("git status", *chance.sample(PLAIN, 7), *chance.sample(OTHER, 4))
    _run_quiet(place, lines, ", ".join((*loud, *latent)), report)
    report.repositories += 1
    if "device" not in loud:
        # A FIFO would be waited for.
        run(CAREFREE, place, 5)
    report.live += place.mark.exists()


def arm(place: Place) -> None:
    """Put the program in its place, and hostile settings into the repository of the home."""
    Path(place.evil).write_text(f"#!/bin/sh\necho ran >> {place.mark}\nexit 1\n")
    Path(place.evil).chmod(0o755)
    hooks = Path(f"{place.evil}-hooks")
    hooks.mkdir()
    for name in HOOK_NAMES:
        (hooks / name).symlink_to(place.evil)
    (place.workspace / ".gitattributes").write_text("* filter=e diff=e merge=e\n")
    _hostile(place.home / ".git", place)


def _set(
    names: Iterable[str], traps: dict[str, Trap], place: Place, chance: random.Random, report: Report
) -> None:
    """Set traps; where one stands in the way of another, that is counted."""
    for name in names:
        try:
            traps[name](place, chance)
        except (OSError, subprocess.CalledProcessError):
            report.unplaced[name] += 1
        else:
            report.placed[name] += 1


def _run_quiet(place: Place, lines: Iterable[str], told: str, report: Report) -> None:
    policy = Policy(str(place.workspace), str(place.home))
    quiet = [(line, text) for line in lines if (text := printed(line, policy)) is not None]
    report.plain += any(line == "git status" for line, _ in quiet)
    before = _state(place.root)
    for line, text in quiet:
        report.ran += 1
        said, after = run(text, place), _state(place.root)
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        did = f"changed {changed[:3]}" if changed else "printed a secret" if CANARY in said else ""
        did = did or ("did not end" if said == _ENDLESS else "is no plain form" if line in OTHER else "")
        if did:
            report.wrong.append((told, line, text, did))
        before = after


def printed(line: str, policy: Policy) -> str | None:
    """Return how a line is run if nobody is asked, else None."""
    read = parse_command(line)
    if not isinstance(read, CommandLine):
        return None
    path = environment(policy.home, os.environ)["PATH"]
    known = surveyed(read, looked_up(wanted(read, policy, RULES), policy, path), policy)
    return known.printed if ruling_of(known, line, policy, RULES).say == Say.NOTHING else None


def run(line: str, place: Place, seconds: float = 60) -> str:
    """Run a line in the workspace as the product would; return what it prints."""
    process = subprocess.Popen(
        [*_UNPRIVILEGED, "/bin/bash", "--noprofile", "--norc", "-c", "--", line], cwd=place.workspace,
        start_new_session=True,
        env=environment(str(place.home), os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, errors="replace", text=True,
    )  # fmt: skip
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        return _ENDLESS
    finally:
        # Whatever it left behind ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _state(root: Path) -> dict[str, tuple[int, ...]]:
    """Return what stands below a folder: what a program changes shows in it."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            at = os.lstat(path := f"{folder}/{name}")
            found[path] = (at.st_mode, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)
    return found


def main() -> int:
    """Run from the command line; print what was found."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    report = fuzzed(count, seed)
    print(
        f"seed {seed}: {report.repositories} repositories, {report.live} with a live trap, "
        f"{report.plain} plain, "
        f"{report.ran} lines run without a question, {len(report.wrong)} did more than reading"
    )
    never = sorted(LOUD.keys() - report.placed.keys())
    if never:
        print(f"never set: {', '.join(never)}")
    for told, line, text, did in report.wrong[:40]:
        print(f"{did}\n  traps   {told}\n  line    {line!r}\n  printed {text!r}")
    return 1 if report.wrong or never else 0


if __name__ == "__main__":
    sys.exit(main())
