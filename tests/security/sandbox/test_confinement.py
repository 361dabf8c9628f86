"""Confinements, checked against models of bubblewrap and Landlock."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.paths import is_inside
from leeward.security.policy import Policy, Sandboxing
from leeward.security.sandbox import (
    Mark,
    MarkKind,
    Masks,
    PathRight,
    Role,
    Spot,
    changes_to_undo,
    confinement_of,
    folders_in_between,
    trial_confinement,
)
from leeward.security.sandbox import confinement as confine
from leeward.security.sandbox.tampering import harmful_settings
from loading import rows_beside

ROWS = rows_beside(__file__)

WS, HOME = "/home/ada/ws", "/home/ada"
TAKES = {
    "--bind": 2,
    "--ro-bind": 2,
    "--ro-bind-try": 2,
    "--tmpfs": 1,
    "--proc": 1,
    "--dev": 1,
    "--remount-ro": 1,
    "--symlink": 2,
    "--perms": 1,
    "--chdir": 1,
    "--cap-drop": 1,
}


def policy(**fields) -> Policy:
    return Policy(**{"workspace": WS, "home": HOME, **fields})


def mounts(arguments) -> dict[str, str]:
    """What is mounted where in the end: a mount covers whatever was mounted on or below its place before."""
    words, found, perms = list(arguments), {}, ""
    while words:
        word = words.pop(0)
        values = [words.pop(0) for _ in range(TAKES.get(word, 0))]
        if word == "--perms":
            perms = values[0]
        if word not in {"--bind", "--ro-bind", "--ro-bind-try", "--tmpfs", "--proc", "--dev"}:
            continue
        place = values[-1]
        found = {path: what for path, what in found.items() if not is_inside(path, place)}
        what = {"--bind": "write", "--tmpfs": "closed" if perms == "0000" else "empty"}.get(word, "read")
        found[place] = "closed" if values[0] == "/dev/null" else what
        perms = ""
    return found


def seen(found: dict[str, str], path: str) -> str:
    """What a program can do with a path: "write", "read", or nothing ("closed", "empty")."""
    above = [place for place in found if is_inside(path, place)]
    return found[max(above, key=len)] if above else "empty"


def allowed(grants, path: str) -> set[PathRight]:
    return {grant.right for grant in grants if is_inside(path, grant.path)}


NAMES = st.sampled_from(["a", "b", ".git", ".env", "sub"])
BELOW = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: f"{WS}/{'/'.join(parts)}")
SPOTS = st.lists(BELOW, max_size=5, unique=True)


def tree(paths) -> dict[str, tuple[str, ...]]:
    """The names in every folder on the way to some paths, with a neighbour in each."""
    entries: dict[str, set[str]] = {}
    for path in paths:
        while path not in {"/", ""}:
            folder, _, name = path.rpartition("/")
            entries.setdefault(folder or "/", {"neighbour"}).add(name)
            path = folder
    return {folder: tuple(sorted(names)) for folder, names in entries.items()}


def bubblewrap_faults(module, hidden, unwritable) -> list[str]:
    confinement = confinement_of(policy(), ("/home/ada/.pyenv/versions/3", "/home/ada/.cargo/bin"))
    masks = Masks(
        tuple(Spot(path, is_folder=False) for path in hidden),
        tuple(Spot(path, is_folder=True) for path in unwritable),
    )
    found = mounts(module.bubblewrap_arguments(confinement, masks, WS))
    faults = [
        f"{path} can be read"
        for path in hidden
        for one in (path, f"{path}/x")
        if seen(found, one) in {"read", "write"} and not hides(path, unwritable)
    ]
    faults += [
        f"{path} can be changed"
        for path in unwritable
        for one in (path, f"{path}/x")
        if seen(found, one) == "write"
    ]
    faults += [
        f"{path} can be moved away"
        for path in folders_in_between((WS,), unwritable)
        if path not in found and not is_inside(path, *hidden, *unwritable)
    ]
    free = [
        path for path in (f"{WS}/free", f"{WS}/sub2/deep/er") if not is_inside(path, *hidden, *unwritable)
    ]
    faults += [f"{path} cannot be changed" for path in free if seen(found, path) != "write"]
    faults += [
        f"{path} is there"
        for path in (
            f"{HOME}/.ssh/id",
            f"{HOME}/.config/gh",
            "/run/docker.sock",
            "/tmp/x",
            "/srv/data",
            "/home/bob/x",
        )
        if seen(found, path) != "empty"
    ]
    faults += [
        f"{path} cannot be read"
        for path in (
            "/usr/bin/git",
            "/etc/hosts",
            f"{HOME}/.cargo/bin/cargo",
            f"{HOME}/.pyenv/versions/3/bin/python",
        )
        if seen(found, path) != "read"
    ]
    return faults


def hides(path: str, others) -> bool:
    """Whether a path and one of some others are one place, of which the later mount holds."""
    return any(is_inside(path, one) or is_inside(one, path) for one in others)


@given(hidden=SPOTS, unwritable=SPOTS)
@example(hidden=[f"{WS}/.env"], unwritable=[f"{WS}/sub/.git/a", f"{WS}/sub/.git"])
@example(hidden=[], unwritable=[f"{WS}/a/b/.git"])
def test_bubblewrap_is_told_what_must_not_be_reached(hidden, unwritable):
    assert bubblewrap_faults(confine, hidden, unwritable) == []


def test_the_obvious_wrong_arguments_are_caught(planted):
    faults = bubblewrap_faults(planted("confine"), [f"{WS}/.env"], [f"{WS}/.git/hooks"])
    assert {
        f"{WS}/.env can be read",
        f"{WS}/.git/hooks can be changed",
        f"{WS}/.git can be moved away",
        f"{HOME}/.ssh/id is there",
    } <= set(faults)


def test_bubblewrap_is_told_the_rest():
    arguments = confine.bubblewrap_arguments(confinement_of(policy()), Masks(), f"{WS}/sub")
    text = " ".join(arguments)
    assert (
        "--unshare-all" in text
        and "--die-with-parent" in text
        and "--cap-drop ALL" in text
        and "--share-net" not in text
    )
    assert text.endswith(f"--remount-ro / --chdir {WS}/sub") and "--ro-bind-try /proc/sys /proc/sys" in text
    shared = confine.bubblewrap_arguments(
        confinement_of(policy(sandbox=Sandboxing(network=True)), resolver="/run/x/resolv.conf"), Masks(), WS
    )
    assert "--share-net" in shared and "/run/x/resolv.conf" in shared
    assert "/run/x/resolv.conf" not in confine.bubblewrap_arguments(
        confinement_of(policy(), resolver="/run/x/resolv.conf"), Masks(), WS
    )


@pytest.mark.parametrize(
    "workspace", ["/", "/home", HOME, "/home/ada/.cargo/x", "/tmp/ws", "/usr/src/app", "/run/ws"]
)
def test_wherever_the_workspace_lies_it_can_be_changed_and_the_rest_holds(workspace):
    confinement = confinement_of(policy(workspace=workspace))
    secret = posixpath.join(workspace, "secret")
    found = mounts(
        confine.bubblewrap_arguments(confinement, Masks((Spot(secret, is_folder=False),)), workspace)
    )
    assert seen(found, posixpath.join(workspace, "file")) == "write" and seen(found, secret) == "closed"
    inside = is_inside("/usr/bin/git", workspace)
    assert seen(found, "/usr/bin/git") == ("write" if inside else "read")
    # What can only be read although it lies in the workspace is for whoever looks at the disk to find.
    assert all(is_inside(path, workspace) for path in confinement.kept)
    assert ("/usr" in confinement.kept) is inside


@pytest.mark.parametrize("home", ["/", "/usr/sbin", "/nonexistent", "/var/lib/app"])
def test_an_odd_home_takes_nothing_of_the_system_away(home):
    found = mounts(confine.bubblewrap_arguments(confinement_of(policy(home=home)), Masks(), WS))
    assert seen(found, "/usr/bin/git") == "read" and seen(found, f"{WS}/x") == "write"


# ------------------------------------------------------------------ Landlock


def landlock_faults(module, hidden, unwritable, replaceable=frozenset()) -> list[str]:
    confinement = confinement_of(policy())
    masks = Masks(
        tuple(Spot(path, is_folder=False) for path in hidden),
        tuple(Spot(path, is_folder=True) for path in unwritable),
        frozenset(replaceable),
    )
    grants = module.landlock_grants(confinement, masks, "/tmp/scratch", tree([*hidden, *unwritable]))
    can_read, can_write = {PathRight.READ, PathRight.WRITE}, {PathRight.WRITE}
    faults = [
        f"{path} can be read"
        for path in hidden
        for one in (path, f"{path}/x")
        if allowed(grants, one) & can_read
    ]
    faults += [
        f"{path} can be changed"
        for path in unwritable
        if path not in replaceable and allowed(grants, path) & can_write
    ]
    fixed = [path for path in (*hidden, *unwritable) if path not in replaceable]
    faults += [
        f"{path} cannot be read"
        for path in unwritable
        if not hides(path, hidden) and not allowed(grants, path) & can_read
    ]
    for folder in folders_in_between((WS,), fixed):
        neighbour = f"{folder}/neighbour"
        if not is_inside(neighbour, *fixed) and PathRight.WRITE not in allowed(grants, neighbour):
            faults.append(f"{neighbour} cannot be changed")
    if not fixed and PathRight.WRITE not in allowed(grants, f"{WS}/new"):
        faults.append("nothing can be made")
    outside = (f"{HOME}/.ssh/id", "/srv/x", "/tmp/x", "/home/bob/x", "/dev/sda", "/run/docker.sock")
    return faults + [f"{path} is granted" for path in outside if allowed(grants, path)]


@given(hidden=SPOTS, unwritable=SPOTS)
@example(hidden=[f"{WS}/a/.env"], unwritable=[f"{WS}/a"])
@example(hidden=[f"{WS}/a"], unwritable=[f"{WS}/a/.env", f"{WS}/a"])
def test_landlock_is_told_what_must_not_be_reached(hidden, unwritable):
    assert landlock_faults(confine, hidden, unwritable) == []


def test_what_can_be_put_back_takes_nothing_away():
    paths = [f"{WS}/.git/config", f"{WS}/.git/hooks"]
    assert landlock_faults(confine, [], paths, paths) == []
    grants = confine.landlock_grants(
        confinement_of(policy()),
        Masks((), tuple(Spot(path, is_folder=True) for path in paths), frozenset(paths)),
        "/tmp/s",
        {},
    )
    assert PathRight.WRITE in allowed(grants, f"{WS}/.git/index.lock") and PathRight.WRITE in allowed(
        grants, f"{WS}/new"
    )


def test_the_obvious_wrong_grants_are_caught(planted):
    faults = landlock_faults(planted("confine"), [f"{WS}/a/.env"], [f"{WS}/venv"])
    assert {f"{WS}/a/.env can be read", f"{WS}/venv can be changed"} <= set(faults)


# ------------------------------------------------------------------ what others obey

HARMLESS = ROWS["harmless"]
HARMFUL = [
    "[core]\n\tfsmonitor = ./x\n",
    "[CORE]\n\tFSMonitor = ./x\n",
    "[core] sshCommand = x\n",
    "[core]\n\thooksPath = x",
    "[core]\n\tpager = x",
    "[core]\n\teditor = x",
    "[core]\n\taskPass = x",
    "[core]\n\tgitProxy = x",
    "[core]\n\tworktree = /home/ada",
    "[core]\n\tattributesFile = x",
    "[core]\n\talternateRefsCommand = x",
    "[alias]\n\tst = !x\n",
    '[filter "x"]\n\tclean = x\n',
    '[filter "x"]\n\tprocess = x\n',
    '[diff "x"]\n\ttextconv = x\n',
    "[diff]\n\texternal = x\n",
    '[merge "x"]\n\tdriver = x\n',
    "[credential]\n\thelper = !x\n",
    '[credential "https://example.com"]\n\thelper = x\n',
    "[gpg]\n\tprogram = x\n",
    '[gpg "ssh"]\n\tprogram = x\n',
    "[sequence]\n\teditor = x\n",
    "[pager]\n\tlog = x\n",
    '[includeIf "gitdir:~/"]\n\tpath = x\n',
    "[include]\n\tpath = x\n",
    "[interactive]\n\tdiffFilter = x\n",
    '[submodule "x"]\n\tupdate = !x\n',
    '[remote "x"]\n\tuploadpack = x\n',
    '[remote "x"]\n\tvcs = x\n',
    "[uploadpack]\n\tpackObjectsHook = x\n",
    "[protocol]\n\text.allow = always\n",
    '[url "x"]\n\tinsteadOf = y\n',
    "[extensions]\n\tworktreeConfig = true\n",
    "[browser]\n\tcmd = x\n",
    "[sendemail]\n\tsmtpserver = x\n",
    '[trailer "x"]\n\tcommand = x\n',
    "[init]\n\ttemplateDir = x\n",
    "[http]\n\tproxy = x\n",
    "[core]\n\tbare = false\n\\\n\tfsmonitor = x\n",
    "[a]b = x [core] fsmonitor = x\n",
    "\ufeff[core]\n\tfsmonitor = x\n",
    "not a setting\n",
    "[core\n\tfsmonitor = x\n",
]


@pytest.mark.parametrize("config", HARMLESS)
def test_ordinary_settings_may_appear(config):
    assert harmful_settings(config.encode()) == ()


@pytest.mark.parametrize("config", HARMFUL)
def test_settings_that_run_something_may_not(config):
    assert harmful_settings(config.encode()) != ()


def test_a_list_of_bad_settings_misses_most(planted):
    wrong = planted("confine").harmful_settings
    assert sum(wrong(config.lower().encode()) == () for config in HARMFUL) > 20


def repository(path="/ws/r", config="", **more) -> dict[str, Mark]:
    return {
        path: Mark(Role.REPOSITORY, MarkKind.FOLDER),
        f"{path}/config": settings_mark(path, config),
        f"{path}/hooks": Mark(Role.HOOK, MarkKind.FOLDER, owner=path),
        **more,
    }


def settings_mark(owner: str, text: str) -> Mark:
    return Mark(Role.SETTINGS, MarkKind.FILE, f"digest of {text}", 0o644, text.encode(), owner)


def pointer(text: str) -> dict[str, Mark]:
    """A file in the place of a `.git`."""
    content = f"gitdir: {text}\n".encode()
    return {"/ws/t/.git": Mark(Role.REPOSITORY, MarkKind.FILE, "x", content=content)}


def shared(owner: str, text: str = "../..") -> dict[str, Mark]:
    """What says that a repository's settings lie elsewhere."""
    content = f"{text}\n".encode()
    return {f"{owner}/commondir": Mark(Role.COMMON_FOLDER, MarkKind.FILE, "x", content=content, owner=owner)}


