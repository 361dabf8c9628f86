"""Recorded arguments: no secret in any spelling, bounded, every change marked."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Effect, Kind
from leeward.security.record.redaction import CUT, is_below, redact_arguments
from leeward.security.text import mask_of

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
FILLER = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TREES = st.recursive(
    st.sampled_from(["plain", TOKEN, f"x {TOKEN} y", f"{TOKEN}{TOKEN}", "ü\n\t", "", 7, None, True]) | FILLER,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["a", "b/c", "~", TOKEN[:8], ""]), inner, max_size=3,
    ),
    max_leaves=6,
)  # fmt: skip


def kept(make, arguments, **fields):
    tool = make.spec("tool", Effect.ALL, schema={"type": "object"}, **fields)
    return redact_arguments(make.action(tool, arguments), make.session())


def at(tree, pointer: str):
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    return tree


@given(st.dictionaries(st.sampled_from(["a", "b/c", "~0"]), TREES, max_size=3))
@example({"a": [f"x {TOKEN} y", {"b/c": TOKEN}]})
@example({"~0": {"": TOKEN}})
def test_no_secret_is_kept_and_all_that_changed_is_pointed_at(make, arguments):
    found = kept(make, arguments)
    assert TOKEN not in found.arguments
    if "" in found.masked:
        return
    tree = json.loads(found.arguments)
    for pointer in found.masked:
        assert TOKEN in json.dumps(at(arguments, pointer)) and at(tree, pointer) != at(arguments, pointer)
        assert (
            found.is_masked(pointer)
            and found.is_masked(f"{pointer}/deeper")
            and not found.is_masked(f"{pointer}x")
        )
    assert (TOKEN in json.dumps(arguments)) == bool(found.masked)
    assert found.masked or tree == json.loads(json.dumps(arguments))


@pytest.mark.parametrize("said", [f"about {TOKEN}", f"{TOKEN}", f"a{TOKEN}b{TOKEN}"])
def test_what_was_masked_in_the_arguments_is_masked_wherever_else_it_is_said(make, said):
    found = kept(make, {"a": f"key={TOKEN}", "b": "https://ada:hunter2-xyz@a.example/"})
    assert TOKEN not in found.text(said)
    assert "hunter2" not in found.text("it says ada:hunter2-xyz somewhere"), "known by its place alone"
    assert kept(make, {"a": "x"}).text("ada:hunter2-xyz") == "ada:hunter2-xyz"
    assert found.text("nothing of it") == "nothing of it"


def test_what_is_said_of_a_call_is_bounded_behind_the_masking(make):
    found = kept(make, {"a": TOKEN})
    assert found.text("x" * 600) == "x" * 500 + CUT and found.text("x" * 500) == "x" * 500
    assert TOKEN[:12] not in found.text("x" * 490 + TOKEN), "not even the half that would be left"


@pytest.mark.parametrize(
    ("length", "kept_length"), [(4096, 4096), (4097, 4096 + len(CUT)), (100_000, 4096 + len(CUT))]
)
def test_long_strings_are_cut_and_pointed_at(make, length, kept_length):
    found = kept(make, {"a": "x" * length, "b": "y", "c": TOKEN})
    assert len(json.loads(found.arguments)["a"]) == kept_length
    assert found.cut == (("/a",) if length > 4096 else ()) and found.masked == ("/c",)


def test_many_long_strings_are_cut_shorter_and_in_the_end_all_of_it(make):
    several = kept(make, {"a": ["x" * 5000] * 20})
    assert len(several.arguments) <= 64 * 1024 and set(several.cut) == {f"/a/{at}" for at in range(20)}
    assert len(json.loads(several.arguments)["a"][0]) == 256 + len(CUT)
    very = kept(make, {"a": ["x" * 250] * 400})
    assert very.cut == ("",) and len(very.arguments) == 64 * 1024


def test_a_secret_that_shows_only_once_the_text_is_read_is_masked(make):
    """Quotes in a command, and escapes in a URL, are no way to get it into the record."""
    tool = make.spec("tool", Effect.ALL, kinds={"command": Kind.COMMAND, "url": Kind.URL})
    spelled = f"curl -H 'A: {TOKEN[:10]}''{TOKEN[10:]}' x"
    found = redact_arguments(
        make.action(tool, {"command": spelled, "url": "https://a.example/"}), make.session()
    )
    assert json.loads(found.arguments)["command"] == mask_of("secret", spelled) and found.masked == (
        "/command",
    )
    near = redact_arguments(
        make.action(tool, {"command": "curl 'a''b' x", "url": "https://a.example/"}), make.session()
    )
    assert near.masked == () and "''" in near.arguments


def test_what_was_never_read_is_kept_masked_and_cut(make):
    unread = f'{{"a": "{TOKEN}", ' + "x" * 9000
    found = redact_arguments(make.action(make.spec("tool"), unread), make.session())
    assert TOKEN not in found.arguments and len(found.arguments) <= 4096


@pytest.mark.parametrize(
    ("pointer", "other", "is_in"),
    [
        ("/a", "/a", True), ("/a/b", "/a", True), ("/a#", "/a", True), ("/ab", "/a", False),
        ("/a", "/a/b", False), ("/a/b#", "/a", True), ("", "", True), ("/a", "", True),
    ],
)  # fmt: skip
def test_what_lies_below_a_pointer(pointer, other, is_in):
    assert is_below(pointer, other) == is_in
