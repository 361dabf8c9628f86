"""`[tools.file]`: valid patterns, and what they mean for the gates."""

from __future__ import annotations

import os

import pytest

from leeward.runtime.config import ConfigError, load
from leeward.runtime.policy import to_policy
from leeward.security.paths import secret_reason


@pytest.fixture
def policy_of(sessions, tmp_path):
    def policy_of(text: str):
        where = sessions.places(tmp_path.resolve())
        (where.config / "config.toml").write_text(text, encoding="utf-8")
        loaded = load(config_dir=where.config, environment={})
        return where, to_policy(
            loaded,
            workspace=where.workspace,
            home=where.home,
            headless=True,
            data_dir=where.data,
            config_dir=where.config,
        )

    return policy_of


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "there is no name in it"),
        ("/", "there is no name in it"),
        ("a[b", "a bracket in it is not closed"),
        ("~bob/x", "another user's home"),
        ("a\\u0007", "there is no name in it"),
        (5, "a glob such as"),
    ],
)
@pytest.mark.parametrize("key", ["deny_read", "allow_read"])
def test_what_is_no_pattern_is_told_with_its_line(policy_of, key, pattern, why):
    value = f'"{pattern}"' if isinstance(pattern, str) else pattern
    with pytest.raises(ConfigError) as caught:
        policy_of(f"[tools.file]\n{key} = [{value}]\n")
    assert "config.toml:2" in str(caught.value) and (
        why in str(caught.value) or "a glob such as" in str(caught.value)
    )


def test_what_is_named_by_a_link_is_meant_by_both_names(policy_of, tmp_path):
    (tmp_path / "real[1]").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "vault").symlink_to(tmp_path / "real[1]")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "conf").symlink_to(tmp_path / "real[1]")
    _, policy = policy_of('[tools.file]\ndeny_read = ["~/vault/**", "conf/*.ini", "*.pem"]\n')
    root = os.path.realpath(tmp_path)
    for path in ("home/vault/x", "real[1]/x", "REAL[1]/deep/x", "ws/conf/a.ini", "anywhere/b.pem"):
        assert secret_reason(f"{root}/{path}", policy), path
    for path in ("real1/x", "home/vaults/x", "ws/conf/a.txt", "b.pem.txt"):
        assert secret_reason(f"{root}/{path}", policy) is None, path


def test_what_is_allowed_lifts_names_only(policy_of):
    where, policy = policy_of('[tools.file]\nallow_read = ["fixtures/**", "~/.ssh/**", "*.db"]\n')
    assert secret_reason(f"{where.workspace}/fixtures/server.key", policy) is None
    assert secret_reason(f"{where.home}/.ssh/id_rsa", policy) and secret_reason(str(where.database), policy)
    assert secret_reason(f"{where.workspace}/server.key", policy)
