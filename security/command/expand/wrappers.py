"""Programs that run others: where among their words the inner command begins, and other spellings of it.

The table is `wrappers.toml`; `unwrap.py` reads what is run in turn. A rule against `git push` also means
`git -C . push` and `/usr/bin/git push`, so actions are repeated without the words between a program and
its sub-command; nothing is allowed by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...lazy import dataclass, regex
from ..programs import Parsed, lines_of, parse_options, without_globals
from ..syntax import Assignment, Word, is_harmless, literal

__all__ = [
    "Wrapper",
    "added_by_wrapper",
    "behind_a_value",
    "has_verbs",
    "parsed_of",
    "plain_forms",
    "split_string",
    "unversioned",
    "wrapper_of",
]


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
    """Return an action in the form in which it would be forbidden, if that differs from its own."""
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


_SHELLS = frozenset("sh bash dash zsh ksh mksh ash rbash posh yash".split())
_SPLIT = regex(r"-(?P<flags>[iv0]*)S|--split-string(?P<mark>=?)")
_PLAIN_WORDS = regex(r"[A-Za-z0-9_@%+=:,./ -]+")
_VERSION = regex(r"(?<=[A-Za-z])[0-9.]+$")
_ERROR_SETTINGS = frozenset("errexit nounset pipefail xtrace".split())


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A line of the table, with its defaults."""

    runs: str
    options: str = ""
    operands: int = 0
    code: tuple[str, ...] = ()
    spelled: str = ""
    assigns: bool = False
    given: bool = False
    fed: bool = False
    script: tuple[str, ...] = ()
    unless: str = ""
    lenient: bool = False
    privilege: bool = False
    quiet: str | None = None


@lru_cache(maxsize=1)
def _wrappers() -> dict[str, Wrapper]:
    found = {}
    for name, line in lines_of("wrappers.toml").items():
        fields: dict[str, Any] = dict(line)
        for key in ("code", "script"):
            fields[key] = tuple(fields.get(key, "").split())
        found[name] = Wrapper(**fields)
    return found


def wrapper_of(program: str, words: tuple[Word, ...]) -> Wrapper | None:
    """Return what the table says of a program, or of it with its first word, or None."""
    wrappers = _wrappers()
    if program in _SHELLS:
        return wrappers["sh"]
    if len(words) > 1 and (found := wrappers.get(f"{program} {words[1].text}")):
        # The sub-command is in the place of an operand; it is skipped like one.
        return replace(found, operands=found.operands + 1)
    return wrappers.get(program) or wrappers.get(unversioned(program))


def unversioned(program: str) -> str:
    """Return a program's name without a version at its end (`python3.11`)."""
    return _VERSION.sub("", program)


def parsed_of(words: tuple[Word, ...], found: Wrapper) -> Parsed:
    """Return a wrapper's own options, and as operands all words behind them."""
    is_runner = len(words) > 1 and f"{words[0].text.rpartition('/')[2]} {words[1].text}" in _wrappers()
    if is_runner or (found.operands and found.lenient and words[1:] and not words[1].text.startswith("-")):
        # The sub-command of a runner comes before the runner's own options.
        parsed = parse_options(words[2:], found.options, stops=True)
        return replace(parsed, operands=(words[1], *parsed.operands))
    return parse_options(words[1:], found.options, stops=True)


def behind_a_value(words: tuple[Word, ...], first: Word) -> tuple[Word, ...]:
    """Return what is run if the word taken for a program is the value of the unknown option before it."""
    at = next((at for at, word in enumerate(words) if word is first), 1)
    before = words[at - 1].text
    if not before.startswith("-") or "=" in before or before == "--":
        return ()
    rest = words[at + 1 :]
    while rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    return rest


def split_string(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """Return how `env` calls itself again once it has split the value of `-S`, where that is plain words."""
    for at, word in enumerate(words[1:], 1):
        found = _SPLIT.match(word.text)
        if found is None and not word.text.startswith("-"):
            return None
        if found is not None:
            rest = words[at + 1 :]
            text = word.text[found.end() :]
            if found["mark"] != "=" and not text and rest:
                text, rest = rest[0].text, rest[1:]
            flags = (literal(f"-{found['flags']}"),) if found["flags"] else ()
            if _PLAIN_WORDS.fullmatch(text) is None:
                return None
            return (*words[:at], *flags, *map(literal, text.split()), *rest)
    return None


_PLAIN = frozenset({"sh", "bash", "dash"})


def added_by_wrapper(program: str, words: tuple[Word, ...]) -> Word | None:
    """Return the word by which a wrapper does more than run something, or None.

    Only the options the table calls quiet add nothing; another could read, write, move, or change how
    what follows is taken. What is no such wrapper does more by its name.
    """
    found = wrapper_of(program, words)
    if found is None or found.quiet is None or (found.runs == "shell" and program not in _PLAIN):
        return words[0]
    parsed = parse_options(words[1:], found.quiet, stops=True)
    if parsed.unknown is not None:
        return parsed.unknown
    for name, value, _ in parsed.options:
        if value is not None and (not value.is_literal or not _is_plain(program, name, value.text)):
            return value
    for word in parsed.operands:
        name, mark, text = word.text.partition("=")
        if not found.assigns or not mark:
            break
        if not is_harmless(Assignment(name, literal(text))):
            return word
    return None


def _is_plain(program: str, name: str, value: str) -> bool:
    """Whether the value of an option changes nothing; a shell's `-o` may only say how errors end it."""
    return program not in _PLAIN or name != "-o" or value in _ERROR_SETTINGS
