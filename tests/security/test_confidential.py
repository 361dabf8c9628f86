"""A declared secret reaches its tool and is recorded nowhere."""

from __future__ import annotations

import json

import pytest

from leeward.security.action import without_secrets
from leeward.security.call import Checked, SchemaProblem, Status
from leeward.security.kinds import KIND_KEY, Effect, Kind
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.ports import Answer
from masks import kinds

HIDDEN = "[secret]"

TOKEN, PIN = "open-sesame-9081", "4711"
SCHEMA = {
    "type": "object",
    "properties": {
        "user": {"type": "string", KIND_KEY: Kind.TEXT},
        "token": {"anyOf": [{"$ref": "#/$defs/token"}, {"type": "null"}]},
        "pins": {"type": "array", "items": {"type": "string", KIND_KEY: Kind.SECRET}},
    },
    "$defs": {"token": {"type": "string", KIND_KEY: Kind.SECRET}},
}
GIVEN = {"user": "ada", "token": TOKEN, "pins": ["0000", PIN]}


@pytest.fixture
def login(make):
    return make.spec("login", Effect.SEND, schema=SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (json.dumps(GIVEN), {"user": "ada", "token": HIDDEN, "pins": [HIDDEN, HIDDEN]}),
        (json.dumps({"user": "ada", "token": None}), {"user": "ada", "token": None}),
        (json.dumps({"user": 7, "token": TOKEN}), {"user": 7, "token": HIDDEN}),
        (f'{{"token": "x", "token": "{TOKEN}"}}', {"token": HIDDEN}),
        ("", ""),
        (f'{{"token": "{TOKEN}"', HIDDEN),
        (f'["{TOKEN}"]', HIDDEN),
        ("[" * 100_000, HIDDEN),
    ],
)
def test_arguments_are_shown_without_what_was_declared_secret(login, arguments, shown) -> None:
    masked = kinds(without_secrets(arguments, login))
    assert (masked if isinstance(shown, str) else json.loads(masked)) == shown


@pytest.mark.parametrize("text", [json.dumps(GIVEN), "", "{", "[]", f'{{"token":"{TOKEN}"}}'])
def test_calls_of_other_tools_are_shown_as_they_are(make, text) -> None:
    for other in (make.spec(), make.spec(kinds={"token": Kind.TEXT}), None):
        assert without_secrets(text, other) == text


@pytest.mark.parametrize("answer", [Answer.YES, Answer.NO])
@pytest.mark.parametrize("fits", [True, False])
async def test_it_is_run_with_and_stands_in_no_record_result_or_store(make, login, answer, fits) -> None:
    bad = Checked({}, (SchemaProblem("/user", "is not a user"),))
    desk = make.desk(login if fits else make.replace(login, check=lambda given: bad), threshold=200)
    desk.says(answer)
    seen = []

    async def tell(cleared):
        seen.append(cleared.take()["token"])
        await cleared.emit(f"sending {TOKEN}\n")
        return Output(f"{TOKEN} was accepted\n" * 100)

    desk.executor.does["login"] = tell
    result = await desk.run("login", GIVEN)
    assert (result.outcome.status is Status.OK, seen) == (
        (True, [TOKEN]) if fits and answer is Answer.YES else (False, [])
    )
    kept = kinds(
        repr(
            (
                desk.audit.committed,
                desk.store.texts,
                desk.observer.chunks,
                result.text,
                result.shown,
                result.error,
            )
        )
    )
    assert TOKEN not in kept and '"pins":["[secret]"' in kept and PIN not in kept


async def test_a_failure_that_quotes_it_is_masked(make, login) -> None:
    desk = make.desk(login)
    desk.says(Answer.YES)
    desk.executor.does["login"] = PermanentFailure(f"no: {TOKEN}", Output(f"tried {TOKEN}"))
    result = await desk.run("login", GIVEN)
    assert "no: [REDACTED" in result.shown and "tried [REDACTED" in result.shown
    assert TOKEN not in result.text + result.shown + str(result.error)
