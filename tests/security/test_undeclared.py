"""What is looked up of strings nobody declared, and which of them are paths by what was found."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.action import ActionBuilder
from leeward.security.command import CommandFacts
from leeward.security.kinds import Effect, Kind
from leeward.security.paths import ResolvedPath
from leeward.tools.survey import looked_up

CALLS = {
    "many": {"q": ["name"] * 900},
    "long": {"q": "word/" * 100_000},
    "escapes": {"q": "%2525252525/" * 40_000},
    "accents": {"q": "e" + "\u0301\u0323" * 100_000},
}


def draft(make, arguments, effects=Effect.READ) -> ActionBuilder:
    tool = make.spec(effects=effects)
    return ActionBuilder.of(make.call(tool.name, arguments), {tool.name: tool})


def paths_of(make, text, *existing, effects=Effect.READ) -> list[str]:
    facts = CommandFacts(
        matches={path: (path,) for path in existing}, real={path: path for path in (*existing, f"/ws/{text}")}
    )
    atoms = draft(make, {"q": text}, effects).read(make.policy(), {}, facts).of_kind(Kind.PATH)
    return [atom.canonical.text for atom in atoms if isinstance(atom.canonical, ResolvedPath)]


@pytest.mark.parametrize("arguments", CALLS.values(), ids=CALLS)
def test_what_is_looked_up_is_bounded(make, arguments) -> None:
    wanted = draft(make, arguments).wanted(make.policy())
    assert len(wanted.matches) <= 12 and wanted.real == ()
    assert all(len(pattern) <= 3 * 4096 for pattern in wanted.matches)


@given(st.text(max_size=40))
@example("and/or")
@example("conf%2F.env")
def test_words_that_name_nothing_are_looked_up_and_stay_words(make, text) -> None:
    read = draft(make, {"q": f"x{text}"}, Effect.READ | Effect.WRITE)
    atoms = read.read(make.policy(), {path: path for path in read.paths(make.policy())}).atoms
    named = [atom for atom in atoms if atom.kind is Kind.PATH and not read.paths(make.policy())]
    assert named == []


def test_a_path_that_does_not_exist_counts_only_where_it_could_be_made(make) -> None:
    assert paths_of(make, "docs/new", "/ws/docs") == []
    assert paths_of(make, "docs/new", "/ws/docs", effects=Effect.WRITE) == ["/ws/docs/new"]
    assert paths_of(make, "and/or", effects=Effect.WRITE) == []
    assert paths_of(make, "docs/old", "/ws/docs/old") == ["/ws/docs/old"]


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20))
@example("a[b]*?")
@example("[!a]")
@example("a\\")
@example("[[:alpha:]]")
def test_a_name_is_found_whatever_characters_it_has(make, tmp_path_factory, name) -> None:
    policy = make.policy(workspace=str(tmp_path_factory.getbasetemp()))
    file = tmp_path_factory.getbasetemp() / f"x{name}x"
    try:
        file.write_text("")
    except OSError:  # A disk may not hold every name.
        return
    try:
        read = draft(make, {"q": f"x{name}x"})
        facts = looked_up(read.wanted(policy), policy, "/usr/bin")
        found = [atom.canonical.text for atom in read.read(policy, {}, facts).of_kind(Kind.PATH)]
        assert str(file) in found
    finally:
        file.unlink()
