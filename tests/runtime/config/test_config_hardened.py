"""The hardened configuration loads, and nothing in it is looser than the default."""

from __future__ import annotations

import shutil
from pathlib import Path

from leeward.runtime.config import load
from leeward.runtime.config.keys import KEYS
from leeward.runtime.config.models import Config

ROOT = Path(__file__).parents[3]


def value_at(config: Config, path: tuple[str, ...]) -> object:
    found: object = config
    for name in path:
        found = getattr(found, name)
    return found


def test_every_key_of_it_is_at_least_as_strict_as_its_default(tmp_path: Path) -> None:
    shutil.copy(ROOT / "config.hardened.toml", tmp_path / "config.toml")
    config, usual = load(config_dir=tmp_path, environment={}).config, Config()
    stricter = 0
    for path, key in KEYS.items():
        old, new = value_at(usual, path), value_at(config, path)
        if old == new:
            continue
        assert key.narrowing is not None, f"{'.'.join(path)}: nothing proves which value is stricter"
        assert tuple(key.narrowing.looser(old, new)) == (), ".".join(path)
        stricter += 1
    assert stricter >= 15


def test_a_looser_value_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[agent]\nmax_turns = 100\n")
    config = load(config_dir=tmp_path, environment={}).config
    narrowing = KEYS["agent", "max_turns"].narrowing
    assert narrowing is not None and narrowing.looser(Config().agent.max_turns, config.agent.max_turns)
