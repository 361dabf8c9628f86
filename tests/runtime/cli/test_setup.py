"""From nothing to a first answer: `leeward config init` finds a model, and writes a file that names it."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

from leeward.runtime.cli import setup
from leeward.runtime.cli.setup import Offer, first_configuration
from leeward.runtime.config import load
from loading import ROOT


@pytest.fixture
def server() -> Iterator[str]:
    """Run a model server that lists one model, and return its address."""
    with subprocess.Popen(
        [sys.executable, ROOT / "bench" / "model_server.py"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs on this machine is none of these tests' matter."""
    monkeypatch.setattr(setup, "_LOCAL", {})
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_newcomer_gets_from_nothing_to_a_first_answer(leeward, server) -> None:
    first = leeward("-p", "go", "--output", "json")
    assert first.code == 4 and "leeward config init" in first.json["error"]["suggestion"]
    made = leeward("config", "init", "--url", server, "--output", "json")
    assert made.code == 0 and made.json["data"]["model"] == "local:answer"
    file = leeward.home / ".config/leeward/config.toml"
    assert made.json["data"]["file"] == str(file) and stat.S_IMODE(file.stat().st_mode) == 0o600
    answered = leeward("-p", "go", "--output", "json")
    assert answered.code == 0 and answered.json["data"]["text"]
    written = file.read_text()
    again = leeward("config", "init", "--url", server)
    assert again.code == 2 and "is there already" in again.err and file.read_text() == written


def test_where_nothing_answers_nothing_is_written(leeward) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        found = leeward("config", "init", "--url", url)
    assert found.code == 4 and url in found.err and "start a server such as Ollama" in found.err
    assert leeward("config", "init").code == 4
    assert not (leeward.home / ".config/leeward/config.toml").exists()


def test_a_key_whose_service_cannot_be_asked_is_named_and_never_shown(leeward, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-" + "0" * 32)
    found = leeward("config", "init")
    assert found.code == 4 and "OPENAI_API_KEY in the environment: " in found.err
    assert "sk-test" not in found.err + found.out


def test_of_several_somebody_chooses(leeward, server, monkeypatch) -> None:
    port = int(server.rpartition(":")[2].partition("/")[0])
    monkeypatch.setattr(setup, "_LOCAL", {"one": ("One", port), "two": ("Two", port)})
    asked = leeward("config", "init", "--output", "json")
    assert (asked.code, asked.json["error"]["code"]) == (4, "INPUT_REQUIRED")
    assert "one:answer" in asked.json["error"]["message"] and "two:answer" in asked.json["error"]["message"]
    monkeypatch.setattr(setup, "_LOCAL", {"two": ("Two", port)})
    assert leeward("config", "init", "--output", "json").json["data"]["model"] == "two:answer"


def test_a_named_model_is_written_down_without_asking(leeward) -> None:
    assert leeward("config", "init", "--model", "openai:some-model").code == 0
    assert "openai:some-model" in leeward("config", "show").out


@pytest.mark.parametrize(
    "offer", [Offer("openai:x", "named"), Offer("local:qwen3:8b", "Ollama", "http://127.0.0.1:11434/v1")]
)
def test_the_file_is_a_configuration(offer, tmp_path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(first_configuration(offer))
    loaded = load(file=file, environment={})
    assert loaded.config.llm.model == offer.model and tomllib.loads(file.read_text())["permissions"]
    assert [one.base_url for one in loaded.config.llm.providers] == ([offer.url] if offer.url else [])


def test_what_a_newcomer_types_first_says_how_it_is_written(leeward) -> None:
    bare = leeward("fix the tests")
    assert bare.code == 2 and "leeward -p 'fix the tests'" in bare.err
    for name, meant in (("gpt-4o", "openai:gpt-4o"), ("claude-x", "anthropic:claude-x")):
        ran = leeward("--model", name, "-p", "hi")
        assert ran.code == 2 and f"--model {meant}" in ran.err
    assert "suggestion" not in leeward("--model", "nothing", "-p", "hi").err
