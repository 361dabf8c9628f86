"""Further conditions under which a program of `programs.toml` only reads; each is named there.

A condition sees the parsed options and operands and says whether it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..syntax import Word
from .awk_sed import awk_is_pure, sed_is_pure
from .find import find_only_looks
from .options import Parsed

__all__ = ["CHECKS", "Check"]

Check = Callable[[tuple[Word, ...], Parsed], bool]
"""Takes the words, program included, and what was parsed of them."""

_NAME = re.compile(r"[a-z_][a-z0-9_]*|REPLY")
_FILTER_POWER = re.compile(
    r"\b(?:import|include|modulemeta|input_filename|env|getpath_file)\b|\$(?:ENV|__prog|[\s#])"
)
_NETWORK_OBJECTS = frozenset("a ad addr address addrs l li link n ne neigh r ro route ru rule maddr".split())
_NETWORK_WORDS = frozenset("show list ls dev up scope global link".split())
_APT_QUERIES = frozenset("list show search policy showpkg depends rdepends madison stats pkgnames".split())
_PIP_QUERIES = frozenset("list show freeze check".split())


def _numbers(words: tuple[Word, ...], parsed: Parsed) -> bool:
    return (
        all(re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", word.text) for word in parsed.operands) and len(words) < 4
    )


def _plain_words(_: tuple[Word, ...], parsed: Parsed) -> bool:
    return all(re.fullmatch(r"[A-Za-z0-9:=.,*-]+", word.text) for word in parsed.operands)


def _compares(words: tuple[Word, ...], parsed: Parsed) -> bool:
    """A test whose operators are literal, so that no value can become one that evaluates its operand."""
    del parsed
    inside = words[1:-1] if words[0].text == "[" else words[1:]
    if words[0].text == "[" and words[-1].text != "]":
        return False
    if any(word.text in {"-v", "-R"} for word in inside):
        return False
    inside = inside[1:] if inside and inside[0].text == "!" else inside
    if any(
        part.kind not in {"literal", "glob"} and not part.quoted for word in inside for part in word.parts
    ):
        return False
    positions = {0: (), 1: (), 2: (0,), 3: (1,)}.get(len(inside))
    if positions is None:
        return all(word.is_literal for word in inside)
    return all(inside[at].is_literal for at in positions)


def _sets_errors(words: tuple[Word, ...], parsed: Parsed) -> bool:
    del parsed
    return all(re.fullmatch(r"[-+][eux]*o?|errexit|nounset|pipefail|xtrace", word.text) for word in words[1:])


def _lists_archive(words: tuple[Word, ...], parsed: Parsed) -> bool:
    if words[0].text.endswith("tar"):
        return parsed.has("-t", "--list")
    return (
        parsed.has("-l", "-t", "-v", "-Z", "--list")
        if words[0].text == "unzip"
        else parsed.has("-l", "--list")
    )


def _process_options(words: tuple[Word, ...], parsed: Parsed) -> bool:
    """The BSD options of `ps`, except the one that shows environments.

    What `ps` cannot read in one way it reads again as if no word began with a dash, so an `e` is only
    taken where nothing else could be meant.
    """
    texts = [word.text for word in words[1:]]
    formats = [
        value.text for name, value, _ in parsed.options if name in {"-o", "--format"} and value is not None
    ]
    if any("env" in text.lower() for text in formats):
        return False
    if not all(re.fullmatch(r"[acfghjlrTuvwx]+|\d+", word.text) for word in parsed.operands):
        return False
    shows_all = any(re.match(r"-[^-]*e", text) for text in texts)
    numbers = all(re.fullmatch(r"[\d,]+|root", value) for value in _of_whom(parsed))
    return numbers and (not shows_all or all(map(_is_plain_ps, texts)))


def _of_whom(parsed: Parsed) -> list[str]:
    named = {"-p", "-u", "-U", "-t", "-g", "-G", "--pid", "--ppid", "--user"}
    return [value.text for name, value, _ in parsed.options if name in named and value is not None]


def _is_plain_ps(text: str) -> bool:
    """Whether a word is one that every `ps` takes for what it seems."""
    return (
        re.fullmatch(r"-[AadefFljLcyPTwHM]+|-[AadefFljLcyPTwHM]*[oC]", text) is not None
        or re.fullmatch(r"--(?:sort|forest|no-headers|headers)(?:=.*)?", text) is not None
        or re.fullmatch(r"[a-z%_]+(?:,[a-z%_]+)+|pid|ppid|cmd|comm|args|user|stat|etime", text) is not None
    )


def _dumps_one(words: tuple[Word, ...], parsed: Parsed) -> bool:
    """`xxd` reads each of its options by itself and never joined."""
    options = [word.text for word in words[1:] if word.text.startswith("-") and word.text != "-"]
    return len(parsed.operands) <= 1 and all(
        re.fullmatch(r"-[abeEiup]|-[cgslo]\d*", text) for text in options
    )


def _shows_network(words: tuple[Word, ...], parsed: Parsed) -> bool:
    # Its long options have one dash and may be cut short, so each is spelled out.
    options = [word.text for word in words[1:] if word.text.startswith("-")]
    if not all(re.fullmatch(r"-(?:4|6|s|d|o|br|brief|c|j|p|json|details|stats)", text) for text in options):
        return False
    texts = [word.text for word in parsed.operands]
    if not texts or texts[0] not in _NETWORK_OBJECTS:
        return False
    return len(texts) == 1 or (texts[1] in {"show", "list", "ls"} and all(map(_is_network_word, texts[2:])))


def _is_network_word(text: str) -> bool:
    return text in _NETWORK_WORDS or re.fullmatch(r"[a-z]{2,}[0-9a-z.-]*", text) is not None


def _first_in(names: frozenset[str]) -> Check:
    def check(_: tuple[Word, ...], parsed: Parsed) -> bool:
        if not parsed.operands:
            return parsed.has("--version", "-V")
        return parsed.operands[0].text in names

    return check


def _asks_packages(words: tuple[Word, ...], parsed: Parsed) -> bool:
    """Only names of packages: a path is a package that is read."""
    named = all("/" not in word.text and not word.text.endswith(".deb") for word in parsed.operands)
    return named and _first_in(_APT_QUERIES)(words, parsed)


def _format_first(words: tuple[Word, ...], _: Parsed) -> bool:
    """A literal format without `%n`, which sets a variable (PATH, for one)."""
    if len(words) < 2 or not words[1].is_literal or words[1].text.startswith("-"):
        return False
    return re.search(r"%[^A-Za-z%]*[hjlqtzL]*n", words[1].text) is None


def _one_folder(words: tuple[Word, ...], parsed: Parsed) -> bool:
    return len(parsed.operands) <= 1 and all(word.text != "-" for word in words)


def _only_numbers(_: tuple[Word, ...], parsed: Parsed) -> bool:
    """Nothing looks up names of hosts and ports, and no word is an option that begins with a plus."""
    plain = not any(word.text.startswith("+") for word in parsed.operands)
    return plain and parsed.has("-n") and parsed.has("-P")


CHECKS: dict[str, Check] = {
    "apt_query": _asks_packages,
    "at_most_one": lambda _, parsed: len(parsed.operands) <= 1,
    "dumps_one": _dumps_one,
    "batch": lambda _, parsed: parsed.has("-b") and parsed.has("-n"),
    "compares": _compares,
    "format_first": _format_first,
    "lists_archive": _lists_archive,
    "local_database": _first_in(frozenset("passwd group services protocols rpc shells".split())),
    "looks": lambda words, _: find_only_looks(words[1:]),
    "looks_up": lambda _, parsed: parsed.has("-v", "-V"),
    "man_names": lambda _, parsed: bool(parsed.options),
    "only_numbers": _only_numbers,
    "no_list_of_words": lambda words, _: not any(word.text.startswith("@") for word in words[1:]),
    "no_list_of_names": lambda _, parsed: all(word.text != "-" for word in parsed.operands),
    "no_network": lambda _, parsed: parsed.has("--nonet"),
    "numbers": _numbers,
    "one_folder": _one_folder,
    "pip_query": _first_in(_PIP_QUERIES),
    "plain_filter": lambda _, parsed: not (parsed.operands and _FILTER_POWER.search(parsed.operands[0].text)),
    "plain_names": lambda _, parsed: all(_NAME.fullmatch(word.text) for word in parsed.operands),
    "plain_words": _plain_words,
    "prints_date": lambda _, parsed: all(word.text.startswith("+") for word in parsed.operands),
    "process_options": _process_options,
    "pure_awk": lambda words, _: awk_is_pure(words),
    "pure_sed": lambda words, _: sed_is_pure(words),
    "queries": lambda _, parsed: bool(parsed.options),
    "queries_pacman": lambda _, parsed: parsed.has("-Q"),
    "sets_errors": _sets_errors,
    "shows_network": _shows_network,
}
"""The conditions by name."""
