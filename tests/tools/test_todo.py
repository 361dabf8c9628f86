"""The list of tasks: the model's text, which the person sees and nothing obeys."""

from __future__ import annotations

import pytest

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Status
from leeward.security.url import parse_url


async def test_the_person_sees_the_tasks_and_how_far_each_is(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path) as runtime:
        assert (await dispatch(runtime, parse("/todo"))).text == "the model has no task list"
        tasks = [
            {"what": "read\n it", "state": "done"},
            {"what": "write", "state": "doing"},
            {"what": "test \x1b[2J"},
        ]
        result = await runtime.call("todo", {"tasks": tasks})
        assert result.outcome.status is Status.OK and "[x] read it" in result.text
        shown = (await dispatch(runtime, parse("/todo"))).text
        assert shown.split("\n")[:2] == ["[x] read it", "[>] write"] and "\x1b" not in shown
        await runtime.new_session()
        assert (await dispatch(runtime, parse("/todo"))).text == "the model has no task list"


async def test_what_it_names_is_known_to_nobody(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path) as runtime:
        await runtime.call("todo", {"tasks": [{"what": "open https://invented.example/x"}]})
        assert not runtime.pipeline.session.ledger.has(parse_url("https://invented.example/x"))
        refused = await runtime.call("fetch", {"url": "https://invented.example/x"})
        assert refused.error["rule"] == "not_provided"


@pytest.mark.parametrize(
    "tasks",
    [
        [{"what": ""}],
        [{"what": "x" * 201}],
        [{"what": "x"}] * 51,
        [{"what": "x", "state": "maybe"}],
        [{"x": 1}],
        "x",
    ],
)
async def test_what_is_no_list_of_tasks_is_refused(sessions, tmp_path, tasks) -> None:
    async with sessions.session(tmp_path) as runtime:
        refused = await runtime.call("todo", {"tasks": tasks})
        assert refused.outcome.gate == "known" and not runtime.todo.tasks
