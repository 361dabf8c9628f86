"""Regular expressions wait for their first use, and every one of them that is written down compiles."""

from __future__ import annotations

import gc
import pkgutil
import re
from importlib import import_module

import pytest

import leeward
from leeward.security.lazy import regex
from leeward.security.lazy.regex import LazyPattern

SCRIPTS = {"leeward.__main__"}  # they stop the collector, or run


def modules() -> list[str]:
    return [
        found.name
        for found in pkgutil.walk_packages(leeward.__path__, "leeward.")
        if found.name not in SCRIPTS
    ]


def test_every_pattern_of_every_module_compiles() -> None:
    for name in modules():
        import_module(name)
    patterns = [one for one in gc.get_objects() if type(one) is LazyPattern]
    assert len(patterns) > 300
    for pattern in patterns:
        re.compile(pattern.pattern, pattern._flags)


def test_it_is_compiled_at_its_first_use_and_only_then() -> None:
    pattern = regex("(?P<word>[a-z]+)")
    assert vars(pattern) == {"pattern": "(?P<word>[a-z]+)", "_flags": 0}
    assert pattern.fullmatch("abc") is not None and pattern.sub("x", "ab c") == "x x"
    assert pattern.search.__self__ is re.compile("(?P<word>[a-z]+)")  # type: ignore[attr-defined]
    assert (pattern.groups, pattern.groupindex["word"], pattern.flags) == (1, 1, re.UNICODE)
    assert regex("A", re.IGNORECASE).match("a") and regex(b"\\d").findall(b"a1") == [b"1"]


def test_a_mistake_is_raised_at_the_first_use() -> None:
    with pytest.raises(re.error, match="unterminated"):
        regex("(").search("")
