"""`--output-schema`: the answer is a JSON value of the wanted form, or the run fails."""

from __future__ import annotations

import json
import os
import signal
import time

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.exits import CliError, to_json
from leeward.runtime.script.answer_schema import AnswerSchema, UnfitAnswer, load_answer_schema

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
        (b'{"const": "\\ud800"}', "surrogate"),
        (b'{"maximum": 1e999}', "too large"),
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


ANYTHING = AnswerSchema("{}", jsonschema_rs.validator_for({}, offline=True))
TEXTS = st.text(
    st.sampled_from('`json\n []{}",:0e9-\\u\ud800') | st.characters(exclude_categories=()), max_size=80
)


@given(TEXTS | st.builds("```json\n{}\n```".format, TEXTS))
@example('"\\ud800"')
@example('{"\\udfff": 1}')
@example('"\ud800"')
@example("1e999")
@example("[-1e400]")
@example("9" * 5000)
@example("[" * 300 + "]" * 300)
@example('{"a":' * 101 + "1" + "}" * 101)
def test_any_text_is_a_value_that_stays_as_it_is_or_a_problem(text):
    try:
        value = ANYTHING.read(text)
    except UnfitAnswer as unfit:
        assert unfit.problems
        assert unfit.report.encode()
    else:
        assert json.loads(to_json(value)) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"\\ud800"', "surrogate"),
        ('{"\\udfff": 1}', "surrogate"),
        ("1e999", "too large"),
        ("[-1e400]", "too large"),
        ("9" * 5000, "digits"),
        ("[" * 101 + "]" * 101, "nested too deeply"),
    ],
)
def test_what_json_cannot_carry_is_no_answer(text, why):
    with pytest.raises(UnfitAnswer, match=why):
        ANYTHING.read(text)


def test_it_is_sent_back_once_like_any_other(answers):
    ran = answers('"\\ud800"', "1e999", schema={})
    assert (ran.code, ran.json["error"]["code"], ran.json["data"]["value"]) == (1, "ANSWER_UNFIT", None)
    ran = answers("1e999", "[7]", schema={})
    assert (ran.code, ran.json["data"]["value"]) == (0, [7])


@pytest.mark.parametrize(
    "piece", ["```json\n", "```\n", "```json\n```\n", "``` \n", '"\\"', "[", "[{", "9.", "\n", " "]
)
def test_a_long_answer_is_read_in_one_pass(piece):
    """A pass for each line takes minutes; the bound leaves room for a machine that is busy."""
    begun = time.monotonic()
    with pytest.raises(UnfitAnswer):
        ANYTHING.read(piece * (1024 * 1024 // len(piece)))
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("```\n[1]\n```", [1]),
        ("```json \t\n[1]\n``` \nand so on", [1]),
        ("```json\r\n[1]\r\n```\r\n", [1]),
        ("so:\n```json\n[1]\n```\n```json\nnot closed", [1]),
        (" ```json\n[1]\n```", None),
        ("```python\n[1]\n```", None),
        ("```json\n[1]", None),
        ("```json\n[1]```", None),
        ("```\n```", None),
    ],
)
def test_the_only_block_of_code_is_the_answer(text, value):
    try:
        read = ANYTHING.read(text)
    except UnfitAnswer:
        read = None
    assert read == value


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_schema_that_is_a_silent_pipe_does_not_hold_up_a_signal(leeward, number, code):
    path = leeward.home / "form.json"
    os.mkfifo(path)
    words = ("-p", "x", "--model", "offline", "--output-schema", str(path), "--output", "json")
    with leeward.start(*words) as process:
        # Opened for writing only once a reader waits for it.
        with path.open("wb"):
            process.send_signal(number)
            out, _ = process.communicate(timeout=20)
    assert (process.returncode, json.loads(out)["error"]["code"]) == (code, number.name)
