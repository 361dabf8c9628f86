"""Which tools exist, and how the configuration reaches the built-in ones."""

from __future__ import annotations

import pytest

from leeward.runtime.config import load
from leeward.runtime.executors import all_tools, builtin_settings, configured_executors
from leeward.runtime.exits import CliError
from leeward.runtime.policy import to_policy
from leeward.security.kinds import KIND_KEY, Effect
from leeward.security.trust import TrustLevel
from leeward.tools.builtin import builtin_tools
from leeward.tools.declare import spec_from_schema, tool

CONFIG = """
[[permissions.rules]]
tool = "*"
match = "private/**"
action = "deny"
[tools.shell]
timeout = 7
[tools.fetch]
timeout = 3
max_body_bytes = 0
allow_networks = ["10.1.0.0/16"]
[tools.overflow]
max_overflow_bytes = 2000
[security.pre_execution_verify.url_grounding]
guarded_tools = ["fetch", "web_scrape", "peek"]
"""


@pytest.fixture
def loaded(sessions, tmp_path):
    def read(text: str = ""):
        where = sessions.places(tmp_path)
        (where.config / "config.toml").write_text(text, encoding="utf-8")
        found = load(config_dir=where.config, environment={})
        policy = to_policy(
            found,
            workspace=where.workspace,
            home=where.home,
            headless=True,
            data_dir=where.data,
            config_dir=where.config,
        )
        return found.config, policy

    return read


def built_in(config, policy):
    return builtin_tools(builtin_settings(config, policy, None, None, lambda: None))


def test_settings_follow_the_configuration(loaded):
    config, policy = loaded(CONFIG)
    settings = builtin_settings(config, policy, None, None, lambda: None)
    assert (settings.shell_timeout, settings.fetch_timeout, settings.allow_networks) == (
        7.0,
        3.0,
        ("10.1.0.0/16",),
    )
    assert settings.max_output == 2000 and settings.max_body_bytes > 0 and settings.ca_file is None
    assert settings.policy is policy
    specs = {spec.name: spec for spec in all_tools(config, built_in(config, policy)).specs()}
    assert specs["shell"].timeout == 7.0
    assert 3.0 < specs["fetch"].timeout <= 5.0, "the tool says itself what was too slow, before it is cut off"


def test_the_built_in_tools_say_what_they_are(loaded):
    config, policy = loaded()
    specs = {spec.name: spec for spec in all_tools(config, built_in(config, policy)).specs()}
    assert set(specs) == {
        "read", "write", "edit", "multi_edit", "list_directory", "find_path", "grep", "create_directory",
        "copy_path",
        "move_path", "delete_path", "shell", "fetch", "web_scrape", "read_overflow", "memory_save",
        "memory_search",
        "job_output", "job_stop", "read_untrusted", "todo",
    }  # fmt: skip
    assert all(spec.level is TrustLevel.TRUSTED and spec.source == "built in" for spec in specs.values())
    assert specs["shell"].effects is Effect.ALL and specs["read"].effects is Effect.READ
    kinds = {
        (name, argument): node.get(KIND_KEY)
        for name, spec in specs.items()
        for argument, node in spec.schema["properties"].items()
        if node.get("type") == "string"
    }
    assert kinds["fetch", "url"] == "url" and kinds["shell", "command"] == "command"
    assert kinds["read_overflow", "id"] == "resource_id" and kinds["read", "path"] == "path"
    assert None not in kinds.values()


def test_guarded_by_name_and_by_configuration(loaded):
    config, policy = loaded(CONFIG)

    @tool(effects=Effect.READ)
    async def peek(what: str) -> str:
        """Look."""
        return what

    @tool(effects=Effect.READ, name="docs_fetch")
    async def docs(what: str) -> str:
        """Look."""
        return what

    found = all_tools(config, built_in(config, policy), [peek, docs])
    for name in ("peek", "docs_fetch"):
        assert found.spec(name).schema["properties"]["what"][KIND_KEY] == "url"
        assert found.spec(name).source == "handed in"
    assert all_tools(config, [], [peek]).spec("peek").level is TrustLevel.TRUSTED


@pytest.mark.parametrize("name", ["Bad", "", "a b", "x" * 65, "tool.name", "naïve"])
def test_a_name_no_model_could_be_told_is_a_clean_error(loaded, name):
    config, policy = loaded()

    class Odd:
        def specs(self):
            good = spec_from_schema("good", "", {"type": "object"})
            return [type(good)(name, "", good.schema, good.check)]

        async def execute(self, cleared):
            raise NotImplementedError

    with pytest.raises(CliError, match="handed in"):
        all_tools(config, built_in(config, policy), [Odd()])


def test_nothing_named_is_nothing_loaded(loaded):
    config, _ = loaded()
    assert list(configured_executors(config)) == []
