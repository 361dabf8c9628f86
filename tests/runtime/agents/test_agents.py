"""Sub-agents in whole sessions: what they may do, what comes back, and that nothing is left of them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import trio

from leeward import Effect, tool
from leeward.memory.audit import event_of
from leeward.runtime.audit.why import explained
from leeward.runtime.config import set_trusted
from leeward.runtime.events import Alert, LiveOutput
from leeward.security.call import Status
from leeward.security.policy import Autonomy
from leeward.security.ports import Answer
from leeward.security.trust import Origin
from leeward.security.url import parse_url
from leeward.tools.process import descendants

SCOUT = """---
description: Looks things up.
{lines}
---
You look things up, and answer in one line.
"""
PAGE = "https://pages.example/a"


def defined(sessions, folder, *lines, name="scout", text=SCOUT):
    where = sessions.places(folder.resolve())
    (where.config / "agents").mkdir(exist_ok=True)
    (where.config / "agents" / f"{name}.md").write_text(text.format(lines="\n".join(lines)))
    (where.workspace / "notes.md").write_text("The tide is at 4.")
    return where


def model(**replies):
    """A model whose replies go by who is asked: `main`, or the name of a sub-agent."""
    left = {name: list(some) for name, some in replies.items()}

    def reply(request):
        system = request.messages[0].text
        name = system.partition("You are the sub-agent ")[2].partition(".")[0] or "main"
        some = left[name]
        one = some.pop(0) if len(some) > 1 else some[0]
        return one(request) if callable(one) else one

    return [reply] * 200


def ask(task="When is the tide?", name="scout"):
    return [("agent", {"name": name, "task": task})]


async def decided(runtime, tool):
    rows = await sessions_rows(runtime)
    return [event for event in rows if event.tool == tool]


async def sessions_rows(runtime):
    rows = await runtime.audit.list_records(runtime.session_id, 100_000, kinds=("decision",))
    return [event_of(row.kind, row.body) for row in rows]


async def test_without_definitions_there_is_no_tool(sessions, tmp_path):
    async with sessions.session(tmp_path) as runtime:
        assert runtime.tools.spec("agent") is None


async def test_a_task_is_done_with_a_context_of_its_own_and_the_last_message_comes_back(sessions, tmp_path):
    defined(sessions, tmp_path, "tools: read")
    says = model(
        main=[ask(), "It is at 4."],
        scout=["Let me look.", [("read", {"path": "notes.md"})], "At 4."][1:],
    )
    async with sessions.session(tmp_path, says=says) as runtime:
        ended = await runtime.turn("When is the tide? Ask somebody.")
        assert ended.text == "It is at 4."
        requests = runtime.provider.requests
        first, child, again, last = requests
        assert [message.text for message in child.messages[1:]] == ["When is the tide?"]
        assert "one line" in child.messages[0].text and "one line" not in first.messages[0].text
        assert {view.name for view in child.tools} == {"read"} and len(first.tools) > 10
        assert "The tide is at 4." in again.messages[-1].text
        answer = last.messages[-1].text
        assert "At 4." in answer and "«UNTRUSTED:" in answer and "The tide is at" not in answer
        read, asked = await decided(runtime, "read"), await decided(runtime, "agent")
        assert read[0].reading.through == (("scout", asked[0].call, ("read",), "supervised"),)
        records = await runtime.audit.list_records(runtime.session_id, 1000)
        about = [row for row in records if row.body.get("call") == read[0].call]
        lines = "\n".join(explained(read[0].call, about, {}).lines())
        assert f"scout (supervised, started by {asked[0].call})" in lines
        shown = [event.text for event in runtime.heard if isinstance(event, LiveOutput)]
        assert any("scout › read" in text for text in shown)


@pytest.mark.parametrize(
    ("lines", "call", "rule"),
    [
        (["tools: read"], ("write", {"path": "x", "content": "x"}), "agent"),
        (["tools: read"], ("agent", {"name": "scout", "task": "x"}), "agent"),
        (["tools: write", "autonomy: readonly"], ("write", {"path": "x", "content": "x"}), "readonly"),
        (["tools: '*'", "autonomy: full"], ("write", {"path": "x", "content": "x"}), "default"),
    ],
)
async def test_a_sub_agent_is_bounded_by_its_file_and_by_the_session(sessions, tmp_path, lines, call, rule):
    where = defined(sessions, tmp_path, *lines)
    says = model(main=[ask(), "done"], scout=[[call], "I tried."])
    async with sessions.session(tmp_path, says=says) as runtime:
        await runtime.turn("go")
        (refused,) = [one for one in await decided(runtime, call[0]) if one.reading.through]
        assert not refused.allowed and refused.rule == rule
        assert not (where.workspace / "x").exists()


async def test_its_questions_are_put_to_the_person(sessions, tmp_path):
    where = defined(sessions, tmp_path, "tools: write")
    says = model(main=[ask(), "done"], scout=[[("write", {"path": "x", "content": "x"})], "Written."])
    approver = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, says=says, approver=approver) as runtime:
        await runtime.turn("go")
        (question,) = approver.questions
        assert question.action.call.through[0].name == "scout"
        assert (where.workspace / "x").read_text() == "x"


async def test_what_it_was_told_and_what_it_says_makes_nothing_known(sessions, tmp_path):
    """An address in the task or in the answer stays the model's own."""
    defined(sessions, tmp_path, "tools: read fetch")
    invented = "https://invented.example/x"
    says = model(
        main=[ask(f"Open {invented}"), [("fetch", {"url": invented})], "done"],
        scout=[[("fetch", {"url": invented})], f"See {invented}"],
    )
    async with sessions.session(tmp_path, says=says) as runtime:
        await runtime.turn("go")
        both = await decided(runtime, "fetch")
        assert (
            len(both) == 2
            and [(one.allowed, one.gate, one.rule) for one in both]
            == [(False, "grounding", "not_provided")] * 2
        )
        assert not runtime.pipeline.session.ledger.has(parse_url(invented))


