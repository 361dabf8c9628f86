"""What an executor says it needs is lent to its own tools, told at the start, and given to no program."""

from __future__ import annotations

import json

import pytest

from leeward.runtime.config import load
from leeward.runtime.exits import CliError
from leeward.runtime.vault import hand_out, open_vault
from leeward.tools.composite import Registered

VALUE = "not-a-real-token-0000"
LENT = """
[secrets.FAKE_TOKEN]
env = "FAKE_TOKEN"
hosts = ["api.example.com"]
programs = ["git push", "deploy"]
"""


class Needy:
    """An executor that needs secrets of the person's, and takes the client that holds them."""

    def __init__(self, *names):
        self.requires_secrets, self.client = names, None

    def specs(self):
        return []

    async def execute(self, cleared):
        raise NotImplementedError

    def lend(self, client):
        self.client = client


def config(tmp_path, text=""):
    (tmp_path / "config.toml").write_text(text)
    return load(config_dir=tmp_path, environment={}).config


def test_what_an_executor_needs_is_lent_or_told_or_missing(tmp_path):
    needy, other = Needy("FAKE_TOKEN"), Needy()
    both = [Registered(needy, "plug-in a"), Registered(other, "plug-in b")]
    vault = open_vault(config(tmp_path, LENT), both, "/askpass", {"FAKE_TOKEN": VALUE})
    assert (vault.values, vault.notices) == (frozenset({VALUE}), ())
    hand_out(vault, both, dict)
    assert list(needy.client) == ["FAKE_TOKEN"] and other.client is None
    for name in ("deploy", "git push"):
        lent = vault.lend([f"FAKE_TOKEN to {name}"])
        assert (lent.env.get("FAKE_TOKEN"), "GIT_ASKPASS" in lent.env) == (
            (VALUE, False) if name == "deploy" else (None, True)
        )
    assert VALUE not in repr(vault) + repr(lent)
    old = open_vault(config(tmp_path), both, "/askpass", {"FAKE_TOKEN": VALUE})
    assert old.values == {VALUE} and not old.lendable
    assert "[secrets.FAKE_TOKEN]" in old.notices[0] and "no longer given" in old.notices[0]


@pytest.mark.parametrize(
    ("names", "environ", "said"),
    [
        (("FAKE_TOKEN",), {}, "plug-in a.*FAKE_TOKEN in the environment"),
        (("FAKE_TOKEN",), {"FAKE_TOKEN": ""}, "not set"),
        (("A B",), {"A B": "x"}, "names no variable"),
        ((5,), {}, "names no variable"),
    ],
)
def test_what_is_nowhere_is_an_error(tmp_path, names, environ, said):
    with pytest.raises(CliError, match=said):
        open_vault(config(tmp_path), [Registered(Needy(*names), "plug-in a")], "", environ)


def test_a_file_is_read_only_where_nobody_else_may(tmp_path):
    held = tmp_path / "token"
    held.write_text(f"{VALUE}\n")
    text = LENT.replace('env = "FAKE_TOKEN"', f'file = "{held}"')
    held.chmod(0o644)
    with pytest.raises(CliError, match="may be read by others"):
        open_vault(config(tmp_path, text), [], "", {})
    held.chmod(0o600)
    assert open_vault(config(tmp_path, text), [], "", {}).values == {VALUE}
    held.write_text("")
    with pytest.raises(CliError, match="is empty"):
        open_vault(config(tmp_path, text), [], "", {})


def test_no_program_is_given_what_an_executor_needs(leeward, monkeypatch):
    (leeward.home / "needy_tools.py").write_text(NEEDY)
    monkeypatch.syspath_prepend(leeward.home)
    monkeypatch.setenv("FAKE_TOKEN", VALUE)
    leeward.configure('[permissions]\nautonomy = "full"\n[tools]\nexecutors = ["needy_tools:Needy"]\n')
    line = {"command": "printf '%s' ${#FAKE_TOKEN}; env"}
    ran = leeward("call", "shell", json.dumps(line), "--output", "json")
    assert ran.json["data"]["text"].startswith("0") and "FAKE_TOKEN" not in ran.json["data"]["text"]
    assert "[secrets.FAKE_TOKEN]" in str(ran.json["warnings"]) and VALUE not in ran.out + ran.err


NEEDY = """
class Needy:
    requires_secrets = ["FAKE_TOKEN"]

    def specs(self):
        return []

    async def execute(self, cleared):
        raise NotImplementedError
"""
