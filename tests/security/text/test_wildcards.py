"""A pattern read token by token matches whatever a shell or `find` would match, and little more."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.text import WildcardToken, wildcard_expression, wildcard_tokens

LIBRARY = ctypes.CDLL(None)
PIECES = ["a", "b", "-", ".", "*", "?", "[", "]", "!", "^", "\\", ":", "[:alpha:]", "[.a.]", "[=a=]", "]a]"]
PATTERNS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
NAMES = st.text("ab.[]!^:\\-*?", max_size=5)
SHELLS = [name for name in ("bash", "dash", "zsh") if shutil.which(name)]


def matches(pattern: str, name: str) -> bool:
    return wildcard_expression(wildcard_tokens(pattern)).match(name) is not None


@given(PATTERNS, NAMES)
@example("[]", "[]")
@example("[!]", "[!]")
@example(r"[\]a]", "a")
@example(r"[\]a]", "]")
@example("[[:alpha:]", "[a")
@example("[[.].]]", "]")
@example("[[:a]b:]c]", "ab:]c]")
@example("[]a]", "a")
@example("[a", "[a")
@example("[*]", "*")
@example(r"\[a]", "[a]")
def test_what_the_library_of_the_system_matches_is_matched(pattern, name):
    if LIBRARY.fnmatch(pattern.encode(), name.encode(), 0) == 0:
        assert matches(pattern, name)


@pytest.mark.skipif(not SHELLS, reason="asks the shells that are installed")
def test_what_a_shell_matches_is_matched():
    """Every short pattern of the characters that shells read differently."""
    patterns = ["".join(found) for count in range(1, 5) for found in product("a[]!^\\", repeat=count)]
    patterns += [f"[[:alpha:]{end}" for end in ("", "]", "]a", "a")] + [
        "[[.].]]",
        "[[=a=]]",
        "[a-b]",
        "[!a-b]*",
    ]
    names = ["a", "[", "]", "!", "^", "\\", "[]", "[!]", "[a", "a]", "[a]", "aa", "[a-", "a]]", "!]"]
    pairs = [(pattern, name) for pattern in patterns for name in names]
    lines = "".join(f"{pattern}\n{name}\n" for pattern, name in pairs)
    case, rest = "case $n in $p) found=1;; esac", "echo $found"
    for shell in SHELLS:
        options = []
        if shell == "zsh":
            # It ends at a pattern it cannot read, unless that is caught.
            options, case, rest = (
                ["-o", "globsubst"],
                f"{{ {case} }} always {{ TRY_BLOCK_ERROR=0; }}",
                f"{rest}; true",
            )
        script = f"while IFS= read -r p && IFS= read -r n; do found=0; {case}; {rest}; done"
        told = subprocess.run(
            [shell, *options, "-c", script], input=lines, capture_output=True, text=True, check=True
        )
        found = [pair for pair, answer in zip(pairs, told.stdout.split(), strict=True) if answer == "1"]
        assert len(found) > 100
        assert [(shell, *pair) for pair in found if not matches(*pair)] == []


@pytest.mark.parametrize(
    ("pattern", "others"),
    [
        ("[ab]c", "abc c ab"),
        ("*.pem", "a.txt pem"),
        ("id_[!x]", "id_ id_xx"),
        ("[[]a", "a [[]a"),
        ("a[", "a ab"),
    ],
)
def test_an_ordinary_pattern_matches_no_more(pattern, others):
    assert not any(matches(pattern, name) for name in others.split())


def test_tokens_tell_wildcards_from_characters():
    assert wildcard_tokens(r"a\*[*]**[a-z]?[") == [
        WildcardToken("", "a"),
        WildcardToken("", "*"),
        WildcardToken("", "*"),
        WildcardToken("*", "**"),
        WildcardToken("?", "[a-z]"),
        WildcardToken("?", "?"),
        WildcardToken("", "["),
    ]


@pytest.mark.parametrize("piece", ["[", "[!", "[^", "[[:", "[[:a:]", "[\\", "[[.", "[]"])
@pytest.mark.parametrize("end", ["", "]", "\\]"])
def test_no_text_of_brackets_is_gone_through_again_and_again(piece, end):
    """A hundred thousand of them are read at once; what tried every bracket again took minutes."""
    assert wildcard_tokens(piece * 100_000 + end)
