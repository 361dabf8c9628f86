"""Grants that outlive a session: stored, used and revoked together with their records."""

from __future__ import annotations

from pathlib import Path

import pytest

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.grants import GrantStore
from leeward.security.ports import RecordError
from leeward.security.session import Decided, Grant, Granted, Revoked, Scope

HERE, ELSEWHERE = "/ws", "/ws2"


def granted(
    name: str,
    scope: Scope = Scope.WORKSPACE,
    until: float | None = None,
    folder: str | None = None,
    *,
    stored: bool = False,
) -> Granted:
    workspace = HERE if scope is Scope.WORKSPACE else None
    grant = Grant(name, "shell", "git push", scope, until, folder)
    return Granted(5.0, grant, workspace, "call_1", stored=stored)


@pytest.fixture
def audit(database: Database, clock) -> AuditLogger:
    return AuditLogger(database, clock)


@pytest.fixture
def store(database: Database, clock) -> GrantStore:
    return GrantStore(database, clock)


async def names(store: GrantStore, workspace: str = HERE) -> list[str]:
    return [one.grant.id for one in await store.holding_in(workspace)]


async def test_what_was_granted_comes_back_as_it_was(audit, store, clock) -> None:
    event = granted("g_1", until=clock.now() + 60)
    await audit.append("s_1", event)
    [one] = await store.all()
    assert one.grant == event.grant
    assert (one.workspace, one.granted_at, one.session, one.call, one.last_used) == (
        HERE,
        5.0,
        "s_1",
        "call_1",
        None,
    )
    assert Granted.taken_in(one, 7.0) == Granted(7.0, event.grant, HERE, stored=True)


async def test_the_folder_of_a_command_comes_back(audit, store) -> None:
    await audit.append("s_1", granted("g_1", folder="/ws/src"), granted("g_2"))
    assert [one.grant.folder for one in await store.all()] == ["/ws/src", None]
    assert [Granted.taken_in(one, 7.0).grant.folder for one in await store.all()] == ["/ws/src", None]


@pytest.mark.parametrize(
    ("scope", "here", "elsewhere"),
    [(Scope.SESSION, [], []), (Scope.WORKSPACE, ["g_1"], []), (Scope.EVERYWHERE, ["g_1"], ["g_1"])],
)
async def test_a_grant_holds_where_it_was_given(audit, store, scope, here, elsewhere) -> None:
    await audit.append("s_1", granted("g_1", scope))
    assert (await names(store), await names(store, ELSEWHERE)) == (here, elsewhere)


@pytest.mark.parametrize("workspace", ["/ws/", "/WS", "/ws/sub", "/", "", "%", "/w_"])
async def test_a_workspace_is_that_one_and_nothing_like_it(audit, store, workspace) -> None:
    await audit.append("s_1", granted("g_1"))
    assert await names(store, workspace) == []


async def test_an_expired_grant_is_not_taken_in_and_then_forgotten(audit, store, clock) -> None:
    await audit.append("s_1", granted("g_1", until=clock.now() + 10), granted("g_2"))
    assert await names(store) == ["g_1", "g_2"]
    clock.time += 10
    assert await names(store) == ["g_2"]
    assert len(await store.all()) == 2
    await store.prune()
    assert [one.grant.id for one in await store.all()] == ["g_2"]


async def test_a_revoked_grant_is_gone_for_every_later_session(audit, store) -> None:
    await audit.append("s_1", granted("g_1"), granted("g_2"))
    await audit.append("s_2", Revoked(6.0, "g_1"))
    assert await names(store) == ["g_2"]
    # A session that had read it before writes down that it took it in: that brings nothing back.
    await audit.append("s_3", granted("g_1", stored=True))
    assert await names(store) == ["g_2"]


async def test_when_it_was_used_is_known(audit, store) -> None:
    await audit.append("s_1", granted("g_1"), granted("g_2"))
    await audit.append("s_1", Decided(8.0, "c", "shell", "d", True, grants=("g_1", "g_unknown")))
    assert {one.grant.id: one.last_used for one in await store.all()} == {"g_1": 8.0, "g_2": None}


async def test_no_grant_is_kept_that_is_not_on_record(audit, store, database) -> None:
    await database.write(
        [("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'x'); END", ())]
    )
    with pytest.raises(RecordError):
        await audit.append("s_1", granted("g_1"))
    assert await store.all() == []
    await database.write([("DROP TRIGGER full", ())])
    event = granted("g_1")
    await audit.append("s_1", event)
    assert await names(store) == ["g_1"]


async def test_what_a_model_wrote_into_a_pattern_is_a_value(audit, store) -> None:
    nasty = "x'; DELETE FROM lasting_grant; --\ud800"
    await audit.append("s_1", Granted(1.0, Grant("g_1", "shell", nasty, Scope.EVERYWHERE)))
    assert [one.grant.match for one in await store.all()] == ["x'; DELETE FROM lasting_grant; --\\ud800"]


async def test_two_processes_see_each_others_grants(audit, store, clock, tmp_path: Path) -> None:
    await audit.append("s_1", granted("g_1"))
    async with (
        AsyncioThread.open("other") as asyncio_thread,
        Database.open(tmp_path / "store.db", asyncio_thread) as other,
    ):
        assert await names(GrantStore(other, clock)) == ["g_1"]
        await AuditLogger(other, clock).append("s_2", Revoked(6.0, "g_1"))
    assert await names(store) == []


async def test_listing_uses_no_more_than_it_must(database) -> None:
    plan = await database.read("EXPLAIN QUERY PLAN UPDATE lasting_grant SET last_used = 1 WHERE id = 'g'")
    assert "USING PRIMARY KEY" in plan[0][-1]
