"""Git on trial in whole sessions: changes in git's terms; hooks and settings are not kept."""

from __future__ import annotations

import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Status
from leeward.security.ports import Answer

SETTINGS = """[user]
\tname = Ann
\temail = ann@harbour.example
[commit]
\tgpgSign = false
"""


def git(folder: Path, *words: str) -> str:
    """Run git as the person does, with nobody's settings."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.fixture
def repository(tmp_path) -> Path:
    """A workspace with three commits on two branches, and a tag."""
    ws = tmp_path / "ws"
    ws.mkdir()
    git(ws, "init", "-q", "-b", "main")
    with (ws / ".git" / "config").open("a") as file:
        file.write(SETTINGS)
    for number in range(2):
        (ws / "a.txt").write_text("one\n" * (number + 1))
        git(ws, "add", ".")
        git(ws, "commit", "-qm", f"number {number}")
    git(ws, "branch", "topic", "HEAD~1")
    git(ws, "switch", "-q", "topic")
    (ws / "t.txt").write_text("t\n")
    git(ws, "add", ".")
    git(ws, "commit", "-qm", "on topic")
    git(ws, "switch", "-q", "main")
    git(ws, "tag", "v1")
    return ws


@pytest.fixture
def tried(tmp_path, sessions):
    @asynccontextmanager
    async def opened(*answers: Answer, config: str = ""):
        approver = sessions.Answers(*answers)
        async with sessions.session(tmp_path, config, trial="auto", approver=approver) as runtime:
            if problem := await runtime.sandbox.no_trial_because():
                pytest.skip(f"trial runs are needed: {problem}")
            runtime.asked = approver.questions
            yield runtime

    return opened


async def run(runtime, line: str):
    return await runtime.call("shell", {"command": line})


# Lines that run one after the other before, the line, and a part of what is told of it.
ORDINARY = {
    "add": ((), "echo x > x; git add x", "staged: new x"),
    "commit": (("echo x > x; git add x",), "git commit -m 'an x'", "1 commit on branch main:"),
    "commit all": ((), "echo x >> a.txt; git commit -am more", "changes changed a.txt"),
    "amend": ((), "git commit --amend -m better", "branch main is rewritten: 1 commit"),
    "new branch": ((), "git checkout -b other", "branch other is created at"),
    "switch": ((), "git switch topic", "HEAD moves to branch topic"),
    "delete a branch": ((), "git branch -D topic", "branch topic is deleted"),
    "tag": ((), "git tag -a v2 -m two", "tag v2 is created at"),
    "merge": ((), "git merge -m joined topic", "2 commits on branch main"),
    "fast forward": (("git switch topic",), "git reset --hard main", "branch topic is rewritten"),
    "rebase": (("git switch topic",), "git rebase main", "branch topic is rewritten"),
    "stash": (("echo x >> a.txt",), "git stash", "stashed: WIP on main"),
    "pop": (("echo x >> a.txt", "git stash"), "git stash pop", "taken from the stash: WIP on main"),
    "back": ((), "git reset --hard HEAD~1", "branch main moves back by 1 commit"),
    "restore": (("echo x > a.txt",), "git restore a.txt", "a.txt: changed file"),
    "rm": ((), "git rm -q a.txt", "staged: removed a.txt"),
    "mv": ((), "git mv a.txt b.txt; git commit -m moved", "1 commit on branch main"),
    "cherry-pick": ((), "git cherry-pick topic", "1 commit on branch main"),
    "revert": ((), "git revert --no-edit HEAD", "1 commit on branch main"),
    "gc": ((), "git gc -q", "all that references and the index lead to is still there"),
    "pack refs": ((), "git pack-refs --all", "new"),
    "one is gone": (("git init -q sub",), "python3 -c 'import shutil; shutil.rmtree(\"sub\")'", "is removed"),
    "a new one": ((), "git init -q sub; cd sub; echo s > s; git add s", "new repository on branch"),
    "clone": ((), "git clone -q --no-hardlinks . copy", "new repository on branch main"),
    "upstream": ((), "git branch --set-upstream-to=main topic", "branch topic is pulled from main"),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDINARY)
async def test_ordinary_work_is_one_question_and_comes_out_as_it_would(tried, repository, name) -> None:
    before, line, told = ORDINARY[name]
    async with tried(Answer.YES) as runtime:
        for one in before:
            assert (await run(runtime, one)).outcome.status is Status.OK, one
        runtime.asked.clear()
        result = await run(runtime, line)
        assert result.outcome.status is Status.OK and result.outcome.exit_code == 0, result.shown
        [question] = runtime.asked
        if name != "pack refs":
            assert told in question.action.preview().text, question.action.preview().text
    said = git(repository, "fsck", "--no-dangling") + git(repository, "status")
    assert "error" not in said and "fatal" not in said
    assert not [*repository.rglob("*.lock")]


async def test_looking_asks_nothing(tried, repository) -> None:
    async with tried(Answer.NO) as runtime:
        for line in (
            "git status",
            "git diff HEAD~1",
            "git log -p",
            "git show v1",
            "git blame a.txt",
            "git add .",
        ):
            result = await run(runtime, line)
            assert result.outcome.exit_code == 0 and not runtime.asked, result.shown


# What stays denied, however it is done: it is run, led by or believed by git.
HOSTILE = {
    "no repository": "python3 -c 'import shutil; shutil.rmtree(\".git\")'",
    "moved away": "python3 -c 'import os; os.rename(\".git\", \"other\")'",
    "a hook": "python3 -c 'open(\".git/hooks/post-checkout\", \"w\").write(\"#!/bin/sh\")'",
    "an alias": "git config alias.st '!sh'",
    "a pager": "git config core.pager sh",
    "a hook path": "git config core.hooksPath h",
    "a filter": "git config filter.x.smudge sh",
    "an include": "git config include.path ../x",
    "somebody else": "git config user.name Eve",
    "a helper as remote": "git config remote.x.url 'ext::sh -c id'",
    "a remote with a program": "git config remote.x.uploadpack sh",
    "settings by hand": "printf '[core]\\n\\tsshCommand = sh\\n' >> .git/config",
    "settings removed": "rm .git/config",
    "attributes": "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes",
    "excludes": "mkdir -p .git/info; echo '*' > .git/info/exclude",
    "alternates": "mkdir -p .git/objects/info; echo /tmp > .git/objects/info/alternates",
    "grafts": "mkdir -p .git/info; echo x > .git/info/grafts",
    "a worktree": "git worktree add -q ../ws/wt topic",
    "a submodule": "mkdir -p .git/modules/x; echo x > .git/modules/x/HEAD",
    "a replaced object": "git replace HEAD HEAD~1",
    "an object of another name": "python3 swap.py",
    "a reference to nothing": "echo 1234567890123456789012345678901234567890 > .git/refs/heads/main",
    "a reference out": "printf 'ref: ../../x\\n' > .git/refs/heads/out",
    "HEAD elsewhere": "echo 'ref: refs/remotes/x' > .git/HEAD",
    "no index": "echo garbage > .git/index",
    "an index that skips": "git update-index --index-info <<< '160000 0 0'; printf x >> .git/index",
    "a lock": "touch .git/index.lock",
    "a link": "rm .git/HEAD; ln -s /etc/passwd .git/HEAD",
    "a folder of ours": "mkdir .git/x; echo x > .git/x/y",
    "another spelling": "mkdir -p sub/.GIT/hooks; echo x > sub/.GIT/hooks/x",
    "a gitfile": "mkdir sub; echo 'gitdir: /tmp/x' > sub/.git",
    "a new one with a hook": "git init -q sub; cd sub/.git/hooks; echo x > post-commit; chmod +x post-commit",
    "a new one with an alias": "git init -q sub; git -C sub config alias.x '!sh'",
    "a bare one in disguise": "mkdir sub; cd sub; mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; "
    "printf '[core]\\n\\tbare = true\\n\\tfsmonitor = sh\\n' > config",
    "steps to run": "mkdir .git/rebase-merge; echo 'exec sh' > .git/rebase-merge/git-rebase-todo",
}  # fmt: skip


# Puts the commit before the last in the place of the last one.
SWAP = """
import pathlib, subprocess
def at(name):
    oid = subprocess.run(["git", "rev-parse", name], capture_output=True, text=True).stdout.strip()
    return pathlib.Path(".git/objects", oid[:2], oid[2:])
