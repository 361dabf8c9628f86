"""The table of a service: dialects, headers, paths and fields, and never a key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leeward.runtime.config import Config, ConfigError, is_private, load
from loading import rows_beside

ROWS = rows_beside(__file__)

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
SECRET = "sk-test-" + "0" * 32


def read(folder: Path, text: str) -> Config:
    (folder / "config.toml").write_text(text)
    return load(config_dir=folder, environment={}).config


def provider(line: str) -> str:
    return f'[[llm.providers]]\nname = "a"\n{line}\n'


def test_the_example_of_the_guide_is_real(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(\[llm\].*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    llm = read(tmp_path, found[1]).llm
    assert [one.name for one in llm.providers] == ["local", "azure", "thinker"]
    assert llm.providers[1].query == {"api-version": "2024-10-21"}
    assert llm.providers[2].body["thinking"] == {"type": "enabled", "budget_tokens": 8000}


GOOD = ROWS["good"]


@pytest.mark.parametrize("line", GOOD)
def test_ordinary_values_pass(tmp_path: Path, line: str) -> None:
    assert len(read(tmp_path, provider(line)).llm.providers) == 1


BAD = {
    'kind = "antropic"': (
        '3: llm.providers.0.kind: found "antropic", expected "openai", "anthropic" or "gemini"; did you '
        'mean "anthropic"?'
    ),
    f'headers = {{ Authorization = "Bearer {SECRET}" }}': "a header, but of none that carries a key",
    f'headers = {{ x-api-key = "{SECRET}" }}': "a header, but of none that carries a key",
    f'headers = {{ Cookie = "{SECRET}" }}': "a header, but of none that carries a key",
    'headers = { Content-Length = "3" }': "says how a body is sent",
    'headers = { "X: y" = "z" }': "the name of a header",
    f'headers = {{ X-A = "{SECRET}\\r\\nX-B: c" }}': (
        "found a string (not shown), expected printable ASCII text"
    ),
    f'query = {{ api_key = "{SECRET}" }}': "a parameter, but of none that carries a key",
    f'query = {{ key = "{SECRET}" }}': "a parameter, but of none that carries a key",
    "body = { messages = [] }": "a field that Leeward does not fill in itself",
    "body = { stream = false }": "a field that Leeward does not fill in itself",
    "body = { since = 2024-01-01 }": "any value that JSON has, too",
    "body = { top_p = nan }": "any value that JSON has, too",
    'auth_header = "api key"': "the name of a header, such as api-key",
}


@pytest.mark.parametrize(("line", "words"), BAD.items(), ids=BAD)
def test_what_does_not_belong_there_is_said_and_not_shown(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, provider(line))
    assert words in str(caught.value)
    assert str(caught.value).startswith("config.toml:3: llm.providers.0.")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ['fallback = ["x:"]', 'fallback = [""]', "retries = -1", "retry_seconds = -1", "stall_timeout = 0"],
)
def test_bounds_that_bound_nothing(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"config.toml:2: llm\."):
        read(tmp_path, f"[llm]\n{line}\n")


def test_values_of_headers_are_private() -> None:
    assert is_private(("llm", "providers", 0, "headers", "X-Tenant"))
    assert is_private(("llm", "providers", 0, "query", "tenant"))
    assert not is_private(("llm", "providers", 0, "kind"))
