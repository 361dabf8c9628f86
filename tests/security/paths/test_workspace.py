"""Where a path lies, which files are secret, and which must not be changed: both ways."""

from __future__ import annotations

import posixpath
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Unreadable
from leeward.security.paths import (
    ResolvedPath,
    could_be_path,
    is_inside,
    locate,
    protected_places,
    protected_reason,
    secret_places,
    secret_reason,
)

LOCATED = {
    "a.txt": "/ws/a.txt",
    "./a.txt": "/ws/a.txt",
    "src//lib/./x.py": "/ws/src/lib/x.py",
    "src/../a.txt": "/ws/a.txt",
    ".": "/ws",
    "/ws/a": "/ws/a",
    "//etc/passwd": "/etc/passwd",
    "///etc/passwd": "/etc/passwd",
    "/ws/../etc": "/etc",
    "/ws/a/../../etc": "/etc",
    "/../../etc": "/etc",
    "..": "/",
    "../ws-evil/x": "/ws-evil/x",
    "../../../../etc/passwd": "/etc/passwd",
    "~": "/home/ada",
    "~/x": "/home/ada/x",
    "~/../bob/x": "/home/bob/x",
    "a~b": "/ws/a~b",
    "~/~/x": "/home/ada/~/x",
    "~5": "/ws/~5",
    "~ x": "/ws/~ x",
    "$HOME/x": "/ws/$HOME/x",
    "%2e%2e/x": "/ws/%2e%2e/x",
    " /etc/passwd": "/ws/ /etc/passwd",
    "a\\..\\b": "/ws/a\\..\\b",
    "naïve/日本.txt": "/ws/naïve/日本.txt",
}


@pytest.mark.parametrize(("raw", "text"), LOCATED.items(), ids=LOCATED)
def test_a_path_is_located_by_its_text(make, raw: str, text: str) -> None:
    place = locate(raw, make.policy())
    assert place == ResolvedPath(
        text, text, escaped=not raw.startswith(("/", "~")) and not is_inside(text, "/ws")
    )


@pytest.mark.parametrize("raw", ["", "~root/x", "~root", "~bob", "~_x/y", "a\0b", "/etc/passwd\0.txt"])
def test_what_cannot_be_told_is_unreadable(make, raw: str) -> None:
    assert isinstance(locate(raw, make.policy()), Unreadable)


@given(st.text(st.sampled_from("./~a\\%2e \n"), max_size=20))
@example("//..//")
@example("~/..")
def test_a_located_path_is_normal_and_reads_the_same_again(make, raw: str) -> None:
    place = locate(raw, make.policy())
    if isinstance(place, ResolvedPath):
        assert place.text.startswith("/") and not place.text.startswith("//")
        assert posixpath.normpath(place.text) == place.text
        assert locate(place.text, make.policy()) == ResolvedPath(place.text, place.text)
        assert not place.escaped or not is_inside(place.text, "/ws")


@pytest.mark.parametrize(
    ("path", "roots", "inside"),
    [
        ("/ws", ("/ws",), True),
        ("/ws/a", ("/ws",), True),
        ("/ws/a", ("/ws/",), True),
        ("/ws", ("/ws/",), True),
        ("/ws-evil", ("/ws",), False),
        ("/ws-evil/a", ("/ws",), False),
        ("/w", ("/ws",), False),
        ("/", ("/ws",), False),
        ("/a", ("/",), True),
        ("/", ("/",), True),
        ("/a", ("",), False),
        ("/a", (), False),
        ("/b/c", ("/a", "/b"), True),
        ("/wS/a", ("/ws",), False),
    ],
)
def test_inside_means_whole_components(path: str, roots, inside: bool) -> None:
    assert is_inside(path, *roots) is inside


COULD_BE = [
    "/",
    "/etc",
    "~",
    "~/x",
    "~bob/x",
    ".",
    "..",
    "./x",
    ".env",
    "../x",
    "a/../b",
    "a/..",
    "a\\..\\b",
    "..\\x",
    "%2e%2e/x",
    "x/%2E%2e%2fy",
    "a%252f%252e%252e%252fb",
]
COULD_NOT = [
    "",
    "x",
    "a/b",
    "and/or",
    "wait.. what",
    "a...b",
    "1..2",
    "~5 minutes",
    "~ about",
    "http://x",
    "50%",
    "a ..",
    "x..y/z",
    "km/h",
    "-/x",
    "(/x)",
]


@pytest.mark.parametrize("text", COULD_BE)
def test_what_could_be_a_path(text: str) -> None:
    assert could_be_path(text)


@pytest.mark.parametrize("text", COULD_NOT)
def test_what_could_not(text: str) -> None:
    assert not could_be_path(text)


