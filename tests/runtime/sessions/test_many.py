"""Many sessions in one runtime: nothing of one is known in another, and one that fails ends alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from leeward.runtime.app import Runtime
from leeward.runtime.config import ConfigError
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.security.permissions import Always
from leeward.security.ports import Answer, Question, Reply
from leeward.security.trust import Origin
from leeward.security.url import Provenance
from leeward.tools.declare import Text, WorkspacePath, tool
from loading import load_module

HELD = load_module(Path(__file__).parents[1] / "sessions.py")
Says, rows, session, verdict = HELD.Says, HELD.rows, HELD.session, HELD.verdict

SESSIONS = 200
LIMIT = 5
CONFIG = f"""
[agent]
max_tool_calls_per_session = {LIMIT}
[tools.sandbox]
level = "none"
"""


@tool(effects=Effect.READ, result=Origin.TOOL)
async def echo(text: Text) -> str:
    """Return a text."""
    return f"heard {text}"


@tool(effects=Effect.WRITE, result=Origin.TOOL)
async def mark(path: WorkspacePath) -> str:
    """Change nothing, but be asked about as if it did."""
    return f"marked {path}"


@tool(effects=Effect.READ)
async def hang() -> str:
    """Never return."""
    await trio.sleep_forever()
    return ""


@tool(effects=Effect.READ)
async def broken() -> str:
    """Fail in a way nobody foresaw."""
    raise RuntimeError("a bug of the tool")


@dataclass
class SaysAlways:
    """A person who says "always" where that is on offer, and else yes."""

    asked: list[str] = field(default_factory=list)

    async def ask(self, question: Question) -> Reply:
        await trio.lowlevel.checkpoint()
        self.asked.append(question.action.call.arguments)
        return Always(question.always) if question.always else Answer.YES


async def marked(runtime: Runtime, number: int, folder: Path) -> None:
    """Hold a session in which everything carries its number, and look for that of another in it."""
    own = f"marker-{number:03}-"
    (folder / f"{own}.txt").write_text(f"{own} stands here", encoding="utf-8")
    reads, writes, has_job = number % 2 == 0, number % 5 == 0, number % 100 == 0
    says = Says([("echo", {"text": own})], f"done {own}")
    person, heard = SaysAlways(), []
    opened = runtime.session(provider=says, approver=person, listener=heard.append, workspace=folder)
    async with opened as at:
        assert at.session_id != runtime.session_id and at.pipeline.session.calls_this_session == 0
        await at.give(f"https://{own}.example/page", Provenance.PERSON)
        await at.turn(f"go {own}")
        if reads:
            await at.call("read", {"path": f"{own}.txt"})
        if writes:
            await at.call("mark", {"path": f"{own}.txt"})
            await at.call("mark", {"path": f"{own}.txt"})  # granted by now: nobody is asked again
        if has_job:
            started = await at.call("shell", {"command": f"sleep 600; echo {own}", "background": True})
            assert verdict(started) == ("ok", None), started
            assert [own in job.command for job in at.jobs.all()] == [True]
        while (calls := at.pipeline.session.calls_this_session) < LIMIT:
            await at.call("echo", {"text": f"{own} {calls}"})
        assert verdict(await at.call("echo", {"text": own})) == ("denied", "budget")
        assert [one for one in person.asked if "sleep" not in one] == [f'{{"path": "{own}.txt"}}'] * writes

        state, audit = at.pipeline.session, await rows(at)
        assert [str(url) for url, _ in state.ledger.entries()] == [f"https://{own}.example/page"]
        assert (Origin.WORKSPACE in state.labels) is (reads or has_job)
        assert bool(state.grants) is writes and all(own in (grant.match or "") for grant in state.grants)
        for text in map(repr, (audit, says.requests, at.conversation.messages, heard, state)):
            assert text.count("marker-") == text.count(own) > 0
        assert {row.session for row in audit} == {at.session_id} and at.places.workspace == folder
    ended = [row.kind for row in await runtime.audit.list_records(at.session_id, 100_000)]
    assert (ended[0], ended.count("decision"), ended.count("outcome")) == ("session", LIMIT + 1, LIMIT)
    assert "ended" in ended


async def test_nothing_of_two_hundred_sessions_at_once_is_known_in_another(tmp_path: Path) -> None:
    folders = [tmp_path / f"ws{number}" for number in range(3)]
    for folder in folders:
        folder.mkdir()
    async with session(tmp_path, CONFIG, says=[], executors=[echo, mark]) as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(SESSIONS):
                nursery.start_soon(marked, runtime, number, folders[number % 3])
        state = runtime.pipeline.session
        assert (state.calls_this_session, state.labels, state.grants, state.ledger.entries()) == (
            0,
            frozenset(),
            (),
            (),
        )
        assert "marker-" not in repr([await rows(runtime), runtime.heard, runtime.conversation.messages])


async def test_one_that_fails_hangs_or_is_cancelled_leaves_the_others_and_what_is_shared_whole(
    tmp_path: Path,
) -> None:
    tools = [echo, hang, broken]
    async with session(tmp_path, CONFIG, says=[], executors=tools) as runtime:
        hangs, done = trio.Event(), trio.Event()

        async def hanging(scope: trio.CancelScope, ids: list[str]) -> None:
            with scope:
                says = Says([("hang", {})])
                async with runtime.session(provider=says, listener=lambda _: hangs.set()) as at:
                    ids.append(at.session_id)
                    await at.turn("hang")
            assert scope.cancelled_caught

        async def working() -> None:
            await hangs.wait()
            async with runtime.session(provider=Says([("echo", {"text": "x"})], "y")) as at:
                assert (await at.turn("go")).reason == "done"
            done.set()

        scope, ids = trio.CancelScope(), list[str]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hanging, scope, ids)
            nursery.start_soon(working)
            await done.wait()  # while the other one still hangs
            scope.cancel()
        ended = {row.kind: row.body for row in await runtime.audit.list_records(ids[0], 100)}
        assert ended["outcome"]["status"] == "cancelled" and "ended" in ended

        with pytest.raises(LookupError, match="the embedding program's own"):
            async with runtime.session() as at:
                assert verdict(await at.call("broken", {})) == ("error", None)
                raise LookupError("the embedding program's own")
        assert "ended" in {row.kind for row in await runtime.audit.list_records(at.session_id, 100)}
        with pytest.raises(Exception, match="two executors claim"):
            async with runtime.session(executors=[echo, echo]):
                pass
        async with runtime.session(workspace=tmp_path) as at:
            assert verdict(await at.call("echo", {"text": "whole"})) == ("ok", None)
        assert verdict(await runtime.call("echo", {"text": "whole"})) == ("ok", None)
        assert (await runtime.audit.verify()).problem is None


async def test_a_session_has_values_of_its_own_over_those_of_its_runtime(tmp_path: Path) -> None:
    async with session(tmp_path, CONFIG + '[permissions]\nautonomy = "readonly"\n') as runtime:
        async with runtime.session(config={"tools": {"shell": {"timeout": 7}}}) as other:
            assert (other.config.tools.shell.timeout, other.config.permissions.autonomy) == (7, "readonly")
            assert other.config.agent == runtime.config.agent
            assert other.loaded.sources["tools.shell.timeout"] == "flag"
            assert other.loaded.sources["permissions.autonomy"] == "config.toml:7"
            assert other.loaded.files == runtime.loaded.files
        async with runtime.session(config={}) as other:
            assert other.loaded == runtime.loaded
        file = tmp_path / "other.toml"
        file.write_text('[tools.sandbox]\nlevel = "none"\n', encoding="utf-8")
        async with runtime.session(config=file) as other:
            assert other.config.permissions.autonomy == "supervised"
        with pytest.raises(ConfigError, match=r"tools\.nothing: unknown key"):
            async with runtime.session(config={"tools.nothing": 1}):
                pass


async def test_secret_files_of_the_runtime_are_secret_in_each_session(tmp_path: Path) -> None:
    ws = tmp_path.resolve() / "workspace"
    ws.mkdir()
    of_runtime = f"""
