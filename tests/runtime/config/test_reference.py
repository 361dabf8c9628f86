"""The example configuration and the reference match the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leeward.runtime.config import KEYS, Config, ConfigError, dotted, load
from leeward.runtime.config.keys import SECTIONS
from leeward.runtime.config.reference import example, reference

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "config.example.toml"
GUIDE = ROOT / "docs" / "configuration.md"
ENTRIES = [key for key in KEYS.values() if key.entry is not None]


def _leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    leaves = {}
    for name, value in tree.items():
        here = (*path, name)
        leaves.update(_leaves(value, here) if isinstance(value, dict) and here not in KEYS else {here: value})
    return leaves


def _uncommented(text: str) -> str:
    """Take samples out of their comments: headers and assignments, but not sentences."""
    return re.sub(r"(?m)^# (?=\[|[a-z_]+ = )", "", text)


def test_the_file_is_what_the_code_says() -> None:
    assert FILE.read_text() == example(), (
        "write leeward.runtime.config.reference.example() to config.example.toml"
    )


def test_the_example_is_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(FILE.read_text())
    loaded = load(config_dir=tmp_path, environment={})
    assert loaded.config == Config()
    assert loaded.digest == load(config_dir=tmp_path / "none", environment={}).digest


def test_the_example_names_every_key() -> None:
    said = _leaves(tomllib.loads(FILE.read_text()))
    defaults = _leaves(Config().model_dump(mode="json"))
    assert set(defaults) == set(KEYS)
    samples = {key.path for key in KEYS.values() if key.entry is not None or key.is_table}
    assert said == {path: value for path, value in defaults.items() if path not in samples}
    shown = tomllib.loads(_uncommented(FILE.read_text()))
    assert set(_leaves(shown)) == set(KEYS)
    for key in ENTRIES:
        said = _leaves(shown)[key.path]
        (entry,) = said.values() if key.is_table else said
        assert key.entry is not None
        assert list(entry) == list(key.entry.model_fields)


def test_the_samples_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(_uncommented(FILE.read_text()))
    config = load(config_dir=tmp_path, environment={}).config
    assert config.llm.providers[0].name == "local"
    assert config.permissions.rules[0].match == "build/**"
    assert config.security.trust


def test_everything_is_explained() -> None:
    for key in KEYS.values():
        assert key.description.endswith("."), dotted(key.path)
        assert key.expected, dotted(key.path)
        fields = key.entry.model_fields if key.entry is not None else {}
        assert all((field.description or "").endswith(".") for field in fields.values()), dotted(key.path)
    assert all(section.__doc__ for section in SECTIONS.values())


def test_the_reference_is_what_the_code_says() -> None:
    _, _, tables = GUIDE.read_text().partition("by a test -->\n\n")
    assert tables == reference(), (
        "write leeward.runtime.config.reference.reference() below the mark in the guide"
    )


def test_the_errors_in_the_guide_are_real(tmp_path: Path) -> None:
    text = '[agent]\nmax_turn = 10\ntimeout = "10"\n[permissions]\nautonomy = "ful"\n'
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(config_dir=tmp_path, environment={})
    assert f"```text\n{caught.value}\n```" in GUIDE.read_text()


def test_the_variable_in_the_guide_is_real(tmp_path: Path) -> None:
    names = dict(re.findall(r"(LEEWARD_[A-Z_]+__[A-Z_]+)=(\w+)", GUIDE.read_text() + FILE.read_text()))
    assert names
    assert load(config_dir=tmp_path, environment=names).config.agent.max_turns == 10