SECRET = [
    "/home/ada/.ssh", "/home/ada/.ssh/config", "/home/ada/.ssh/id_ed25519", "/home/ada/.aws/credentials", "/home/ada/.gnupg/x/y", "/home/ada/.kube/config",
    "/home/ada/.docker/config.json", "/home/ada/.config/gh/hosts.yml", "/home/ada/.config/gcloud/x", "/home/ada/.netrc", "/home/ada/.npmrc", "/home/ada/.pypirc",
    "/home/ada/.git-credentials", "/home/ada/.cargo/credentials.toml", "/home/ada/.mozilla/firefox/p/logins.json", "/home/ada/.password-store/a.gpg",
    "/home/ada/.oci/config", "/home/ada/.oci", "/ws/deploy/.oci/key", "/home/ada/.config/rclone/rclone.conf", "/home/ada/.config/doctl/config.yaml", "/home/ada/.terraform.d/credentials.tfrc.json", "/home/ada/.config/hub",
    "/home/ada/.config/op/config", "/home/ada/.fly/config.yml", "/home/ada/.databrickscfg", "/home/ada/.snowflake/config.toml", "/home/ada/.gem/credentials", "/home/ada/.vault-token", "/ws/.vault-token", "/home/ada/.s3cfg", "/ws/.boto",
    "/home/ada/.config/helm/registry/config.json", "/home/ada/.claude/.credentials.json", "/home/ada/snap/firefox/common/x", "/home/o/.var/app/com.google.Chrome/config/x", "/home/ada/.my.cnf", "/home/ada/.mylogin.cnf", "/home/ada/.config/containers/auth.json", "/home/ada/Library/Cookies/x",
    "/ws/.env", "/ws/.env.local", "/ws/app/.env.production", "/ws/.ENV", "/ws/id_rsa", "/ws/keys/id_ed25519", "/ws/id_ecdsa_sk", "/ws/server.key", "/ws/a.p12",
    "/ws/a.pfx", "/ws/a.kdbx", "/ws/store.jks", "/ws/.netrc", "/ws/.htpasswd", "/ws/a\nb.key", "/mnt/ssh_host_rsa_key",
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d/x", "/etc/ssl/private/x.pem", "/run/secrets/token", "/var/run/secrets/kubernetes.io/x",
    "/proc/self/environ", "/proc/1/environ", "/proc/1/root/etc/passwd", "/proc/self/fd/3", "/proc/thread-self/mem", "/proc/1/task/1/environ", "/proc/self/cwd",
    "/dev/mem", "/dev/sda", "/dev", "/keys/leeward.sqlite", "/keys",
    "/ws/.env~", "/ws/#.env#", "/ws/.env-prod", "/ws/.env_prod", "/ws/prod.env", "/ws/.envrc", "/ws/.env.swp", "/ws/..env.swp", "/ws/.env (1)", "/ws/.env copy", "/ws/.envrc.bak",
    "/ws/id_rsa~", "/ws/id_rsa.bak", "/ws/id_rsa.bak~", "/ws/id_rsa.~3~", "/ws/.id_rsa.swp", "/ws/id_rsa_work", "/ws/id_ed25519-github", "/ws/id_rsa.old.orig", "/ws/id_rsa.pem", "/ws/ID_RSA.BAK",
    "/ws/server.key~", "/ws/server.key.bak", "/ws/server.key_old", "/ws/server.key.1", "/ws/privkey.pem", "/ws/server-key.pem", "/ws/.npmrc", "/ws/.npmrc~", "/ws/.netrc.save",
    "/ws/.ssh/config", "/ws/a/.SSH/known_hosts", "/ws/.aws/credentials", "/ws/.aws/credentials~", "/ws/deploy/.docker/config.json", "/ws/.kube/config", "/ws/.gnupg/x",
    "/root/.aws/credentials", "/root/.aws/x", "/home/o/.ssh/authorized_keys", "/home/o/.docker/x", "/Users/o/Library/Keychains/x", "/home/o/.config/gh/hosts.yml", "/srv/o/.config/gcloud/x",
]  # fmt: skip
NOT_SECRET = [
    "/home/ada/.terraform.d/plugins/x", "/home/ada/.claude/settings.json", "/home/ada/.config/helm/values.yaml", "/ws/setup.cfg", "/ws/boto.py", "/ws/token.py", "/ws/snap/x", "/home/ada/snap/code/x", "/home/ada/.gem/specs", "/home/ada/.mc/x",
    "/ws", "/ws/a.txt", "/ws/.env.example", "/ws/.env.sample", "/ws/.env.template", "/ws/.environment", "/ws/env", "/ws/.env.example~", "/ws/#.env.example#", "/ws/.env-sample", "/ws/example.env", "/ws/.envrc.example", "/ws/process.env", "/ws/import.meta.env", "/ws/environment.ts", "/ws/src/environ", "/ws/id_rsa.pub",
    "/ws/id_card.png", "/ws/keyboard.md", "/ws/key", "/ws/monkey", "/ws/a.key.md", "/ws/id_rsa.pub~", "/ws/id_rsa_work.pub", "/ws/id_rsa_test.py", "/ws/keys.md~", "/ws/public-key.pem", "/ws/ca.pem", "/ws/monkey.pem", "/ws/npmrc.md", "/ws/notes.txt~", "/ws/#notes#", "/ws/.notes.swp", "/ws/~", "/ws/##", "/ws/.aws/task-definition.json", "/ws/.kube/deployment.yml", "/ws/.config/app.toml", "/ws/cargo/credentials", "/home", "/home/o", "/root", "/home/o/notes.md", "/ws/.ssh-notes.md", "/ws/ssh/config", "/ws/.docker/Dockerfile", "/home/ada/ssh/x",
    "/home/ada/.sshrc", "/home/ada/.bashrc", "/home/ada/.config/ghost/x", "/home/ada/notes.md", "/etc/hosts", "/etc/passwd", "/etc/shadowsocks.json", "/etc/ssl/certs/ca.pem",
    "/proc/cpuinfo", "/proc/self/status", "/proc/meminfo", "/dev/null", "/dev/zero", "/dev/shm/x", "/developer/x", "/keysmith", "/run/user/1000/x",
]  # fmt: skip
PROTECTED = [
    "/ws/.leeward", "/ws/.leeward/config.toml", "/ws/sub/.leeward/x", "/ws/.git/hooks/pre-commit", "/ws/.git/config", "/ws/.git/HEAD", "/ws/.git/info/attributes",
    "/ws/vendor/lib/.git/hooks/x", "/ws/.git/modules/a/hooks/x", "/ws/.git/objects/aa/bb", "/ws/.git", "/home/ada/.bashrc", "/home/ada/.profile", "/home/ada/.zshenv",
    "/home/ada/.gitconfig", "/home/ada/.vimrc", "/home/ada/.config/systemd/user/x.service", "/home/ada/.config/autostart/x.desktop", "/home/ada/.config/git/config",
    "/home/ada/.config/fish/config.fish", "/home/ada/.local/bin/ls", "/etc/hosts", "/etc/cron.d/x", "/usr/bin/ls", "/bin/sh", "/lib/x.so", "/boot/x", "/sys/x", "/proc/sys/kernel/x",
    "/var/spool/cron/root", "/app/leeward.py", "/app",
    "/ws/.git/commondir", "/ws/.git/config.worktree", "/ws/.git/index", "/ws/.git/packed-refs", "/ws/.git/anything/new", "/ws/.GIT/commondir", "/ws/sub/.Git", "/ws/.git/.git/x", "/ws/.Leeward/config.toml", "/tmp/x/.git/index.lock",
]  # fmt: skip
NOT_PROTECTED = [
    "/ws", "/ws/a.py", "/ws/.gitignore", "/ws/.gitattributes", "/ws/.gitmodules", "/ws/repo.git/config", "/ws/.git.md", "/ws/x.leeward", "/ws/.github/workflows/ci.yml", "/ws/hooks/x", "/ws/git/hooks/x", "/ws/.git-hooks/x", "/ws/leeward/x", "/ws/.leeward.md",
    "/ws/etc/hosts", "/ws/usr/bin/x", "/ws/.bashrc", "/home/ada/dotfiles/.bashrc", "/home/ada/bashrc", "/home/ada/.config/nvim/init.lua", "/home/ada/.local/share/x", "/tmp/x",
    "/etcetera/x", "/usrlocal/x", "/var/log/x", "/dev/null", "/dev/shm/x", "/application/x",
]  # fmt: skip


