"""Tell whether a search asks for secret files by their names.

Names alone are no secret in the workspace. Elsewhere a search for `id_rsa` or `*.pem` says where the keys of
this machine are, which is what a secret place is asked about by its own path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from ...paths import is_inside, secret_places, secret_reason
from ...policy import Policy
from ..expand import where
from ..programs import NameTest, Parsed, find_starts, find_terms, is_hit, tests_of
from ..syntax import Word, literal
from .paths import Objection, Scene

__all__ = ["sought_problem"]

# Names of secrets whatever stands for the stem, which no pattern spells.
_SAMPLES = tuple(
    "id_rsa id_dsa id_ecdsa id_ed25519 .env .netrc .pgpass .npmrc .pypirc .git-credentials .htpasswd .my.cnf "
    ".vault-token .s3cfg .ssh .gnupg .aws .azure .oci .kube .password-store ssh_host_\v_key \v.key key.pem "
    "privkey.pem \v.p12 \v.pfx \v.jks \v.keystore \v.kdbx \v.ppk credentials shadow gshadow".split(" ")
)
_OPEN = re.compile(r"\[[^\]]*\]|[*?]")
_SET_OF_ONE = re.compile(r"\[([^!^\]/])\]")
# A regular expression by its signs: a set, a count, what is escaped, a bracket, any other character.
_SIGN = re.compile(
    r"(?P<set>\[\^?\]?[^\]]*\])|(?P<count>\\?\{[0-9,]*\\?\}|\\?[+?]|\*)|\\(?P<plain>[^A-Za-z0-9<>'`()])"
    r"|(?P<bracket>\\?[()])|(?P<sign>\\.)|(?P<any>\.)|(?P<edge>[\^$])|(?P<char>.)",
    re.DOTALL,
)
# So much of a name must be spelled; of a word of everyday use more.
_SHORTEST, _SHORTEST_WORD = 2, 4
# Too long to look through, and longer than any name.
_LONGEST = 256
_TREES = frozenset({"tree", "exa", "eza"})


def sought_problem(words: tuple[Word, ...], parsed: Parsed, scene: Scene) -> Objection | None:
    """Say why a search outside of the workspace asks for secret files by name, or None."""
    program = words[0].text.rpartition("/")[2]
    patterns = [one for one in _sought(program, words, parsed) if _names_secret(one, scene.policy)]
    if not patterns or all(_lies_inside(start, scene) for start in _starts(program, words, parsed)):
        return None
    why = "a search outside of the workspace asks for secret files by name"
    return Objection("protected", why, patterns[0].pattern)


def _sought(program: str, words: tuple[Word, ...], parsed: Parsed) -> Iterator[NameTest]:
    """Yield the patterns of names a search asks for."""
    if program == "find":
        for term in find_terms(words[1:]):
            yield from _of_term(term)
    elif program in {"fd", "fdfind"}:
        for word in parsed.operands[:1]:
            is_plain = parsed.has("-g", "--glob")
            yield from [NameTest(word.text)] if is_plain else _of_regex(word.text)
        given = (value for name, value, _ in parsed.options if name in {"-e", "--extension"})
        yield from (NameTest(f"*.{value.text}") for value in given if value is not None)
    elif program == "locate":
        for word in parsed.operands:
            text = word.text if _OPEN.search(word.text) else f"*{word.text}*"
            yield NameTest(text, of_path=True)
    elif program in _TREES:
        given = (value for name, value, _ in parsed.options if name == "-P")
        yield from (NameTest(one) for value in given if value is not None for one in value.text.split("|"))


def _of_term(term: tuple[Word, ...]) -> Iterator[NameTest]:
    is_regex = term[0].text in {"-regex", "-iregex"}
    if len(term) > 1 and (is_regex or len(term[1].text) > _LONGEST):
        yield from _of_regex(term[1].text, is_whole=True)
        return
    if term[0].text in {"-lname", "-ilname", "-samefile"} and len(term) > 1:
        yield NameTest(term[1].text, of_path=True)
    yield from (test for test in tests_of(term) if test is not None)


def _of_regex(text: str, *, is_whole: bool = False) -> Iterator[NameTest]:
    """Yield the patterns of names that are nearest to a regular expression, which may have to match all."""
    if len(text) > _LONGEST:
        yield NameTest(text)
        return
    several = re.split(r"\\?\|", text)
    for at, one in enumerate(several):
        # What an alternative within brackets begins and ends with stands around these.
        is_open = at > 0 or not (is_whole or one.startswith("^")), at < len(several) - 1 or not is_whole
        is_open = is_open[0], is_open[1] and not one.endswith("$") and not (is_whole and text.endswith(")"))
        plain = _as_glob(one)
        yield NameTest(f"{'*' * is_open[0]}{plain}{'*' * is_open[1]}", of_path="/" in plain)


def _as_glob(regex: str) -> str:
    """Return a pattern of names that matches what a regular expression of any dialect does, or more."""
    found: list[str] = []
    for sign in _SIGN.finditer(regex):
        match sign.lastgroup:
            case "count":
                # None, one or more of what stands before it.
                found[-1:] = "*"
            case "plain" | "char":
                found.append(sign[sign.lastgroup])
            case "set":
                found.append(_SET_OF_ONE.sub(r"\1", sign[0]) if _SET_OF_ONE.fullmatch(sign[0]) else "?")
            case "any":
                found.append("?")
            case "bracket" | "edge":
                found.append("")
            case _:
                found.append("*")
    return "".join(found)


def _names_secret(test: NameTest, policy: Policy) -> bool:
    """Whether a pattern spells the name of a secret, or enough of one."""
    if len(test.pattern) > _LONGEST:
        return True
    pattern = _SET_OF_ONE.sub(r"\1", test.pattern)
    if any(_is_hit(name, policy) for name in pattern.split("/")):
        return True
    spelled = (_OPEN.sub(stem, pattern) for stem in ("x", ""))
    return any(secret_reason(posixpath.join("/", one.lstrip("/")), policy) is not None for one in spelled)


def _is_hit(name: str, policy: Policy) -> bool:
    """Whether the pattern of one name spells enough of a secret's."""
    run = max(map(len, _OPEN.split(name)), default=0)
    hidden = (posixpath.basename(place) for place in secret_places(policy))
    samples = (*_SAMPLES, *(one for one in hidden if one.rfind(".") == 0))
    needed = ((_SHORTEST_WORD if one.isalpha() else _SHORTEST, one) for one in samples)
    return any(run >= shortest and is_hit((NameTest(name),), one) for shortest, one in needed)


def _starts(program: str, words: tuple[Word, ...], parsed: Parsed) -> tuple[Word, ...]:
    if program == "find":
        return find_starts(words[1:])
    if program == "locate":
        return (literal("/"),)
    operands = parsed.operands[1:] if program in {"fd", "fdfind"} else parsed.operands
    return operands or (literal("."),)


def _lies_inside(word: Word, scene: Scene) -> bool:
    allowed = (scene.policy.workspace, *scene.policy.allowed_paths)
    found = where(word, scene.folders, scene.ground)
    paths = [one.path for one in found or () if not one.is_glob]
    real = [scene.facts.real.get(path) for path in paths]
    return (
        bool(found)
        and len(paths) == len(found or ())
        and all(one and is_inside(one, *allowed) for one in real)
    )
