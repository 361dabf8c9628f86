"""Which undeclared strings are looked up, and which of them turn out to be paths."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.action import ActionBuilder
from leeward.security.kinds import CommandFacts, Effect, Kind
from leeward.security.paths import ResolvedPath
from leeward.tools.survey import Work, looked_up

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
        exists=dict.fromkeys(existing, True), real={path: path for path in (*existing, f"/ws/{text}")}
    )
    atoms = draft(make, {"q": text}, effects).read(make.policy(), {}, facts).of_kind(Kind.PATH)
    return [atom.canonical.text for atom in atoms if isinstance(atom.canonical, ResolvedPath)]


@pytest.mark.parametrize("arguments", CALLS.values(), ids=CALLS)
def test_what_is_looked_up_is_bounded(make, arguments) -> None:
    wanted = draft(make, arguments).wanted(make.policy())
    assert len(wanted.exists) <= 12 and wanted.real == ()
    assert all(len(path) <= 3 * 4096 for path in wanted.exists)


# Many long paths, each spelled in several ways: what is read and looked up is counted together.
LONG = [f"{at}/%2525252541/" + "ab/" * 1250 for at in range(240)]


def test_many_long_strings_are_looked_up_in_counted_steps_and_the_rest_is_unknown(make, tmp_path) -> None:
    policy, work = make.policy(workspace=str(tmp_path)), Work(20_000)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / ".env").touch()
    for effects in (Effect.READ, Effect.READ | Effect.WRITE):
        read = draft(make, {"q": [*LONG, "conf/.env"]}, effects)
        wanted = read.wanted(policy)
        assert sum(map(len, (*wanted.exists, *wanted.real))) < 6_000_000
        atoms = read.read(policy, {}, looked_up(wanted, policy, "/usr/bin", work)).of_kind(Kind.PATH)
        last = [atom.canonical for atom in atoms if atom.raw == "conf/.env"]
        assert last and not any(isinstance(place, ResolvedPath) for place in last), (
            "nobody knows where it leads"
        )


def test_what_was_too_much_to_look_up_is_unknown_and_not_nothing(make, tmp_path) -> None:
    policy = make.policy(workspace=str(tmp_path))
    read = draft(make, {"q": "conf/.env"})
    facts = looked_up(read.wanted(policy), policy, "/usr/bin", Work(0))
    atoms = read.read(policy, {}, facts).of_kind(Kind.PATH)
    assert "conf/.env" in {atom.raw for atom in atoms if not isinstance(atom.canonical, ResolvedPath)}


def test_an_ordinary_list_of_files_is_known_to_the_last(make, tmp_path) -> None:
    policy = make.policy(workspace=str(tmp_path))
    (tmp_path / "last").touch()
    read = draft(
        make, {"q": [f"src/package{at % 90}/module_{at}.py" for at in range(900)] + ["x" * 400_000, "last"]}
    )
    atoms = read.read(policy, {}, looked_up(read.wanted(policy), policy, "/usr/bin")).of_kind(Kind.PATH)
    assert [atom.canonical.text for atom in atoms] == [str(tmp_path / "last")]


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


# What stands around a path in the words that tools take: a mark of curl's, a place in a file, a setting.
AROUND = [
    "@conf/.env", "conf/.env:1", "conf/.env:12:3", "conf/.env#L1", "path=conf/.env", "'conf/.env'",
    '"conf/.env"', "`conf/.env`", "conf\\.env", "data=@conf/.env", '--file="conf/.env"', "@conf%2F.env",
    "conf/.env:1-20", "<conf/.env>", "path = conf/.env",
]  # fmt: skip


@pytest.mark.parametrize("text", AROUND)
def test_what_stands_around_a_path_does_not_hide_it(make, tmp_path, text) -> None:
    policy = make.policy(workspace=str(tmp_path))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / ".env").touch()
    read = draft(make, {"q": text})
    facts = looked_up(read.wanted(policy), policy, "/usr/bin")
    found = [atom.canonical.text for atom in read.read(policy, {}, facts).of_kind(Kind.PATH)]
    assert str(tmp_path / "conf" / ".env") in found


@pytest.mark.parametrize(
    "text", ["a = b", "see issue #12", "10:30", "@ada", "'quoted'", "x=1#2", "C:\\x", "key: value", "a/b:c"]
)
@pytest.mark.parametrize("effects", [Effect.READ, Effect.READ | Effect.WRITE])
def test_words_with_such_marks_stay_words(make, tmp_path, text, effects) -> None:
    policy = make.policy(workspace=str(tmp_path))
    read = draft(make, {"q": text}, effects)
    assert read.read(policy, {}, looked_up(read.wanted(policy), policy, "/usr/bin")).of_kind(Kind.PATH) == ()
