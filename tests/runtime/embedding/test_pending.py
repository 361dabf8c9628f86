"""Questions answered from elsewhere: what counts, and that nothing else does or goes unrecorded."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

import leeward.aio
from leeward import Effect, Text, tool
from leeward.aio import AnswerRefused, PendingQuestions
from leeward.security.call import Status
from loading import load_module

ROOT = Path(__file__).parents[3]
HELD = load_module(Path(__file__).parents[1] / "sessions.py")
CONFIG = {"tools": {"sandbox": {"level": "none"}}}
SENT: list[str] = []


@tool(effects=Effect.SEND)
async def send(text: Text) -> str:
    """Send a text, as far as anybody can tell."""
    SENT.append(text)
    return f"sent {text}"


class Asked:
    """A runtime whose calls of `send` wait for an answer."""

    def __init__(self, runtime, questions) -> None:
        self.runtime, self.questions = runtime, questions

    async def ask(self, text="x"):
        """Begin a call, and return it with its question."""
        known = set(self.questions.open)
        call = asyncio.create_task(self.runtime.call("send", {"text": text}))
        while not (new := set(self.questions.open) - known):  # noqa: ASYNC110 - it comes from another thread
            await asyncio.sleep(0.005)
        return call, new.pop()

    async def refused(self, why, *answer, **more):
        with pytest.raises(AnswerRefused) as caught:
            await self.questions.answer(*answer, **more)
        assert caught.value.why == why

    async def records(self, *kinds):
        listed = self.runtime._runtime.audit.list_records
        return await self.runtime._do(lambda: listed(None, 10_000, kinds=kinds))


@pytest.fixture
def asked(tmp_path):
    SENT.clear()

    @asynccontextmanager
    async def opened(questions=None):
        questions = questions or PendingQuestions(seconds=30)
        options = {"places": HELD.places(tmp_path), "provider": HELD.Says(), "executors": [send]}
        async with leeward.aio.Runtime.open(approver=questions, config=CONFIG, **options) as runtime:
            yield Asked(runtime, questions)

    return opened


def run(attack, opened):
    async def program():
        async with opened() as at:
            await attack(at)

    asyncio.run(program())


def test_a_yes_is_for_the_text_that_was_shown_and_on_record_with_its_hash(asked):
    async def program(at):
        call, question = await at.ask("hello")
        shown = json.loads(question.text)
        assert (shown["tool"], shown["arguments"]) == ("send", [["text", "hello"]])
        assert "permissions" in {ask["gate"] for ask in shown["asks"]}
        assert question.text.isascii() and question.text.isprintable()
        # The digest is computed where the text was shown.
        digest = hashlib.sha256(question.text.encode()).hexdigest()
        await at.questions.answer(question.token, digest, "yes", by="ann; autonomy full\n")
        assert (await call).outcome.status is Status.OK
        (decision,) = await at.records("decision")
        assert decision.body["approver"] == (
            f"the person; ann, autonomy full\\n, from elsewhere, shown {digest}"
        )
        assert at.questions.open == ()

    run(program, asked)
    assert SENT == ["hello"]


def test_a_no_says_why_to_the_model(asked):
    async def program(at):
        call, question = await at.ask()
        await at.questions.answer(question.token, question.digest, "no", words="not on a Sunday")
        result = await call
        assert result.outcome.status is Status.DENIED and "not on a Sunday" in result.text

    run(program, asked)
    assert SENT == []


WRONG = [
    ("altered", lambda q: (q.token, hashlib.sha256(b"another text").hexdigest(), "yes")),
    ("altered", lambda q: (q.token, q.digest.upper(), "yes")),
    ("altered", lambda q: (q.token, q.digest[:-1], "yes")),
    ("altered", lambda q: (q.token, "", "yes")),
    ("altered", lambda q: (q.token, "é" * 64, "yes")),
    ("unknown", lambda q: ("", q.digest, "yes")),
    ("unknown", lambda q: (q.token[:-1], q.digest, "yes")),
    ("unknown", lambda q: (f"{q.token} ", q.digest, "yes")),
    ("unknown", lambda q: (q.digest, q.digest, "yes")),
    ("unknown", lambda q: ("\ud800", q.digest, "yes")),
    ("malformed", lambda q: (q.token, q.digest, "YES")),
    ("malformed", lambda q: (q.token, q.digest, "always")),
    ("malformed", lambda q: (q.token, q.digest, "")),
    ("malformed", lambda q: (q.token, q.digest, True)),
    ("malformed", lambda q: (q.token, q.digest, ["yes"])),
    ("malformed", lambda q: (q.token, None, "yes")),
    ("malformed", lambda q: (None, q.digest, "yes")),
]


@pytest.mark.parametrize(("why", "wrong"), WRONG)
def test_what_is_no_answer_to_the_question_changes_nothing_and_is_on_record(asked, why, wrong):
    async def attack(at):
        call, question = await at.ask()
        await at.refused(why, *wrong(question), by="mallory")
        assert at.questions.open == (question,) and not call.done()
        (record,) = await at.records("refused_answer")
        of = (question.call, question.digest) if why == "altered" or record.call else (None, "")
        assert (record.body["why"], record.body["how"]) == (why, "mallory")
        assert (record.call, record.body["digest"]) == of
        assert (record.call is None) == (why == "unknown" or wrong(question)[0] is None)
        await at.questions.answer(question.token, question.digest, "no")
        assert (await call).outcome.status is Status.DENIED

    run(attack, asked)
    assert SENT == []


def test_a_token_answers_its_own_question_only(asked):
    async def attack(at):
        first, harmless = await at.ask("hello")
        # One question is put at a time in a session; another session asks beside it.
        async with at.runtime.session(approver=at.questions) as other:
            second = asyncio.create_task(other.call("send", {"text": "all of it"}))
            while len(at.questions.open) < 2:  # noqa: ASYNC110 - it comes from another thread
                await asyncio.sleep(0.005)
            harmful = at.questions.open[1]
            assert harmful.session == other.session_id != harmless.session
            await at.refused("altered", harmful.token, harmless.digest, "yes")
            await at.refused("altered", harmless.token, harmful.digest, "yes")
            (one, another) = await at.records("refused_answer")
            assert (one.session, another.session) == (harmful.session, harmless.session)
            await at.questions.answer(harmless.token, harmless.digest, "yes")
            assert (await first).outcome.status is Status.OK
            assert not second.done()
            await at.questions.answer(harmful.token, harmful.digest, "no")
            assert (await second).outcome.status is Status.DENIED

    run(attack, asked)
    assert SENT == ["hello"]


def test_twenty_answers_at_once_count_once(asked):
    async def attack(at):
        call, question = await at.ask()
        answers = ["no", *["yes"] * 19]
        given = (at.questions.answer(question.token, question.digest, answer) for answer in answers)
        ended = await asyncio.gather(*given, return_exceptions=True)
        assert ended[0] is None and {error.why for error in ended[1:]} == {"replayed"}
        assert (await call).outcome.status is Status.DENIED
        await at.refused("replayed", question.token, question.digest, "yes")
        assert len(await at.records("refused_answer")) == 20

    run(attack, asked)
    assert SENT == []


def test_a_recorded_yes_is_worth_nothing_for_the_same_call_again(asked):
    async def attack(at):
        call, question = await at.ask("the same")
        await at.questions.answer(question.token, question.digest, "yes")
        await call
        again, asks = await at.ask("the same")
        assert asks.token != question.token
        await at.refused("replayed", question.token, question.digest, "yes")
        await at.refused("replayed", question.token, asks.digest, "yes")
        await at.refused("altered", asks.token, question.digest, "yes")
        again.cancel()
        await asyncio.wait([again])

    run(attack, asked)
    assert SENT == ["the same"]


def test_an_answer_that_comes_after_its_question_is_late(asked):
    async def attack(at):
        call, question = await at.ask()
        call.cancel()
        await asyncio.wait([call])
        while at.questions.open:  # noqa: ASYNC110 - it ends in another thread
            await asyncio.sleep(0.005)
        await at.refused("late", question.token, question.digest, "yes")
        at.questions._seconds = 0.05
        call, question = await at.ask()
        result = await call
        assert result.outcome.status is Status.DENIED and "nobody" in json.dumps(dict(result.error))
        await at.refused("late", question.token, question.digest, "yes")
        async with at.runtime.session(approver=at.questions) as other:
            at.questions._seconds = 30
            call = asyncio.create_task(other.call("send", {"text": "x"}))
            while not at.questions.open:  # noqa: ASYNC110 - it comes from another thread
                await asyncio.sleep(0.005)
            (question,) = at.questions.open
            call.cancel()
            await asyncio.wait([call])
        await at.refused("late", question.token, question.digest, "yes")
        assert [record.body["why"] for record in await at.records("refused_answer")] == ["late"] * 3

    run(attack, asked)
    assert SENT == []


def test_a_flood_of_refused_answers_does_not_fill_the_record(asked, monkeypatch):
    monkeypatch.setattr("leeward.runtime.embedding.pending._RECORDED_UNKNOWN", 30)

    async def attack(at):
        call, question = await at.ask()
        for number in range(50):
            await at.refused("altered", question.token, str(number), "yes")
            await at.refused("unknown", str(number), question.digest, "yes")
        records = await at.records("refused_answer")
        assert [record.body["why"] for record in records].count("altered") == 20
        assert [record.body["why"] for record in records].count("unknown") == 30
        assert [record.body["how"] for record in records].count(
            "somebody; further ones like it are not recorded"
        ) == 2
        call.cancel()
        await asyncio.wait([call])

    run(attack, asked)


def test_what_was_forgotten_is_unknown_and_what_is_open_is_never_forgotten(asked, monkeypatch):
    monkeypatch.setattr("leeward.runtime.embedding.pending._REMEMBERED", 1)

    async def attack(at):
        calls = []
        for text in "abc":
            call, question = await at.ask(text)
            await at.questions.answer(question.token, question.digest, "no")
            await call
            calls.append(question)
        await at.refused("unknown", calls[0].token, calls[0].digest, "yes")
        await at.refused("replayed", calls[2].token, calls[2].digest, "yes")
        call, question = await at.ask("d")
        assert at.questions.open == (question,)
        call.cancel()
        await asyncio.wait([call])

    run(attack, asked)


def test_what_cannot_be_sent_to_the_person_is_denied(asked):
    def fails(question):
        raise ConnectionError("nobody can be reached")

    async def program():
        async with asked(PendingQuestions(tell=fails)) as at:
            result = await at.runtime.call("send", {"text": "x"})
            assert result.outcome.status is not Status.OK
            assert at.questions.open == ()

    asyncio.run(program())
    assert SENT == []


def test_questions_that_no_runtime_has_say_so():
    with pytest.raises(RuntimeError, match=r"leeward\.aio\.Runtime\.open as its approver"):
        asyncio.run(PendingQuestions().answer("token", "digest", "yes"))


def test_questions_belong_to_one_open_runtime(asked, tmp_path):
    other = {"places": HELD.places(tmp_path / "other"), "provider": HELD.Says()}

    async def program():
        async with asked(PendingQuestions()) as at:
            async with at.runtime.session(approver=at.questions):
                pass
            with pytest.raises(RuntimeError, match="each runtime needs its own"):
                async with leeward.aio.Runtime.open(approver=at.questions, **other):
                    pass
        async with leeward.aio.Runtime.open(approver=at.questions, **other):
            pass

    asyncio.run(program())


def test_the_example_over_http(tmp_path):
    SENT.clear()
    example = load_module(ROOT / "examples" / "http_approver.py")
    says = HELD.Says([("send", {"text": "x"})], "sent", [("send", {"text": "y"})], "not sent")
    options = {"places": HELD.places(tmp_path), "provider": says, "executors": [send], "config": CONFIG}
    app = example.make_app("a key", **options)
    person = {"headers": {"Authorization": "Bearer a key"}}

    async def answered(client, answer):
        turn = asyncio.create_task(client.post("/turns", json={"text": "send it"}, **person))
        while not (waiting := (await client.get("/questions", **person)).json()):
            await asyncio.sleep(0.01)
        given = {"token": waiting[0]["token"], "answer": answer}
        given["digest"] = hashlib.sha256(waiting[0]["text"].encode()).hexdigest()
        for wrong in ({"digest": "0" * 64}, {"token": "made up"}, {"answer": "always"}):
            assert (await client.post("/answers", json=given | wrong, **person)).status_code == 409
        assert (await client.post("/answers", json=given)).status_code == 401
        assert (await client.post("/answers", json=given, **person)).json() == {"taken": answer}
        again = await client.post("/answers", json=given, **person)
        assert (again.status_code, again.json()) == (409, {"detail": "replayed"})
        return (await turn).json()["answer"]

    async def program():
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://leeward.example") as client,
        ):
            for header in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer another"}):
                assert (await client.get("/questions", headers=header)).status_code == 401
                asks = await client.post("/turns", json={"text": "send it"}, headers=header)
                assert asks.status_code == 401
            assert await answered(client, "yes") == "sent"
            assert await answered(client, "no") == "not sent"

    asyncio.run(program())
    assert SENT == ["x"]