@pytest.fixture(scope="module")
def held(make):
    return make.policy(secret_paths=("/keys",), protected_paths=("/app",))


@pytest.mark.parametrize("path", SECRET)
def test_secret_files(held, path: str) -> None:
    assert secret_reason(path, held)


@pytest.mark.parametrize("path", NOT_SECRET)
def test_files_that_are_not_secret(held, path: str) -> None:
    assert secret_reason(path, held) is None


@pytest.mark.parametrize("path", PROTECTED)
def test_protected_files(held, path: str) -> None:
    assert protected_reason(path, held)


@pytest.mark.parametrize("path", NOT_PROTECTED)
def test_files_that_may_be_changed(held, path: str) -> None:
    assert protected_reason(path, held) is None


def test_a_workspace_below_a_system_folder_is_still_a_workspace(make) -> None:
    held = make.policy(workspace="/usr/src/app", home="/root")
    assert protected_reason("/usr/src/app/main.py", held) is None
    assert protected_reason("/usr/src/app/.git/hooks/x", held)
    assert protected_reason("/usr/src/other/main.py", held)
    assert secret_reason("/root/.ssh/id_rsa", held)


@pytest.mark.parametrize(
    "name",
    [
        ".swp" * 60,
        "." * 100 + "x" + ".swp" * 35,
        "~" * 250,
        "#" * 250,
        ".bak" * 63,
        ".key" * 100_000,
        "x" * 200_000 + ".env",
        "a.1" * 80,
    ],
)
def test_no_name_takes_time(held, name: str) -> None:
    began = time.process_time()
    secret_reason(f"/ws/{name}", held)
    assert time.process_time() - began < 0.5


