"""Profiles of the person's file: one is laid over the rest, each is checked, a workspace has none."""

from __future__ import annotations

import pytest

from leeward.runtime.config import ConfigError, load

TEXT = """
[agent]
max_turns = 7

[profiles.careful.permissions]
autonomy = "readonly"

[profiles.careful.agent]
timeout = 60

[profiles.fast]
agent = { max_turns = 3 }
"""


@pytest.fixture
def read(tmp_path):
    def read(text, **more):
        (tmp_path / "config.toml").write_text(text)
        more.setdefault("environment", {})
        return load(config_dir=tmp_path, **more)

    return read


def test_without_a_name_none_is_used(read):
    loaded = read(TEXT)
    assert (loaded.config.agent.max_turns, loaded.config.permissions.autonomy) == (7, "supervised")


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_one_is_laid_over_the_file_with_its_own_lines(read, how):
    more = (
        {"flags": {"profile": "careful"}}
        if how == "flag"
        else {"environment": {"LEEWARD_PROFILE": "careful"}}
    )
    loaded = read(TEXT, **more)
    assert (loaded.config.agent.max_turns, loaded.config.agent.timeout) == (7, 60)
    assert loaded.config.permissions.autonomy == "readonly"
    assert loaded.sources["permissions.autonomy"] == "config.toml:6"
    assert loaded.sources["agent.max_turns"] == "config.toml:3"
    assert read(TEXT, flags={"profile": "fast"}).config.agent.max_turns == 3


def test_a_flag_outweighs_the_variable_and_what_is_above_outweighs_a_profile(read):
    loaded = read(
        TEXT,
        flags={"profile": "fast", "agent.max_turns": 2},
        environment={"LEEWARD_PROFILE": "careful", "LEEWARD_AGENT__TIMEOUT": "9"},
    )
    assert (loaded.config.agent.max_turns, loaded.config.agent.timeout) == (2, 9)
    assert loaded.config.permissions.autonomy == "supervised"


def test_a_profile_is_another_configuration_for_what_was_allowed_in_a_session(read):
    assert read(TEXT).digest != read(TEXT, flags={"profile": "fast"}).digest
    assert read(TEXT).digest == read(TEXT.partition("[profiles")[0]).digest


@pytest.mark.parametrize(
    ("text", "flags", "problem"),
    [
        (TEXT, {"profile": "slow"}, "there is no profile slow (there are: careful, fast)"),
        ("", {"profile": "slow"}, "there is no profile slow (there are: none)"),
        ("profiles = 1", {}, "config.toml:1: profiles: found 1, expected a table"),
        ("[profiles]\na = 1", {}, "config.toml:2: profiles.a: found 1, expected a table"),
        ("[profiles.a.agent]\nmax_turn = 1", {}, "config.toml:2: agent.max_turn: unknown key"),
        ("[profiles.a.agent]\nmax_turns = 'x'", {"profile": "a"}, "config.toml:2: agent.max_turns: "),
        ("[profiles.a.profiles.b.agent]\nmax_turns = 1", {}, "profiles: unknown key"),
    ],
)
def test_what_is_wrong_in_any_is_said_with_its_line(read, text, flags, problem):
    with pytest.raises(ConfigError) as caught:
        read(text, flags=flags)
    assert problem in str(caught.value)


def test_a_workspace_brings_none(tmp_path, read):
    inner = tmp_path / "ws/.leeward/config.toml"
    inner.parent.mkdir(parents=True)
    inner.write_text("[profiles.a.agent]\nmax_turns = 1\n")
    with pytest.raises(ConfigError, match="profiles: unknown key"):
        read("", workspace=tmp_path / "ws", trusted=True)


def test_it_holds_for_every_command(leeward):
    leeward.configure(TEXT)
    shown = leeward("--profile", "fast", "config", "show", "--output", "json").json["data"]["values"]
    assert shown["agent.max_turns"] == {"value": 3, "source": "config.toml:12"}
    refused = leeward("--profile", "slow", "config", "show")
    assert refused.code == 2 and "there is no profile slow" in refused.err
