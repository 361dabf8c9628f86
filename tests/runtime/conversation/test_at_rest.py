"""A secret written by a model is stored nowhere, and the session can still be resumed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.runtime.conversation.history import at_rest
from leeward.security.kinds import Effect
from leeward.security.text import mask_of
from leeward.tools.declare import Text, tool

KEY = "ghp_" + "9a8B7c6D5e4F3g2H1i0JkLmNoPqRsTuVwXyZ"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(["MIIE" + "A1b2" * 15] * 3)
    + "\n-----END RSA PRIVATE KEY-----"
)


def kept(arguments: str, *secrets: str) -> str:
    content = at_rest({"text": "", "calls": [["c1", "write", arguments]]}, secrets)
    ((call_id, name, said),) = content["calls"]
    assert (call_id, name) == ("c1", "write")
    return said


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"content": f"token = {KEY}"}),
        json.dumps({"content": {"deep": ["x", f"{KEY}\n"]}}),
        json.dumps({KEY: 1}),
        json.dumps({"content": KEY}).replace("ghp_", "\\u0067hp_"),
        json.dumps({"content": KEY}).replace("9a8B", "9\\u0061" + "8B"),
        '{"content": "' + KEY,
        KEY,
    ],
)
def test_a_credential_is_masked_however_it_is_spelled(arguments):
    said = kept(arguments)
    assert KEY not in said and "[REDACTED:" in said
    try:
        json.loads(arguments)
    except ValueError:
        return
    assert KEY not in json.dumps(json.loads(said))


def test_a_key_of_several_lines_and_a_known_value_are_masked_and_it_stays_json():
    said = json.loads(kept(json.dumps({"content": PEM, "note": "my hunter2hunter2 word"}), "hunter2hunter2"))
    assert "MIIE" not in said["content"] and "hunter2" not in said["note"]


def test_the_obvious_wrong_way_misses_what_json_spells_otherwise(planted):
    arguments = json.dumps({"content": KEY}).replace("ghp_", "\\u0067hp_")
    wrong = planted("at_rest").at_rest({"text": "", "calls": [["c1", "write", arguments]]}, ())
    assert KEY in json.loads(wrong["calls"][0][2])["content"]
    assert KEY not in json.loads(kept(arguments))["content"]


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.one_of(st.text(max_size=40), st.integers(), st.lists(st.sampled_from([KEY, PEM, '"', "}", "x"]))),
        max_size=4,
    )
)
def test_what_was_json_is_json_and_what_holds_nothing_is_left_alone(arguments):
    text = json.dumps(arguments)
    said = kept(text)
    assert isinstance(json.loads(said), dict)
    assert KEY not in said
    if KEY not in text and "PRIVATE KEY" not in text and "[REDACTED" not in said:
        assert said == text


async def test_the_store_holds_masks_and_the_session_goes_on(sessions, tmp_path):
    """What is sent while it runs is what was said; what is read back has masks, in a history that
    is valid.
    """
    written = []

    @tool(effects=Effect.READ)
    async def note(word: Text) -> str:
        """Take a word."""
        written.append(word)
        return "noted"

    says = [[("note", {"word": f"token = {KEY}"})], f"I noted {KEY}", "again"]
    async with sessions.session(tmp_path, says=says, executors=[note]) as runtime:
        await runtime.turn("go")
        assert written == [f"token = {KEY}"], "what runs is what was asked for"
        assert KEY in runtime.provider.requests[1].messages[-2].calls[0].arguments
        path = runtime.places.database
    with closing(sqlite3.connect(path)) as database:
        assert KEY not in "\n".join(database.iterdump())
    async with sessions.session(tmp_path, says=["on"], executors=[note]) as runtime:
        await runtime.resume()
        assert (await runtime.turn("go on")).refused == 0
        sent = runtime.provider.requests[0].messages
        (call,) = next(message.calls for message in sent if message.calls)
        assert json.loads(call.arguments) == {"word": f"token = {mask_of('github-token', KEY)}"}
        assert [message.call_id for message in sent if message.role == "tool"] == [call.id]
        assert any(message.text == f"I noted {mask_of('github-token', KEY)}" for message in sent)
