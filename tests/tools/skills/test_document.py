"""A skill's front matter: what may be written, and where what may not be is said to lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.tools.skills import SkillError, read_document, uses_of


def document(*lines, name="x", body="Do it."):
    text = "\n".join(["---", f"name: {name}", *lines, "---", "", body])
    return read_document(text, "SKILL.md", name)


@pytest.mark.parametrize(
    ("lines", "description"),
    [
        (["description: Reviews: a change"], "Reviews: a change"),
        (['description: "a \\"b\\" # c"  # comment'], 'a "b" # c'),
        (["description: 'it''s'"], "it's"),
        (["description: one # comment"], "one"),
        (["description: C# and F#"], "C# and F#"),
        (["description: one", "  two", "", "  three"], "one two three"),
        (["description:", "  one", "  two"], "one two"),
        (["description: >-", "  one", "  two", "", "  three"], "one two\nthree"),
        (["description: |", "  one", "    two"], "one\n  two"),
        (["# a comment", "", "description: Ünïcode 例"], "Ünïcode 例"),
    ],
)
def test_a_text_is_what_yaml_says_it_is(lines, description):
    assert document(*lines).description == description


def test_all_keys_are_read_and_others_passed_over():
    found = document(
        "description: d",
        "license: MIT",
        "compatibility: needs git",
        "metadata:",
        "  author: ann",
        '  version: "1.0"',
        "model: any",
        "x-requires-secrets: forge, mail-key",
        "allowed-tools: Read Bash(git diff:*), Grep",
    )
    assert (found.license, found.compatibility) == ("MIT", "needs git")
    assert dict(found.metadata) == {"author": "ann", "version": "1.0"}
    assert found.allowed_tools == ("Read", "Bash(git diff:*)", "Grep")
    assert uses_of(found) == (("read", None), ("shell", "git diff *"), ("grep", None))
    assert found.body == "Do it." and found.secrets == ("forge", "mail-key")


@pytest.mark.parametrize(
    "lines",
    [
        ["allowed-tools: [Read, Grep]"],
        ["allowed-tools:", "  - Read", "  - Grep"],
        ["allowed-tools: read,grep"],
    ],
)
def test_tools_are_named_in_a_line_or_a_list(lines):
    assert uses_of(document("description: d", *lines)) == (("read", None), ("grep", None))


def test_naming_no_tool_is_not_naming_none():
    assert uses_of(document("description: d")) is None
    assert uses_of(document("description: d", "allowed-tools:")) == ()
    assert uses_of(document("description: d", "allowed-tools: Bash(*)")) == (("shell", None),)


@pytest.mark.parametrize(
    ("lines", "where", "why"),
    [
        ([], 1, "no description"),
        (["description:"], 3, "1 to 1,024 characters"),
        ([f"description: {'x' * 1025}"], 3, "1 to 1,024 characters"),
        (["description: d", "description: e"], 4, "twice"),
        (["description: d", "- item"], 4, "key: value"),
        (['description: "open'], 3, "not closed"),
        (["description: 'open"], 3, "not closed"),
        (['description: "a" b'], 3, "something follows"),
        (["description: *anchor"], 3, "has to be quoted"),
        (["description: {a: b}"], 3, "has to be quoted"),
        (["description: d", "metadata: x"], 4, "texts by name"),
        (["description: d", "allowed-tools: Bash(git"], 4, "a tool is a name"),
        (["description: d", "x-requires-secrets: ../a"], 4, "a secret is named"),
        (["description: d", "license:", "  a: b"], 4, "license is a text"),
        (["description: d", f"compatibility: {'x' * 501}"], 4, "500 characters"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_line(lines, where, why):
    with pytest.raises(SkillError, match=rf"SKILL\.md:{where}: .*{why}"):
        document(*lines)


@pytest.mark.parametrize("name", ["Review", "a--b", "-a", "a_b", "x" * 65, "a/b", "..", "a b"])
def test_a_name_is_small_letters_digits_and_hyphens(name):
    with pytest.raises(SkillError, match="a name has up to 64"):
        document("description: d", name=name)


@pytest.mark.parametrize("text", ["", "x", "---", "---\nname: x\n", "name: x\n---\n", "--- \n---"])
def test_without_front_matter_it_is_no_skill(text):
    with pytest.raises(SkillError, match=r"SKILL\.md:1: "):
        read_document(text, "SKILL.md", "x")


def test_the_folder_has_the_name_of_the_skill():
    with pytest.raises(SkillError, match="they have to be the same"):
        read_document("---\nname: y\ndescription: d\n---\n", "SKILL.md", "x")


@given(st.text("---\n abc:|>'\"#[]{}&*!%@`\t\r,()", max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        found = read_document(f"---\nname: x\n{text}\n---\nbody", "SKILL.md", "x")
    except SkillError as error:
        assert str(error).startswith("SKILL.md:")
    else:
        assert found.name == "x" and found.description
