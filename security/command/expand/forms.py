"""How else would somebody who forbids a command say it?

Whoever forbids `git push` means `git -C . push` and `/usr/bin/git push`, too. So actions are said once more
without what stands between a program and its sub-command; nothing is allowed by that.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..programs import without_globals
from ..syntax import literal

__all__ = ["has_verbs", "plain_forms"]

_MOST = 4
_PYTHONS = ("python", "pypy")

# Programs whose first operand is a verb, and which take options in front of it.
_HAVE_VERBS = frozenset(
    "apt apt-get aws az brew bun bundle cargo composer conda dnf docker dotnet flyctl gcloud gh glab go "
    "gradle helm heroku jj hg kubectl mise mvn npm oc pip pip3 pipx pnpm podman poetry rustup snap svn "
    "systemctl terraform tofu uv vagrant yarn yum zypper".split()
)


def has_verbs(program: str) -> bool:
    """Whether the first operand of a program says what it does."""
    return program in _HAVE_VERBS


def plain_forms(argv: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return an action as it would be forbidden, where that is not how it stands there."""
    name, rest = argv[0].rpartition("/")[2], argv[1:]
    found = [(name, *rest)]
    if name == "git":
        found.append((name, *without_globals(tuple(map(literal, rest)))))
    elif name in _HAVE_VERBS:
        found += [(name, *verb) for verb in _verbs(rest)]
    elif name.startswith(_PYTHONS) and "-m" in rest[:-1]:
        found += [form for form in (rest[rest.index("-m") + 1 :],) if form]
    return tuple(dict.fromkeys(form for form in found if form != argv))


def _verbs(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield what may be the verb and all behind it: a word behind an option may be the option's value."""
    at, after_option = 0, False
    for _ in range(_MOST):
        while at < len(words) and words[at].startswith("-"):
            after_option = "=" not in words[at]
            at += 1
        if at >= len(words):
            return
        yield words[at:]
        if not after_option:
            return
        at, after_option = at + 1, False
