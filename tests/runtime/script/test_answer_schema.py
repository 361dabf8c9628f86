"""`--output-schema`: the answer is a JSON value of the wanted form, or the run fails."""

from __future__ import annotations

import json

import pytest

from leeward.runtime.exits import CliError
from leeward.runtime.script.answer_schema import UnfitAnswer, load_answer_schema

SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "integer", "maximum": 65535}, "$ok": {"const": True}},
    "required": ["port"],
    "additionalProperties": False,
}


@pytest.fixture
def form(tmp_path):
    path = tmp_path / "form.json"
    path.write_text(json.dumps(SCHEMA))
    return load_answer_schema(path)


@pytest.fixture
def answers(leeward):
    """Run a prompt whose model says these texts, one for each request."""

    def run(*texts, output=("--output", "json"), schema=SCHEMA):
        (leeward.home / "form.json").write_text(json.dumps(schema))
        replies = "".join(f"[[reply]]\ntext = {json.dumps(text)}\n" for text in texts)
        (leeward.home / "model.toml").write_text(replies)
        model = f"scripted:{leeward.home}/model.toml"
        form = str(leeward.home / "form.json")
        return leeward("-p", "which port", "--model", model, "--output-schema", form, *output)

    return run


@pytest.mark.parametrize("text", ['{"port": 80}', ' {"port": 80}\n', 'It is:\n```json\n{"port": 80}\n```\n'])
def test_an_answer_that_fits_is_the_value(answers, text):
    data = answers(text).json["data"]
    assert data["value"] == {"port": 80}
    told = answers(text, output=())
    assert (told.code, json.loads(told.out)) == (0, {"port": 80})


def test_an_answer_that_does_not_fit_is_mended_once(answers):
    ran = answers('{"port": "eighty"}', '{"port": 80}')
    assert (ran.code, ran.json["data"]["value"]) == (0, {"port": 80})
    ran = answers("eighty", '{"port": 80000}', '{"port": 80}')
    error = ran.json["error"]
    assert (ran.code, error["code"], ran.json["data"]["value"]) == (1, "ANSWER_UNFIT", None)
    assert error["problems"] == ["/port does not fit /properties/port/maximum of the schema"]


@pytest.mark.parametrize(
    "text",
    ["", "80", "{", '{"port": 80} and more', '{"port": NaN}', '{"port": 1, "x": 1}', "[" * 100_000,
     '```\n{"port": 1}\n```\n```\n{"port": 2}\n```'],
)  # fmt: skip
def test_what_is_no_answer(form, text):
    with pytest.raises(UnfitAnswer):
        form.read(text)


def test_what_is_told_of_an_answer_holds_nothing_of_it(form, answers, leeward):
    bait = "https://evil.example/ obey"
    for answer in ({bait: bait, "port": bait}, {"port": {bait: [bait]}}, bait):
        with pytest.raises(UnfitAnswer) as caught:
            form.read(json.dumps(answer))
        assert "evil" not in caught.value.report
    # Neither the schema nor a mended answer makes a URL the person's.
    call = '[[reply.calls]]\ntool = "fetch"\nargs = { url = "https://schema.example/" }\n'
    answers("{}", "{}", schema={"$id": "https://schema.example/", "type": "array"})
    (leeward.home / "model.toml").write_text(f'[[reply]]\ntext = "{{}}"\n[[reply]]\n{call}')
    words = ("--model", f"scripted:{leeward.home}/model.toml", "--output", "json")
    ran = leeward("-p", "which port", *words, "--output-schema", str(leeward.home / "form.json"))
    assert [one["rule"] for one in ran.json["data"]["denials"]] == ["not_provided"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read"),
        (b"{", "line 1"),
        (b"[]", "an object"),
        (b"\xff", "utf-8"),
        (b'{"type": "nothing"}', "not valid"),
        (b'{"$ref": "https://a.example/s.json"}', "only references within it"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "larger than"),
    ],
)
def test_a_schema_that_cannot_be_used_ends_the_run_before_it_began(leeward, content, why):
    path = leeward.home / "form.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CliError, match=why):
        load_answer_schema(path)
    ran = leeward("-p", "x", "--model", "offline", "--output-schema", str(path), "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR")
    assert not leeward.data.exists()
    assert leeward("--output-schema", str(path), "--script", "x").code == 2
