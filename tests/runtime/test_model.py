"""Choice of the model and its key, and the message when there is none."""

from __future__ import annotations

import pytest

from leeward.runtime.config import load
from leeward.runtime.exits import CliError, Exit
from leeward.runtime.model import open_model
from leeward.runtime.providers.interface import CallRequested, Message, Request, TextDelta

LOCAL = '[[llm.providers]]\nname = "mine"\nbase_url = "http://127.0.0.1:9/v1"\n'


@pytest.fixture
def config(sessions, tmp_path):
    def read(model: str, providers: str = ""):
        where = sessions.places(tmp_path)
        (where.config / "config.toml").write_text(f'[llm]\nmodel = "{model}"\n{providers}', encoding="utf-8")
        return load(config_dir=where.config, environment={}).config

    return read


NAMES = [
    ("", "", "offline"),
    ("offline", "", "offline"),
    ("mine:small", LOCAL, "mine:small"),
    ("mine:org/model:free", LOCAL, "mine:org/model:free"),
    ("mine", LOCAL + 'model = "usual"\n', "mine:usual"),
]


@pytest.mark.parametrize(("model", "providers", "name"), NAMES)
async def test_the_one_that_is_named(config, model, providers, name):
    async with open_model(config(model, providers)) as found:
        assert found.provider.name == name and found.secrets == frozenset()


async def test_a_given_one_is_passed_on(config, sessions):
    given = sessions.Says("hello")
    async with open_model(config("nonsense:x"), given) as found:
        assert found.provider is given


KEY = "not-a-real-key-000"
REFUSED = [
    ("nonsense:x", LOCAL, Exit.ARG_ERROR, "no model 'nonsense:x'; known are offline, .*, mine:MODEL"),
    ("mine", LOCAL, Exit.ARG_ERROR, "mine:NAME"),
    ("scripted:absent.toml", "", Exit.ARG_ERROR, "absent.toml"),
    ("openai:x", "", Exit.AUTH_REQUIRED, "OPENAI_API_KEY"),
    ("mine:x", LOCAL + 'api_key_env = "NOWHERE_SET"\n', Exit.AUTH_REQUIRED, "NOWHERE_SET"),
    ("mine:x", LOCAL + 'api_key_file = "{folder}/absent"\n', Exit.AUTH_REQUIRED, "cannot be read"),
    ("mine:x", LOCAL + 'api_key_file = "{folder}/open"\n', Exit.AUTH_REQUIRED, "chmod 600"),
    ("mine:x", LOCAL + 'api_key_file = "{folder}/binary"\n', Exit.AUTH_REQUIRED, "cannot be read"),
    ("mine:x", LOCAL + 'api_key_file = "{folder}/empty"\n', Exit.AUTH_REQUIRED, "is empty"),
]


@pytest.mark.parametrize(("model", "providers", "code", "said"), REFUSED)
async def test_what_cannot_be_used_is_said(config, tmp_path, monkeypatch, model, providers, code, said):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("NOWHERE_SET", raising=False)
    for name, content, mode in (
        ("open", b"k", 0o644),
        ("binary", b"\xff\xfe", 0o600),
        ("empty", b"\n", 0o600),
    ):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    with pytest.raises(CliError, match=said) as caught:
        async with open_model(config(model, providers.replace("{folder}", str(tmp_path)))):
            pass
    assert caught.value.exit is code


@pytest.mark.parametrize("place", ["environment", "file"])
async def test_the_key_is_kept_quiet(config, tmp_path, monkeypatch, place):
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    (tmp_path / "key").write_text(f"{KEY}\n")
    (tmp_path / "key").chmod(0o600)
    where = 'api_key_env = "SOME_KEY"' if place == "environment" else f'api_key_file = "{tmp_path}/key"'
    async with open_model(config("mine:x", f"{LOCAL}{where}\n")) as found:
        assert found.secrets == {KEY}
        assert KEY not in repr(found.provider)


async def test_the_offline_model_needs_nothing(config):
    async with open_model(config("")) as found:
        request = Request((Message("user", "read a.txt"),), ())
        async with found.provider.stream(request) as events:
            seen = [event async for event in events]
        assert any(isinstance(event, TextDelta) and "No model is configured" in event.text for event in seen)
        assert not any(isinstance(event, CallRequested) for event in seen)