async def test_what_it_read_labels_the_session_it_works_for(sessions, servers, tmp_path):
    defined(sessions, tmp_path, "tools: '*'")
    says = model(main=[ask(), "done"], scout=[[("load_skill", {"name": "s"})], "Done."])
    folder = sessions.places(tmp_path.resolve()).config / "skills/s"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\nA stranger's words.")
    async with sessions.session(tmp_path, says=says) as runtime:
        await runtime.turn("go")
        assert Origin.WEB in runtime.pipeline.session.labels


async def test_they_are_nested_three_deep_and_no_wider_on_the_way(sessions, tmp_path):
    for name, more in (("a", "readonly"), ("b", "full"), ("c", "full"), ("d", "full")):
        defined(sessions, tmp_path, "tools: '*'", f"autonomy: {more}", name=name)
    write = [("write", {"path": "x", "content": "x"})]
    says = model(
        main=[ask(name="a"), "done"],
        a=[ask(name="b"), "a done"],
        b=[ask(name="c"), "b done"],
        c=[ask(name="d") + write, "c done"],
        d=["never"],
    )
    config = '[permissions]\nautonomy = "full"\n'
    async with sessions.session(tmp_path, config, says=says) as runtime:
        await runtime.turn("go")
        agents = await decided(runtime, "agent")
        assert [(len(one.reading.through), one.allowed) for one in agents] == [
            (0, True),
            (1, True),
            (2, True),
            (3, True),
        ]
        (wrote,) = await decided(runtime, "write")
        assert len(wrote.reading.through) == 3 and wrote.rule == "readonly"
        assert runtime.pipeline.session.policy.autonomy is Autonomy.FULL


async def test_two_that_write_take_turns_and_two_that_read_do_not(sessions, tmp_path):
    defined(sessions, tmp_path, "tools: slow_write slow_read", "autonomy: full")
    running, most = {"slow_write": 0, "slow_read": 0}, {"slow_write": 0, "slow_read": 0}

    def made(name, effects):
        async def slow() -> str:
            """Take a moment."""
            running[name] += 1
            most[name] = max(most[name], running[name])
            await trio.sleep(0.2)
            running[name] -= 1
            return "ok"

        slow.__name__ = name
        return tool(effects=effects)(slow)

    both = [("slow_read", {}), ("slow_write", {})]
    says = model(main=[ask() + ask("another"), "done"], scout=[both, both, "x", "x"])
    own = [made("slow_read", Effect.READ), made("slow_write", Effect.CREATE)]
    config = '[permissions]\nautonomy = "full"\n'
    async with sessions.session(tmp_path, config, says=says, executors=own) as runtime:
        await runtime.turn("go")
    assert most == {"slow_write": 1, "slow_read": 2}


async def test_one_that_comes_to_no_answer_is_an_error_with_its_reason(sessions, tmp_path):
    defined(sessions, tmp_path, "tools: read", "max_turns: 2")
    says = model(main=[ask(), "done"], scout=[[("read", {"path": "notes.md"})]])
    async with sessions.session(tmp_path, says=says) as runtime:
        await runtime.turn("go")
        assert "came to no answer: max_turns" in runtime.provider.seen()[-1]
        assert len(await decided(runtime, "read")) == 2


