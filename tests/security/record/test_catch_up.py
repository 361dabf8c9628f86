"""Grants and revocations made elsewhere while a session runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from leeward.security.call import Status
from leeward.security.kinds import Effect, Kind
from leeward.security.ports import Answer, RecordError
from leeward.security.session import Decided, Grant, Granted, GrantEntry, Revoked, Scope


def held(grant: Grant, workspace: str | None = "/ws") -> GrantEntry:
    """A grant as it is stored."""
    return GrantEntry(grant, workspace, 1.0, "s_other", None, None)


@dataclass
class Stored:
    """The grants of all processes; `meanwhile` happens here while they are read."""

    held: list = field(default_factory=list)
    problem: Exception | None = None
    meanwhile: object = None
    reads: int = 0

    async def holding_in(self, workspace):
        self.reads += 1
        found = list(self.held)
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.problem is not None:
            raise self.problem
        return found


def lasting(name="g_1", match="/ws/a", until=None):
    return Grant(name, "write", match, Scope.WORKSPACE, until)


@pytest.fixture
def stored():
    return Stored()


@pytest.fixture
def desk(make, stored):
    made = make.desk(make.spec("write", Effect.WRITE, kinds={"path": Kind.PATH}), grants=stored)
    made.says(*[Answer.NO] * 9)
    return made


async def writes(desk, path="a", name="c1"):
    return (await desk.run("write", {"path": path}, call_id=name)).outcome.status is Status.OK


async def test_what_others_grant_and_revoke_counts_at_the_next_call(desk, stored) -> None:
    assert not await writes(desk)
    stored.held = [held(lasting())]
    assert await writes(desk, name="c2")
    assert [(event.stored, event.grant.id) for event in desk.audit.of(Granted)] == [(True, "g_1")]
    stored.held = []
    assert not await writes(desk, name="c3")
    assert [event.id for event in desk.audit.of(Revoked)] == ["g_1"] and desk.session.grants == ()
    order = [type(event).__name__ for event in desk.audit.committed]
    assert order.index("Granted") < order.index("Decided", 2) and order[-3] == "Revoked"


async def test_nothing_is_recorded_where_nothing_changed(desk, stored) -> None:
    stored.held = [held(lasting()), held(lasting("g_2", "/ws/b"), None)]
    for number in range(3):
        assert await writes(desk, name=f"c{number}")
    assert len(desk.audit.of(Granted)) == 2 and desk.audit.of(Revoked) == []


async def test_a_call_whose_grants_cannot_be_read_does_not_run(desk, stored) -> None:
    stored.held = [held(lasting())]
    assert await writes(desk)
    stored.problem = RecordError("the disk is gone")
    result = await desk.run("write", {"path": "a"}, call_id="c2")
    assert result.error["code"] == "AUDIT_UNAVAILABLE" and len(desk.ran) == 1
    stored.problem = None
    assert await writes(desk, name="c3")


async def test_what_happens_here_meanwhile_is_known_better_here(desk, stored) -> None:
    mine, theirs = lasting(), lasting("g_2", "/ws/b")

    async def grant():
        await desk.pipeline.note(Granted(1.0, Grant("g_1", "write", "/ws/a", Scope.WORKSPACE, None), "/ws"))

    stored.meanwhile = grant
    assert await writes(desk) and desk.audit.of(Revoked) == [], "what was granted while it was read stays"

    async def revoke():
        await desk.pipeline.note(Revoked(1.0, "g_1"))

    stored.held, stored.meanwhile = [held(mine), held(theirs)], revoke
    assert not await writes(desk, name="c2"), "what was revoked while it was read does not come back"
    assert [grant.id for grant in desk.session.grants] == ["g_2"]


async def test_what_is_not_on_the_disk_yet_was_not_revoked_elsewhere(desk, stored) -> None:
    desk.audit.refuses = lambda event: True
    await desk.pipeline.note(Granted(1.0, Grant("g_1", "write", "/ws/a", Scope.WORKSPACE, None), "/ws"))
    assert not await writes(desk) and desk.ran == [] and stored.reads == 0
    assert [grant.id for grant in desk.session.grants] == ["g_1"]


async def test_grants_of_the_session_and_those_that_expired_are_not_said_to_be_revoked(desk, stored) -> None:
    now = desk.session.now
    stored.held = [held(lasting(until=now + 10))]
    await desk.pipeline.note(Granted(now, Grant("g_s", "write", "/ws/b")))
    assert await writes(desk)
    stored.held = []
    desk.clock.at += 11
    assert not await writes(desk, name="c2") and await writes(desk, "b", "c3")
    assert desk.audit.of(Revoked) == []


async def test_a_grant_for_another_workspace_is_not_taken_in_again_and_again(desk, stored) -> None:
    stored.held = [held(lasting(), "/elsewhere")]
    for number in range(2):
        assert not await writes(desk, name=f"c{number}")
    assert desk.audit.of(Granted) == []


async def test_what_is_revoked_while_the_person_is_asked_answers_nothing_beside_them(make, stored) -> None:
    paths = {"path": Kind.PATH, "other": Kind.PATH}
    desk = make.desk(make.spec("write", Effect.WRITE, kinds=paths), grants=stored)
    stored.held = [held(lasting(match="/srv/x"))]

    async def revoked_meanwhile(question):
        stored.held = []
        return Answer.YES

    desk.approver.ask = revoked_meanwhile
    await desk.run("write", {"path": "/srv/x", "other": "/srv/y"})
    [decided] = desk.audit.of(Decided)
    assert decided.grants == () and desk.session.grants == ()
    assert decided.approver == "the person"