DENIED = {
    "deny_read": ("*.pem", "private/**", "~/diary", "/srv/data"),
    "allow_read": ("tests/**", "docs/sample.key", "private/**"),
}


@pytest.mark.parametrize(
    "path",
    [
        "/ws/a.pem", "/ws/A.PEM", "/srv/x/b.pem", "/ws/private", "/ws/private/a", "/ws/Private/A", "/home/ada/diary/x", "/srv/data/x", "/srv/DATA", "/ws/tests/a.pem", "/ws/private/x.key", "/ws/.env",
        "/ws/docs/other.key", "/ws/docs/Sample.key", "/home/ada/.ssh/x", "/keys/x", "/ws/tests/.ssh/id_rsa", "/ws/priv\u200bate/a",
    ],
)  # fmt: skip
def test_what_the_person_says_is_not_read(make, path: str) -> None:
    assert secret_reason(path, make.policy(secret_paths=("/keys",), **DENIED))


@pytest.mark.parametrize(
    "path",
    [
        "/ws/tests/server.key",
        "/ws/tests/.env",
        "/ws/tests/deep/id_rsa",
        "/ws/docs/sample.key",
        "/ws/a.pem.md",
        "/ws/privately/a",
        "/srv/database",
        "/home/bob/diary",
        "/home/ada/diaries",
        "/ws/a.txt",
    ],
)
def test_what_the_person_says_is_read(make, path: str) -> None:
    assert secret_reason(path, make.policy(secret_paths=("/keys",), **DENIED)) is None


def test_what_is_lifted_is_never_the_data_folder_nor_what_the_person_denied(make) -> None:
    held = make.policy(
        secret_paths=("/ws/data",), deny_read=("*.key",), allow_read=("**", "*", "/ws/data/**", "*.key")
    )
    assert (
        secret_reason("/ws/data/leeward.db", held)
        and secret_reason("/ws/DATA/x", held)
        and secret_reason("/ws/a.key", held)
    )
    assert (
        secret_reason("/home/ada/.ssh/id_rsa", held)
        and secret_reason("/etc/shadow", held)
        and secret_reason("/proc/self/environ", held)
    )
    assert secret_reason("/ws/.env", held) is None


FOLDED_SECRET = [
    "/KEYS/x",
    "/home/ADA/.SSH/id_rsa",
    "/HOME/ada/.aws/x",
    "/ws/.s\u200bsh/x",
    "/ETC/shadow",
    "/Proc/self/environ",
]
FOLDED_PROTECTED = [
    "/APP/x",
    "/ws/.G\u200cIT/hooks/x",
    "/home/Ada/.BASHRC",
    "/home/ada/.Config/Fish/x",
    "/ETC/hosts",
    "/ws/.leeward\ufeff/x",
]


@pytest.mark.parametrize("path", FOLDED_SECRET)
def test_other_spellings_are_as_secret(held, path: str) -> None:
    assert secret_reason(path, held)


@pytest.mark.parametrize("path", FOLDED_PROTECTED)
def test_other_spellings_are_as_protected(held, path: str) -> None:
    assert protected_reason(path, held)


def test_the_places_that_hold_secrets_or_stay_as_they_are_can_be_listed(held) -> None:
    assert {"/keys", "/home/ada/.ssh", "/home/ada/.mozilla"} <= set(secret_places(held))
    assert {"/app", "/ws/.git", "/ws/.leeward", "/home/ada/.bashrc", "/home/ada/.config/fish"} <= set(
        protected_places(held)
    )
    assert all(secret_reason(f"{place}/x", held) for place in secret_places(held))
    assert all(protected_reason(place, held) for place in protected_places(held))