async def test_fifty_that_are_stopped_at_once_leave_nothing(sessions, tmp_path):
    defined(sessions, tmp_path, "tools: shell", "autonomy: full")
    rule = '[[permissions.rules]]\ntool = "shell"\naction = "allow"\nmatch = "sleep *"\n'
    config = f'[permissions]\nautonomy = "full"\n{rule}'
    says = model(main=["done"], scout=[[("shell", {"command": "sleep 300"})]])
    async with sessions.session(tmp_path, config, says=says) as runtime:
        before = {*descendants(os.getpid(), 1000)}
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(runtime.call, "agent", {"name": "scout", "task": "wait"})
            with trio.fail_after(60):
                while len([one for one in await sessions_rows(runtime) if one.tool == "agent"]) < 50:
                    await trio.sleep(0.05)
                while not [one for one in await sessions_rows(runtime) if one.tool == "shell"]:
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        assert runtime._parts.agents._running == 0
        rows = await runtime.audit.list_records(runtime.session_id, 100_000)
        allowed = {row.body["call"] for row in rows if row.kind == "decision" and row.body["allowed"]}
        ended = {row.body["call"]: row.body["status"] for row in rows if row.kind == "outcome"}
        assert allowed <= {*ended} and {ended[call] for call in allowed} == {"cancelled"}
        with trio.fail_after(30):
            while {*descendants(os.getpid(), 1000)} - before - supervisors():
                await trio.sleep(0.05)


def supervisors():
    """The supervisor that a first command starts, which stays with the runtime."""
    found = descendants(os.getpid(), 1000)
    return {pid for pid in found if b"reaper" in Path(f"/proc/{pid}/cmdline").read_bytes()}


async def test_those_of_a_workspace_are_used_once_trusted_as_they_are(sessions, tmp_path):
    where = sessions.places(tmp_path.resolve())
    file = where.workspace / ".leeward/agents/scout.md"
    file.parent.mkdir(parents=True)
    file.write_text(SCOUT.format(lines="tools: read"))
    async with sessions.session(tmp_path) as runtime:
        assert runtime.tools.spec("agent") is None
    set_trusted(where.data, where.workspace, True)
    says = model(main=[ask(), "done"], scout=["At 4."])
    async with sessions.session(tmp_path, says=says) as runtime:
        await runtime.turn("go")
        told = runtime.provider.requests[1].messages[0].text
        assert told.index("«UNTRUSTED:") < told.index("one line") < told.rindex("«END:")
    file.write_text(SCOUT.format(lines="tools: '*'\nautonomy: full"))
    async with sessions.session(tmp_path) as runtime:
        assert runtime.tools.spec("agent") is None


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["tools: Bash(git:*)"], "a tool is named alone"),
        (["autonomy: high"], "it is one of readonly, supervised, full"),
        (["max_turns: 0"], "a number from 1 to 200"),
        (["name: other"], "the name is that of its file|its name is that of its file"),
        (["description: again"], "twice"),
    ],
)
async def test_what_is_wrong_with_a_file_is_said_with_its_line(sessions, tmp_path, lines, why):
    where = defined(sessions, tmp_path, *lines)
    async with sessions.session(tmp_path) as runtime:
        (told,) = [
            event.message
            for event in runtime.heard
            if isinstance(event, Alert) and "scout.md" in event.message
        ]
        assert f"{where.config}/agents/scout.md:" in told
        assert re.search(why, told), told
        assert runtime.tools.spec("agent") is None
        assert (await runtime.call("agent", {"name": "scout", "task": "x"})).outcome.status is Status.DENIED


async def test_an_answer_under_the_label_of_what_was_read_is_caught(sessions, tmp_path, planted):
    """Whoever labels it by what was read makes what a model invents a text of the web, which shows values."""
    defined(sessions, tmp_path, "tools: load_skill")
    folder = sessions.places(tmp_path.resolve()).config / "skills/s"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\nA stranger's words.")
    invented = "https://invented.example/x"
    for is_wrong in (False, True):
        says = model(
            main=[ask(), [("fetch", {"url": invented})], "done"],
            scout=[[("load_skill", {"name": "s"})], f"See {invented}"],
        )
        async with sessions.session(tmp_path, says=says) as runtime:
            if is_wrong:
                planted("agents").spoil(runtime)
            await runtime.turn("go")
            (opened,) = await decided(runtime, "fetch")
            assert not opened.allowed
            assert (opened.rule == "not_provided") is not is_wrong, opened


def test_the_example_in_the_guide_is_what_happens(leeward):
    root = Path(__file__).parents[3]
    page = (root / "docs/agents.md").read_text(encoding="utf-8")
    file = (root / "examples/agents/scout.md").read_text(encoding="utf-8")
    assert f"```markdown\n{file}```" in page
    own = leeward.home / ".config/leeward/agents"
    own.mkdir(parents=True)
    (own / "scout.md").write_text(file)
    for part in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line, expected in re.findall(r"^\$ leeward (.*)\n((?:[^$].*\n)*)", part, re.MULTILINE):
            ran = leeward(*shlex.split(line.replace("EXAMPLES", str(root / "examples"))))
            assert ran.out == expected, (line, ran)
    told = leeward("audit", "list", "--tool", "write").out
    (call,) = re.findall("call_[0-9a-f]+", told)
    lines = leeward("audit", "why", call).out
    for line in (
        "through      scout (supervised, started by call_",
        "DENIED by permissions (agent): the sub-agent",
    ):
        assert line in page and line in lines