at("HEAD").chmod(0o644)
at("HEAD").write_bytes(at("HEAD~1").read_bytes())
"""


def state(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_git_runs_obeys_or_believes_is_never_kept(tried, repository, name) -> None:
    (repository / "swap.py").write_text(SWAP)
    before = state(repository)
    rules = '[permissions]\nautonomy = "full"\n'
    for match in ("**", "git*"):
        rules += f'[[permissions.rules]]\ntool = "keep"\nmatch = "{match}"\naction = "allow"\n'
    async with tried(Answer.YES, config=rules) as runtime:
        await run(runtime, f"echo x > beside; {HOSTILE[name]}")
        assert {question.action.call.tool for question in runtime.asked} <= {"keep"}
    after = state(repository)
    if name in {"a lock", "an index that skips", "moved away"}:
        # What a git that was stopped left behind is left out, and so is an index that says nothing new; and
        # what holds a hook stays where it is.
        after.pop("beside", None)
    assert {path: after.get(path) for path in {*after, *before} if after.get(path) != before.get(path)} == {}


async def test_settings_are_asked_about_whatever_rule_there_is_for_git(tried, repository) -> None:
    rule = '[[permissions.rules]]\ntool = "keep"\nmatch = "git"\naction = "allow"\n'
    async with tried(Answer.NO, config=rule) as runtime:
        await run(runtime, "git commit --allow-empty -m empty")
        assert not runtime.asked
        await run(runtime, "git config branch.main.remote .")
        [question] = runtime.asked
        assert "git: branch main follows this repository" in question.action.preview().text


@pytest.mark.parametrize("match", ["**", "*", "**/*", "?it"])
async def test_a_rule_for_all_paths_answers_for_no_repository(tried, repository, match) -> None:
    rule = f'[[permissions.rules]]\ntool = "keep"\nmatch = "{match}"\naction = "allow"\n'
    async with tried(Answer.NO, config=rule) as runtime:
        await run(runtime, "git commit --allow-empty -m empty")
        assert len(runtime.asked) == 1


async def test_always_for_a_commit_answers_the_next_one_and_no_other_command(tried, repository) -> None:
    async with tried(Answer.ALWAYS, Answer.NO) as runtime:
        for _ in range(3):
            await run(runtime, "git commit --allow-empty -m same")
        assert len(runtime.asked) == 1 and git(repository, "rev-list", "--count", "main").strip() == "5"
        await run(runtime, "git reset --hard HEAD~1")
        assert len(runtime.asked) == 2


async def test_a_commit_that_was_kept_can_be_taken_back(tried, repository) -> None:
    before = git(repository, "log", "--format=%H")
    async with tried(Answer.YES) as runtime:
        await run(runtime, "echo x >> a.txt; git commit -am more")
        assert git(repository, "log", "--format=%H") != before
        told = (await dispatch(runtime, parse("/undo"))).text
        assert told.startswith("undone: shell"), told
    assert git(repository, "log", "--format=%H") == before
    assert git(repository, "status", "--porcelain") == "" and "error" not in git(repository, "fsck")


async def test_names_and_subjects_are_escaped(tried, repository) -> None:
    async with tried(Answer.NO) as runtime:
        await run(runtime, "touch $'a\\e[31m\\nb'; git add .; git commit -m $'red \\e[31m'")
        [question] = runtime.asked
        assert "\x1b" not in question.action.preview().text


# ------------------------------------------------------------------ secrets in what git holds

PLANTED = "HARBOUR=n0t-a-real-one"


@pytest.fixture
def holding(repository) -> Path:
    """The repository, in whose history a secret file was, and is no more."""
    (repository / ".env").write_text(f"{PLANTED}\n")
    git(repository, "add", "-f", ".env")
    git(repository, "commit", "-qm", "oops")
    git(repository, "rm", "-q", ".env")
    git(repository, "commit", "-qm", "better")
    return repository


OUTSMARTING = {
    "git show": "git show HEAD~1",
    "by another name": "g=git; $g show HEAD~1",
    "python": "python3 -c 'import subprocess; print(subprocess.run([\"g\" + \"it\", \"log\", \"-p\"], "
    "capture_output=True, text=True).stdout)'",
    "zlib": "python3 -c 'import zlib, pathlib; [print(zlib.decompress(p.read_bytes())) "
    'for p in pathlib.Path(".").rglob("*") if len(p.name) == 38]\'',
    "a copy": "cp -r . /tmp/copy; cd /tmp/copy; p=show; g''it $p HEAD~1",
    "a link": "python3 -c 'import os; os.symlink(\".g\" + \"it\", \"x\")'; cat x/objects/*/*",
    "a script": "printf 'git log -p --all' > s; bash s",
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", OUTSMARTING)
async def test_a_secret_of_the_history_is_read_by_no_unasked_run(tried, holding, name, packed) -> None:
    if packed:
        git(holding, "gc", "-q")
    async with tried(Answer.NO) as runtime:
        result = await run(runtime, OUTSMARTING[name])
        assert PLANTED not in result.shown + result.text


async def test_git_asks_once_a_session_and_then_reads(tried, holding) -> None:
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, "git show HEAD~1")
        [question] = runtime.asked
        [(gate, ask)] = question.asks
        assert (gate, ask.rule, question.always) == ("commands", "history", None) and PLANTED in result.shown
        await run(runtime, "git log -p")
        await run(runtime, 'python3 -c \'import subprocess; subprocess.run(["git", "status"])\'')
        assert len(runtime.asked) == 1
        told = (await dispatch(runtime, parse(f"/why {result.call.id}"))).text
        assert "on trial" in told and "history" in told
        await dispatch(runtime, parse("/clear"))
        await run(runtime, "git status")
        assert len(runtime.asked) == 2


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
async def test_no_autonomy_answers_for_the_history(tried, holding, autonomy) -> None:
    async with tried(Answer.NO, config=f'[permissions]\nautonomy = "{autonomy}"\n') as runtime:
        result = await run(runtime, "git show HEAD~1")
        assert len(runtime.asked) == 1 and PLANTED not in result.shown


async def test_a_secret_that_is_committed_later_is_seen(tried, repository) -> None:
    async with tried(Answer.NO) as runtime:
        await run(runtime, "git log")
        assert not runtime.asked
        (repository / ".env").write_text(PLANTED)
        git(repository, "add", "-f", ".env")
        await run(runtime, "git status")
        assert len(runtime.asked) == 1
        git(repository, "rm", "-q", "--cached", ".env")
        await run(runtime, "git status")
        assert len(runtime.asked) == 1


async def test_templates_of_secret_files_close_nothing(tried, repository) -> None:
    (repository / ".env.example").write_text("PASSWORD=\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "a template")
    async with tried(Answer.NO) as runtime:
        assert (await run(runtime, "git log -p")).outcome.exit_code == 0 and not runtime.asked


async def test_secrets_that_git_tracks_are_named_where_git_is_started(tried, repository) -> None:
    (repository / ".env").write_text("A=1\n")
    git(repository, "add", "-f", ".env")
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, "git status --short; git diff; true")
        assert "git tracks secret files, which commands cannot read: .env;" in result.shown
        result = await run(runtime, "ls")
        assert "git tracks" not in result.shown
    git(repository, "rm", "-q", "--cached", ".env")
    async with tried(Answer.YES) as runtime:
        assert "git tracks" not in (await run(runtime, "git status --short; git log; true")).shown


async def test_a_clone_of_a_folder_works_or_says_how(tried, repository) -> None:
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, "git clone -q . copy")
        if result.outcome.exit_code:
            assert "git clone --no-hardlinks" in result.shown
        result = await run(runtime, "git clone -q --no-hardlinks . copy2")
        assert result.outcome.exit_code == 0 and "no-hardlinks" not in result.shown
    assert (repository / "copy2" / ".git").is_dir()