[storage]
path = "{ws}/own.db"
[[llm.providers]]
name = "work"
base_url = "https://llm.example/v1"
api_key_file = "{ws}/key.txt"
[secrets.TOKEN]
file = "{ws}/token.txt"
hosts = ["a.example"]
"""
    names = ("own.db", "own.db-wal", "key.txt", "token.txt")
    for name in names:
        (ws / name).write_text("made-up-value-1234\n", encoding="utf-8")
        (ws / name).chmod(0o600)
    file = tmp_path / "other.toml"
    file.write_text('[permissions]\nautonomy = "full"\n' + CONFIG, encoding="utf-8")
    without = {"storage.path": "", "llm.providers": [], "secrets": {}, "permissions.autonomy": "full"}
    async with session(tmp_path, CONFIG + of_runtime, workspace=ws) as runtime:
        for config in (None, {}, without, file):
            async with runtime.session(config=config, workspace=ws) as at:
                for name in names:
                    assert verdict(await at.call("read", {"path": name})) == ("denied", "paths"), (
                        config,
                        name,
                    )
                    written = await at.call("write", {"path": name, "content": "x"})
                    assert written.outcome.status is Status.DENIED, (config, name)
                line = f"printf x >> {names[0]}"
                assert (await at.call("shell", {"command": line})).outcome.status is not Status.OK, config
    assert all((ws / name).read_text(encoding="utf-8") == "made-up-value-1234\n" for name in names[1:])


async def test_a_loaded_configuration_takes_no_values_beside_it(tmp_path: Path) -> None:
    async with session(tmp_path, CONFIG) as runtime:
        loaded = runtime.loaded
        for options in ({"config": {}}, {"model": "offline"}, {"config": {}, "model": "offline"}):
            with pytest.raises(TypeError, match="so `.* would have no effect"):
                async with Runtime.open(loaded, **options):
                    pass
            with pytest.raises(TypeError, match="so `.* would have no effect"):
                async with Runtime.open(loaded=loaded, **options):
                    pass
        with pytest.raises(TypeError, match="so `config` would have no effect"):
            async with runtime.session(loaded=loaded, config={}):
                pass
        with pytest.raises(TypeError, match=r"a pathlib\.Path or a mapping of values by key, not a str"):
            async with Runtime.open(config="leeward.toml"):
                pass
        async with runtime.session(loaded=loaded) as other:
            assert other.loaded is loaded


async def test_two_runtimes_in_one_process_work_on_one_database(tmp_path: Path) -> None:
    async with (
        session(tmp_path, CONFIG, says=["one"], executors=[echo]) as one,
        session(tmp_path, CONFIG, says=["two"], executors=[echo]) as other,
    ):
        assert one._parts.shared.database is other._parts.shared.database
        async with trio.open_nursery() as nursery, one.session() as third, other.session() as fourth:
            for at in (one, other, third, fourth):
                nursery.start_soon(at.call, "echo", {"text": at.session_id})
        found = {
            at.session_id: await one.audit.list_records(at.session_id, 100)
            for at in (one, other, third, fourth)
        }
        assert len(found) == 4
        for name, records in found.items():
            assert all(other_id == name or other_id not in repr(records) for other_id in found)
        async with other.session() as last:
            assert verdict(await last.call("echo", {"text": "y"})) == ("ok", None)
    async with session(tmp_path, CONFIG, says=[]) as again:
        assert (await again.audit.verify()).problem is None


async def test_sessions_share_a_workspace_as_long_as_one_of_them_is_open(tmp_path: Path) -> None:
    async with session(tmp_path, CONFIG, says=[]) as runtime:
        shared = runtime._parts.shared
        async with runtime.session() as beside, runtime.session(workspace=tmp_path) as elsewhere:
            assert beside.sandbox._running is runtime.sandbox._running
            assert elsewhere.sandbox._running is not runtime.sandbox._running
            assert len(shared._opened) == 2
        assert [key[0] for key in shared._opened] == [str(runtime.places.workspace)]
        folders = [opened.workspace.kit.folder for opened in shared._opened.values()]
        assert all(Path(folder).exists() for folder in folders)
    assert not shared._opened and not any(Path(folder).exists() for folder in folders)


async def test_what_is_moved_aside_is_told_to_the_session_whose_program_left_it(tmp_path: Path) -> None:
    told: dict[str, list[str]] = {"one": [], "other": []}
    async with session(tmp_path, CONFIG, says=[]) as runtime:
        views = {name: runtime.sandbox.heard_by(heard.append) for name, heard in told.items()}
        views["one"]._settings.alert("left something")
        assert told == {"one": ["left something"], "other": []}
        assert views["one"]._late is views["other"]._late is runtime.sandbox._late


async def test_a_call_that_waits_in_a_thread_for_a_write_needs_no_second_thread(tmp_path: Path) -> None:
    """Otherwise as many calls at once as there are threads would wait for each other for ever."""
    limiter = trio.to_thread.current_default_thread_limiter()
    async with session(tmp_path, CONFIG, says=[], approver=SaysAlways()) as runtime:
        limiter.total_tokens = 1
        with trio.fail_after(60):
            written = await runtime.call("write", {"path": "new.txt", "content": "x" * 1000})
        assert verdict(written) == ("ok", None), written


class Borrower:
    """An executor of the program that is lent a secret."""

    requires_secrets = ("MANY_TOKEN",)

    def __init__(self) -> None:
        self.clients: list[object] = []

    def specs(self) -> tuple[()]:
        return ()

    async def execute(self, cleared: object) -> object:
        raise AssertionError(cleared)

    def lend(self, client: object) -> None:
        self.clients.append(client)


async def test_an_executor_is_lent_its_secrets_by_the_runtime_or_by_the_session_that_brought_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANY_TOKEN", "not-a-real-secret-1")
    config = f'{CONFIG}\n[secrets.MANY_TOKEN]\nenv = "MANY_TOKEN"\nhosts = ["api.example.com"]\n'
    shared, own = Borrower(), Borrower()
    async with session(tmp_path, config, says=[], executors=[shared]) as runtime:
        async with runtime.session(), runtime.session(executors=[own]) as at:
            assert (len(shared.clients), len(own.clients)) == (1, 1)
            assert "not-a-real-secret-1" in at._parts.secrets


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["audit.start_session", "transcript.start", "audit.append"])
async def test_a_session_that_is_cancelled_while_it_begins_ends(tmp_path, monkeypatch, step, when):
    async with session(tmp_path, CONFIG, says=[]) as runtime:
        owner, _, name = step.partition(".")
        owner, scope = getattr(runtime, owner), trio.CancelScope()

        async def cancelled(*arguments, real=getattr(owner, name)):
            if when == "before":
                scope.cancel()
            await real(*arguments)
            scope.cancel()

        monkeypatch.setattr(owner, name, cancelled)
        with scope:
            async with runtime.session():
                await trio.sleep_forever()
        monkeypatch.undo()
        assert scope.cancelled_caught
        found = await runtime.audit.list_records(limit=1000, kinds=("session", "ended"))
        # The first session of the runtime is at work still.
        begun = [record.session for record in found if record.session != runtime.session_id]
        assert len(begun) == 2 and len({*begun}) == 1