def undone(before, after) -> list[str]:
    return [change.path for change in changes_to_undo(before, after)]


HOOK = Mark(Role.HOOK, MarkKind.FILE, "x", 0o755, b"x", "/ws/r")
LINK = Mark(Role.HOOK, MarkKind.LINK, "/ws/x", owner="/ws/r")
OURS = Mark(Role.OURS, MarkKind.FOLDER)
REPOSITORY = repository("/ws/.git")
PART = {**REPOSITORY, **repository("/ws/.git/worktrees/t"), **shared("/ws/.git/worktrees/t")}
CASES = {
    "a new repository": ({}, repository(config=HARMLESS[0]), []),
    "one with a program in its settings": ({}, repository(config=HARMFUL[0]), ["/ws/r/config"]),
    "one with settings that are too large to look at": (
        {},
        repository(**{"/ws/r/config": Mark(Role.SETTINGS, MarkKind.FILE, "x")}),
        ["/ws/r/config"],
    ),
    "one with a hook": ({}, repository(**{"/ws/r/hooks/pre-push": HOOK}), ["/ws/r/hooks/pre-push"]),
    "a hook more": (repository(), repository(**{"/ws/r/hooks/pre-push": HOOK}), ["/ws/r/hooks/pre-push"]),
    "a link for the hooks": (repository(), repository(**{"/ws/r/hooks": LINK}), ["/ws/r/hooks"]),
    "hooks for none": (
        {"/ws/r": Mark(Role.REPOSITORY, MarkKind.FOLDER)},
        {"/ws/r": Mark(Role.REPOSITORY, MarkKind.FOLDER), "/ws/r/hooks": LINK},
        ["/ws/r/hooks"],
    ),
    "other settings": (repository(), repository(config="[user]\n\tname = x\n"), ["/ws/r/config"]),
    "a lost hook": (repository(**{"/ws/r/hooks/pre-push": HOOK}), repository(), ["/ws/r/hooks/pre-push"]),
    "a deleted repository": (repository(**{"/ws/r/hooks/pre-push": HOOK}), {}, []),
    "a link for a repository": ({}, {"/ws/.git": Mark(Role.REPOSITORY, MarkKind.LINK, "/srv")}, ["/ws/.git"]),
    "a pointer to a part of one": (REPOSITORY, {**PART, **pointer("../.git/worktrees/t")}, []),
    "an absolute pointer": (REPOSITORY, {**PART, **pointer("/ws/.git/worktrees/t")}, []),
    "a pointer to elsewhere": (
        REPOSITORY,
        {**PART, **pointer("../.git/worktrees/../../evil")},
        ["/ws/t/.git"],
    ),
    "a pointer that climbs behind what may be a link": (
        REPOSITORY,
        {**PART, **pointer("../.git/worktrees/link/../t")},
        ["/ws/t/.git"],
    ),
    "a pointer to what nobody looked at": (
        REPOSITORY,
        {**PART, **pointer("../.git/worktrees/t/logs/evil")},
        ["/ws/t/.git"],
    ),
    "a pointer with a line's end too many": (
        REPOSITORY,
        {**PART, **pointer("../.git/worktrees/t\r")},
        ["/ws/t/.git"],
    ),
    "settings elsewhere": (
        {},
        shared("/ws/r", "../evil"),
        ["/ws/r/commondir"],
    ),
    "settings of the repository around it": (
        {},
        {**repository("/ws/.git"), **shared("/ws/.git/worktrees/t")},
        [],
    ),
    "settings around it of what is no repository": (
        {},
        {**repository("/ws/a/b/part"), **shared("/ws/a/b/part")},
        ["/ws/a/b/part/commondir"],
    ),
    "a configuration of ours": ({}, {"/ws/.leeward": OURS}, ["/ws/.leeward"]),
    "a lost configuration of ours": ({"/ws/.leeward": OURS}, {}, ["/ws/.leeward"]),
    "a protected place": (
        {},
        {"/home/ada/.zshrc": Mark(Role.PROTECTED, MarkKind.FILE, "x")},
        ["/home/ada/.zshrc"],
    ),
    "nothing": (repository(), repository(), []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_must_be_undone(name):
    before, after, expected = CASES[name]
    assert undone(before, after) == expected


def test_a_folder_comes_before_what_it_holds():
    changes = undone({}, {"/ws/.leeward/config.toml": Mark(Role.OURS, MarkKind.FILE), "/ws/.leeward": OURS})
    assert changes == ["/ws/.leeward", "/ws/.leeward/config.toml"]


def test_on_trial_the_workspace_alone_is_changed_whatever_is_configured():
    wished = Sandboxing(network=True, extra_read=("/srv/read",), extra_write=("/srv/more", "/srv/ws/out"))
    policy = Policy("/srv/ws", "/home/ada", sandbox=wished, allowed_paths=("/srv",))
    prefixes = ("/srv/ws/venv", "/srv/more/python", "/opt/python")
    trial = trial_confinement(confinement_of(policy, prefixes, "/run/resolve"))
    assert (trial.writable, trial.kept) == (("/srv/ws",), ("/srv/ws/venv",))
    assert (trial.network, trial.resolver) == (False, None)
    assert {"/srv/read", "/srv/more/python", "/opt/python"} <= {*trial.readable}
    assert not {"/srv/more", "/srv", "/srv/ws/out"} & {*trial.readable}
    arguments = confine.bubblewrap_arguments(trial, Masks(), "/srv/ws")
    assert [word for word, before in zip(arguments[1:], arguments) if before == "--bind"] == ["/srv/ws"]
    assert "--share-net" not in arguments


def test_no_argument_of_a_call_gets_in():
    """All that a sandbox is told follows from the policy and the disk."""
    assert {"Action", "Cleared", "Atom"}.isdisjoint(vars(confine))
