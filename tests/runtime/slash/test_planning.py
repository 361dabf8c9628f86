"""/plan, /init and /context: a plan changes nothing, instructions come through the pipeline, sizes add up."""

from __future__ import annotations

from leeward.runtime.slash import dispatch, parse
from leeward.security.policy import Autonomy
from leeward.security.ports import Answer


async def typed(runtime, line: str):
    """Run a slash command, and the turn it wants."""
    result = await dispatch(runtime, parse(line))
    if result.turn is not None:
        await runtime.turn(*result.turn)
    return result


WRITE = [("write", {"path": "a.txt", "content": "one\n"})]


async def test_while_a_plan_is_made_nothing_changes_and_acceptance_goes_back(sessions, tmp_path) -> None:
    person = sessions.Answers(Answer.YES)
    says = [WRITE, "the plan", WRITE, "done"]
    async with sessions.session(tmp_path, "", says, approver=person) as runtime:
        file = runtime.places.workspace / "a.txt"
        planned = await typed(runtime, "/plan write a.txt")
        assert "nothing can be changed" in planned.text and not file.exists() and person.questions == []
        assert runtime.pipeline.session.policy.autonomy is Autonomy.READONLY
        asked = runtime.provider.requests[0].messages[-1].text
        assert asked.startswith("write a.txt\n\nMake a plan for this first")
        accepted = await typed(runtime, "/plan accept")
        assert accepted.text == "autonomy supervised" and file.read_text() == "one\n"
        assert runtime.pipeline.session.policy.autonomy is Autonomy.SUPERVISED
        levels = [row.body["cause"] for row in await sessions.rows(runtime, "autonomy")]
        assert levels == ["the person, by /plan", "the person, by /plan accept"]


async def test_a_plan_that_is_dropped_changes_nothing_and_a_second_one_keeps_the_level(
    sessions, tmp_path
) -> None:
    async with sessions.session(tmp_path, '[permissions]\nautonomy = "full"\n', ["one", "two"]) as runtime:
        assert (await typed(runtime, "/plan accept")).failed and (await typed(runtime, "/plan")).failed
        await typed(runtime, "/plan this")
        await typed(runtime, "/plan rather that")
        dropped = await typed(runtime, "/plan drop")
        assert dropped.text == "autonomy full" and dropped.turn is None
        assert (await typed(runtime, "/plan drop")).failed


async def test_first_instructions_are_written_by_a_call_that_is_asked_about(sessions, tmp_path) -> None:
    person = sessions.Answers(Answer.NO)
    says = [[("write", {"path": "AGENTS.md", "content": "# Here\n"})], "not written"]
    async with sessions.session(tmp_path, "", says, approver=person) as runtime:
        await typed(runtime, "/init name the linter")
        assert len(person.questions) == 1 and not (runtime.places.workspace / "AGENTS.md").exists()
        asked = runtime.provider.requests[0].messages[-1].text
        assert "write AGENTS.md" in asked and asked.endswith("name the linter")


async def test_what_fills_the_context_adds_up_and_grows(sessions, tmp_path) -> None:
    config = "[agent]\ncontext_tokens = 100000\n"
    says = [[("list_directory", {})], "word " * 400]
    async with sessions.session(tmp_path, config, says) as runtime:
        before = (await typed(runtime, "/context")).data["tokens"]
        await runtime.turn("look " * 100)
        shown = await typed(runtime, "/context")
        after = shown.data["tokens"]
        assert before["tools"] == after["tools"] > 500 and before["prompt"] == 0 < after["prompt"]
        assert after["your words"] >= 125 and after["answers"] >= 500 and after["results"] > 0
        assert f"about {sum(after.values())} tokens" in shown.text and "of 100000" in shown.text
