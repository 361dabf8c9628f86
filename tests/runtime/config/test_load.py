"""Layers of configuration: how they merge, what is refused, and the message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.runtime.config import (
    KEYS,
    Config,
    ConfigError,
    Loaded,
    config_folder,
    data_folder,
    dotted,
    laid_over,
    load,
)
from loading import ROOT, rows_beside

ROWS = rows_beside(__file__)

SECRET = "sk-test-" + "0" * 32


def read(folder: Path, text: str | bytes, **layers: Any) -> Loaded:
    """Load a text as the person's config.toml."""
    (folder / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(config_dir=folder, **{"environment": {}, **layers})


def complaint(folder: Path, text: str | bytes, **layers: Any) -> str:
    """Return what is said about a text that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text, **layers)
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    loaded = load(config_dir=tmp_path / "none", environment={"HOME": "/x", "LEEWARDX": "1"})
    assert loaded.config == Config()
    assert loaded.files == ()
    assert set(loaded.sources) == {dotted(path) for path in KEYS}
    assert set(loaded.sources.values()) == {"default"}


def test_later_layers_go_before_earlier_ones(tmp_path: Path) -> None:
    text = "[agent]\nmax_turns = 2\nmax_tool_calls_per_turn = 2\nmax_tool_calls_per_session = 2"
    environment = {
        "LEEWARD_AGENT__MAX_TOOL_CALLS_PER_TURN": "3",
        "LEEWARD_AGENT__MAX_TOOL_CALLS_PER_SESSION": "3",
    }
    flags = {"agent.max_tool_calls_per_session": 4, "agent.timeout": None}
    loaded = read(tmp_path, text, environment=environment, flags=flags)
    agent = loaded.config.agent
    assert (agent.max_turns, agent.max_tool_calls_per_turn, agent.max_tool_calls_per_session) == (2, 3, 4)
    assert loaded.sources["agent.max_turns"] == "config.toml:2"
    assert (
        loaded.sources["agent.max_tool_calls_per_turn"]
        == "environment LEEWARD_AGENT__MAX_TOOL_CALLS_PER_TURN"
    )
    assert loaded.sources["agent.max_tool_calls_per_session"] == "flag"
    assert loaded.sources["agent.timeout"] == "default"
    assert loaded.files == (tmp_path / "config.toml",)


def test_rules_and_levels_of_all_layers_hold_together(tmp_path: Path) -> None:
    text = (
        '[security.trust]\nfetch = "verified"\n"plug-in x" = "blocked"\n'
        '[[permissions.rules]]\ntool = "a"\naction = "allow"\n\n[[permissions.rules]]\ntool = '
        '"b"\naction = "deny"'
    )
    environment = {
        "LEEWARD_PERMISSIONS__RULES": '[{tool = "c", action = "ask", force = true}]',
        "LEEWARD_SECURITY__TRUST__FETCH": "blocked",
        "LEEWARD_SECURITY__TRUST": '{shell = "verified"}',
    }
    loaded = read(tmp_path, text, environment=environment)
    assert [rule.tool for rule in loaded.config.permissions.rules] == ["a", "b", "c"]
    assert dict(loaded.config.security.trust) == {
        "fetch": "blocked",
        "plug-in x": "blocked",
        "shell": "verified",
    }
    said = {name: place for name, place in loaded.sources.items() if place != "default"}
    assert said == {
        "security.trust": "environment LEEWARD_SECURITY__TRUST",
        "security.trust.fetch": "environment LEEWARD_SECURITY__TRUST__FETCH",
        'security.trust."plug-in x"': "config.toml:3",
        "security.trust.shell": "environment LEEWARD_SECURITY__TRUST",
        "permissions.rules": "environment LEEWARD_PERMISSIONS__RULES",
        "permissions.rules.0": "config.toml:4",
        "permissions.rules.1": "config.toml:8",
        "permissions.rules.2": "environment LEEWARD_PERMISSIONS__RULES",
    }


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("AGENT__MAX_TURNS", "7", "agent.max_turns", 7),
        ("AGENT__MAX_TURNS", " 7 # seven", "agent.max_turns", 7),
        ("AGENT__TIMEOUT", "2.5", "agent.timeout", 2.5),
        ("AGENT__TIMEOUT", "2", "agent.timeout", 2.0),
        ("TOOLS__ANOMALY__ENABLED", "false", "tools.anomaly.enabled", False),
        ("TOOLS__PLUGINS", '["a", "b"]', "tools.plugins", ("a", "b")),
        ("PERMISSIONS__AUTONOMY", "full", "permissions.autonomy", "full"),
        ("PERMISSIONS__AUTONOMY", '"full"', "permissions.autonomy", "full"),
        ("LLM__MODEL", "openai:1.5", "llm.model", "openai:1.5"),
        ("LLM__MODEL", "offline", "llm.model", "offline"),
        ("LLM__PROXY", "", "llm.proxy", ""),
        ("STORAGE__PATH", "/tmp/a b.db", "storage.path", "/tmp/a b.db"),
        ("STORAGE__PATH", "/1979-05-27", "storage.path", "/1979-05-27"),
        ("TOOLS__FETCH__MAX_BODY_BYTES", "0", "tools.fetch.max_body_bytes", 102_400),
        ("TOOLS__OVERFLOW__MAX_OVERFLOW_BYTES", "0", "tools.overflow.max_overflow_bytes", 1 << 40),
    ],
)
def test_the_environment_is_read_as_toml_or_words(
    tmp_path: Path, name: str, value: str, key: str, expected: Any
) -> None:
    by_name = load(config_dir=tmp_path, environment={f"LEEWARD_{name}": value})
    by_flag = load(config_dir=tmp_path, environment={}, flags={key: value})
    for loaded in (by_name, by_flag):
        found: Any = loaded.config
        for part in key.split("."):
            found = getattr(found, part)
        assert found == expected
        assert type(found) is type(expected)
    assert by_name.digest == by_flag.digest


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [*ROWS["bad_variables_are_refused"], ("LEEWARD_OPENAI_KEY", SECRET, "unknown variable")],
)
def test_bad_variables_are_refused(tmp_path: Path, name: str, value: str, expected: str) -> None:
    said = complaint(tmp_path, "", environment={name: value})
    assert said.startswith(f"environment {name}: {expected.split(';', maxsplit=1)[0]}")
    assert said.endswith(expected.rsplit(";", maxsplit=1)[-1])


def test_a_variable_that_holds_a_providers_key_is_no_key_of_ours(tmp_path: Path) -> None:
    text = '[[llm.providers]]\nname = "a"\napi_key_env = "LEEWARD_A_KEY"'
    loaded = read(tmp_path, text, environment={"LEEWARD_A_KEY": SECRET, "LEEWARD_CONFIG": ""})
    assert SECRET not in repr(loaded)


def test_unknown_flags_are_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, "", flags={"agent.max_turn": 1}) == (
        "command line: agent.max_turn: unknown key; did you mean agent.max_turns?"
    )


def test_keys_that_must_fit_may_come_from_two_layers(tmp_path: Path) -> None:
    loaded = read(
        tmp_path, "[tools.anomaly]\nwindow_size = 4", environment={"LEEWARD_TOOLS__ANOMALY__MIN_SAMPLES": "3"}
    )
    assert (loaded.config.tools.anomaly.window_size, loaded.config.tools.anomaly.min_samples) == (4, 3)


def test_a_byte_order_mark_and_crlf_are_no_obstacle(tmp_path: Path) -> None:
    loaded = read(tmp_path, b"\xef\xbb\xbf[agent]\r\nmax_turns = 3\r\n")
    assert loaded.sources["agent.max_turns"] == "config.toml:2"


def test_ordinary_providers_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = """
        [llm]
        model = "local:qwen3:8b"
        proxy = "http://me:word@proxy.example.com:3128"
        [[llm.providers]]
        name = "local"
        base_url = "http://localhost:11434/v1"
        api_key_env = "LOCAL_KEY"
        [[llm.providers]]
        name = "lan"
        base_url = "http://10.0.0.7:8000/v1"
        [[llm.providers]]
        name = "hosted"
        base_url = "https://api.example.com/v1"
        api_key_file = "~/keys/hosted"
    """
    providers = read(tmp_path, text).config.llm.providers
    assert [provider.name for provider in providers] == ["local", "lan", "hosted"]
    assert providers[2].api_key_file == str(tmp_path / "keys/hosted")


def test_the_digest_is_of_the_values_alone(tmp_path: Path) -> None:
    plain = read(tmp_path, "").digest
    assert read(tmp_path, "# nothing\n[agent]\nmax_turns = 25").digest == plain
    assert load(config_dir=tmp_path, environment={}, flags={"agent.max_turns": 25}).digest == plain
    assert read(tmp_path, "[agent]\nmax_turns = 24").digest != plain
    assert len(plain) == 64


def test_the_folders_follow_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "d"))
    assert (config_folder(), data_folder()) == (tmp_path / "c/leeward", tmp_path / "d/leeward")


def test_a_folder_relative_to_wherever_one_is_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    try:
        folder = config_folder()
    except ConfigError as error:
        assert "environment XDG_CONFIG_HOME" in str(error)  # noqa: PT017 - depends on the library's version
    else:
        assert folder.is_absolute()
        assert not folder.is_relative_to(Path.cwd())


def test_the_configuration_is_frozen(tmp_path: Path) -> None:
    loaded = read(tmp_path, "")
    with pytest.raises(ValueError, match="frozen"):
        loaded.config.agent.max_turns = 3
    with pytest.raises(AttributeError):
        loaded.digest = ""  # type: ignore[misc]


@given(
    st.text(max_size=60)
    | st.sampled_from(["[agent]\n", "a.", "x = "]).flatmap(lambda head: st.text().map(head.__add__))
)
def test_whatever_the_text_says_the_answer_is_a_config_or_a_config_error(text: str) -> None:
    try:
        loaded = load(
            flags={},
            environment={"LEEWARD_TOOLS__PLUGINS": text, "LEEWARD_LLM__MODEL": text},
            config_dir=Path("/x"),
        )
    except ConfigError as error:
        assert all(line.isprintable() for line in str(error).splitlines())  # noqa: PT017 - both ways are right
    else:
        assert isinstance(loaded.config, Config)


def test_values_are_laid_over_a_loaded_configuration_as_flags_are(tmp_path: Path) -> None:
    every_key = (ROOT / "tests/compatibility/v0_1/every_key.toml").read_bytes()
    loaded = read(tmp_path, every_key)
    assert laid_over(loaded, {}) == loaded
    values = {
        "permissions.autonomy": "readonly",
        "permissions.rules": [{"action": "deny", "tool": "fetch"}],
        "security.trust": {"tide": "blocked"},
    }
    assert laid_over(loaded, values) == read(tmp_path, every_key, flags=values)
    with pytest.raises(ConfigError, match=r"permissions\.autonomy"):
        laid_over(loaded, {"permissions.autonomy": "none"})
