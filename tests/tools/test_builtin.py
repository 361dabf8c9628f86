from __future__ import annotations

from dataclasses import replace

import pytest

from leeward.security.kinds import KIND_KEY, Effect, Kind
from leeward.security.outcome import PermanentFailure
from leeward.security.schema import leaves
from leeward.security.session import Session
from leeward.tools.builtin import BuiltinSettings, builtin_tools, open_builtin_tools
from leeward.tools.composite import CompositeExecutor
from leeward.tools.declare.schema import nodes

READS, WRITES = Effect.READ, Effect.WRITE

OPENS = Effect.SEND | Effect.BRING_IN
EFFECTS = {
    "read": READS, "write": WRITES, "edit": READS | WRITES, "multi_edit": READS | WRITES,
    "list_directory": READS, "find_path": READS, "grep": READS,
    "create_directory": WRITES, "copy_path": READS | WRITES, "move_path": READS | WRITES,
    "delete_path": WRITES,
    "shell": Effect.ALL, "fetch": OPENS, "web_scrape": OPENS, "read_overflow": READS,
    "job_output": READS, "job_stop": READS, "memory_save": WRITES, "memory_search": READS,
    "read_untrusted": READS | Effect.BRING_IN, "todo": READS,
}  # fmt: skip


@pytest.fixture
def settings(policy):
    class Empty:
        async def get(self, *_): ...

        async def search(self, *_): ...

    return BuiltinSettings(
        policy.workspace, policy.home, Empty(), Empty(), lambda: Session("s", policy), policy
    )


def test_the_built_in_tools_and_what_they_do(settings):
    specs = CompositeExecutor(builtin_tools(settings)).specs()
    assert {spec.name: spec.effects for spec in specs} == EFFECTS
    assert all(spec.source == "built in" and len(spec.description) > 20 for spec in specs)


def test_every_string_a_built_in_tool_takes_has_a_kind(settings):
    for executor in builtin_tools(settings):
        for spec in executor.specs():
            strings = [node for node in nodes(spec.schema) if node.get("type") == "string"]
            free = [node for node in strings if "enum" not in node]
            assert free and all(node.get(KIND_KEY) in set(Kind) for node in free), spec.name


async def test_settings_reach_the_tools(settings, workspace, run):
    (workspace / "key.pem").write_text("needle")
    (workspace / "a.txt").write_text("needle")
    made = BuiltinSettings(**{
        **{name: getattr(settings, name) for name in BuiltinSettings.__slots__},
        "policy": replace(settings.policy, deny_read=("*.pem",)), "shell_timeout": 7.0, "max_output": 5,
        "fetch_timeout": 3.0,
        "parent_environment": {"LANG": "C", "SECRET": "x"},
    })  # fmt: skip
    async with open_builtin_tools(made) as tools:
        all_tools = CompositeExecutor(tools)
        assert (await run(all_tools, {"pattern": "needle"}, tool="grep")).text == "a.txt:1: needle"
        assert (await run(all_tools, {"command": "echo $HOME$SECRET"}, tool="shell")).text.startswith(
            f"{settings.home[:2]}\n[... "
        )
        assert all_tools.spec("shell").timeout == 7.0 and all_tools.spec("fetch").timeout == 4.0


@pytest.fixture(scope="module")
def example(script):
    return script("../examples/custom_executor.py")


async def test_the_example_is_a_function_and_an_executor(example, run, settings):
    every = CompositeExecutor([*builtin_tools(settings), *example.executors()])
    output = await run(every, {"city": "Kiel", "page": "https://w.example/"}, tool="weather")
    assert output.text == '{"city":"Kiel","page":"https://w.example/","station":null,"sky":"clear"}'
    assert (await run(every, {"query": "about tides?"}, tool="library_search")).text == "The Book of Tides"
    with pytest.raises(PermanentFailure, match="lent already"):
        await run(every, {"book": "tides"}, tool="library_lend")


def test_the_example_declares_kinds_and_leaves_one_string_undeclared(example):
    every = CompositeExecutor(example.executors())

    def kinds(tool, arguments):
        return {leaf.pointer: set(leaf.kinds) for leaf in leaves(arguments, every.spec(tool).schema)}

    assert kinds("weather", {"city": "a", "page": "b", "station": "c"}) == {
        "/city": {Kind.TEXT}, "/page": {Kind.URL}, "/station": {Kind.RESOURCE_ID},
    }  # fmt: skip
    assert kinds("library_search", {"query": "a"}) == {"/query": {Kind.UNDECLARED}}
    assert kinds("library_lend", {"book": "a"}) == {"/book": {Kind.RESOURCE_ID}}
    assert every.spec("library_lend").check({"book": "a", "more": 1}).problems
