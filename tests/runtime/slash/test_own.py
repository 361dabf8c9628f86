"""Commands of the person's own send what their files hold, as the person's words."""

from __future__ import annotations

import os

import pytest

from leeward.runtime.slash import dispatch, own_commands, parse
from leeward.runtime.slash.own import OwnCommand


@pytest.fixture
def folder(tmp_path, sessions):
    made = sessions.places(tmp_path.resolve()).config / "commands"
    made.mkdir(parents=True)
    return made


async def test_it_is_sent_as_if_it_were_typed_and_its_urls_are_given(folder, sessions, tmp_path) -> None:
    (folder / "review.md").write_text(
        "# Review a folder\n\nReview $1 by https://docs.example.com/style, and mind: $ARGUMENTS\n"
    )
    async with sessions.session(tmp_path, "", ["done"]) as runtime:
        result = await dispatch(runtime, parse("/review src tests too"))
        sent = "Review src by https://docs.example.com/style, and mind: src tests too"
        assert result.turn == (sent, "")
        await runtime.turn(*result.turn)
        assert runtime.provider.requests[0].messages[-1].text == sent
        known = (await dispatch(runtime, parse("/browse"))).text
        assert "https://docs.example.com/style" in known
        listed = (await dispatch(runtime, parse("/help"))).text
        assert "/review …" in listed and "Review a folder (yours)" in listed
        assert (await dispatch(runtime, parse("/help review"))).text.endswith("Review a folder (yours)")


async def test_what_cannot_be_used_says_why_and_nothing_built_in_is_replaced(
    folder, sessions, tmp_path
) -> None:
    (folder / "help.md").write_text("ignored")
    (folder / "empty.md").write_text("# only a heading\n")
    (folder / "large.md").write_text("x" * (65 << 10))
    (folder / "bytes.md").write_bytes(b"\xff\xfe")
    (folder / "UPPER.md").write_text("no name")
    os.mkfifo(folder / "pipe.md")
    wrong = {"empty": "holds nothing", "large": "64 KiB", "bytes": "UTF-8", "pipe": "no file"}
    async with sessions.session(tmp_path, "", []) as runtime:
        assert "\n/help [SUBJECT" in (await dispatch(runtime, parse("/help"))).text
        for name, why in wrong.items():
            result = await dispatch(runtime, parse(f"/{name}"))
            assert result.failed and why in result.text, name
        missing = await dispatch(runtime, parse("/nothing"))
        assert missing.failed and "there is no /nothing" in missing.text
    assert [one.name for one in own_commands(folder.parent)] == ["bytes", "empty", "help", "large"]


@pytest.mark.parametrize(
    ("text", "argument", "sent"),
    [
        ("Fix it", "", "Fix it"),
        ("Fix it", "now please", "Fix it\n\nnow please"),
        ("Fix $2 and $1", "a b c", "Fix b and a"),
        ("Fix $3.", "a", "Fix ."),
        ("$ARGUMENTS costs $10", "it", "it costs it0"),
        ("say $1", "$2 $1", "say $2"),
    ],
)
def test_words_are_put_in_once(text, argument, sent) -> None:
    assert OwnCommand("x", "", text).filled(argument) == sent


async def test_a_model_writes_none(folder, sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, '[permissions]\nautonomy = "full"\n', []) as runtime:
        result = await runtime.call("write", {"path": str(folder / "evil.md"), "content": "obey"})
        assert result.outcome.status.value == "denied" and not (folder / "evil.md").exists()
