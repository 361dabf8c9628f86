"""Every invalid configuration is reported with its words and its line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from leeward.runtime.config import ConfigError, load
from leeward.runtime.exits import Exit

SECRET = "sk-test-" + "0" * 32


def complaint(folder: Path, text: str | bytes, **layers: Any) -> str:
    """Return what is said about a text that cannot be used."""
    (folder / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load(config_dir=folder, **{"environment": {}, **layers})
    assert caught.value.exit is Exit.ARG_ERROR
    assert all(line.isprintable() for line in str(caught.value).splitlines())
    assert SECRET not in str(caught.value)
    return str(caught.value)


BAD = {
    # Names.
    "[agent]\nmax_turn = 3": "2: agent.max_turn: unknown key; did you mean max_turns?",
    "agent.max_turn = 3": "1: agent.max_turn: unknown key; did you mean max_turns?",
    "agent = { max_turn = 3 }": "1: agent.max_turn: unknown key; did you mean max_turns?",
    "[agnet]\nmax_turns = 3": "1: agnet: unknown key; did you mean agent?",
    "\n\nmax_turns = 3": "3: max_turns: unknown key; did you mean agent.max_turns?",
    "[tools.agent]": "1: tools.agent: unknown key; did you mean agent?",
    "[tools.shell]\nzzz = 1": "2: tools.shell.zzz: unknown key",
    '[[permissions.rules]]\ntool = "x"\naction = "ask"\nmach = "y"': (
        "4: permissions.rules.0.mach: unknown key; did you mean match?"
    ),
    '"a\\u001b[2J" = 1': '1: "a\\u001b[2J": unknown key',
    # Types.
    '[agent]\nmax_turns = "5"': '2: agent.max_turns: found "5", expected a whole number from 1 to 1000',
    "[agent]\nmax_turns = true": "2: agent.max_turns: found true, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = 2.5": "2: agent.max_turns: found 2.5, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = [\n 1 ]": (
        "2: agent.max_turns: found a list, expected a whole number from 1 to 1000"
    ),
    "[agent]\nmax_turns = 1979-05-27": (
        "2: agent.max_turns: found a date, expected a whole number from 1 to 1000"
    ),
    "agent = 5": "1: agent: found 5, expected a table",
    "[[agent]]\nmax_turns = 1": "1: agent: found a list, expected a table",
    "[storage]\npath = 5": "2: storage.path: found 5, expected an absolute path or one that begins with ~/",
    "[permissions.rules]": "1: permissions.rules: found a table, expected a list of tables",
    "[security]\ntrust = []": (
        "2: security.trust: found an empty list, expected a table of names, "
        'each with "trusted", "verified", "quarantined" or "blocked"'
    ),
    '[tools.anomaly]\nenabled = "yes"': '2: tools.anomaly.enabled: found "yes", expected true or false',
    '[tools]\nplugins = "x"': (
        '2: tools.plugins: found "x", expected a list of strings, each the name of an installed plug-in'
    ),
    # Values.
    "[agent]\nmax_turns = 0": "2: agent.max_turns: found 0, expected a whole number from 1 to 1000",
    "[agent]\nmax_turns = 99999999999999999999": (
        "2: agent.max_turns: found a very large number, expected a whole number from 1 to 1000"
    ),
    "[agent]\ntimeout = nan": "2: agent.timeout: found nan, expected a number from 0 to 604800",
    "[agent]\ntimeout = -1": "2: agent.timeout: found -1, expected a number from 0 to 604800",
    "[tools.shell]\ntimeout = 0": (
        "2: tools.shell.timeout: found 0, expected a number above 0 and up to 604800"
    ),
    "[tools.anomaly]\nfailure_threshold = 0.0": (
        "2: tools.anomaly.failure_threshold: found 0.0, expected a number above 0 and up to 1"
    ),
    "[tools.anomaly]\nmin_samples = 21": (
        "2: tools.anomaly.min_samples: found 21, expected no more than window_size, which is 20"
    ),
    "[tools.anomaly]\nwindow_size = 4": (
        "2: tools.anomaly.min_samples: found 5, expected no more than window_size, which is 4"
    ),
    '[permissions]\nautonomy = "supervise"': (
        '2: permissions.autonomy: found "supervise", expected "readonly", "supervised" or "full"; '
        'did you mean "supervised"?'
    ),
    '[security.trust]\nfetch = "block"': (
        '2: security.trust.fetch: found "block", expected "trusted", "verified", "quarantined" or "blocked"; '
        'did you mean "blocked"?'
    ),
    '[tools.fetch]\nallow_networks = [\n  "10.0.0.0/8",\n  "10.1.2.3/8",\n]': (
        '4: tools.fetch.allow_networks.1: found "10.1.2.3/8", expected a network such as 10.0.0.0/8; '
        "did you mean 10.0.0.0/8?"
    ),
    '[tools.fetch]\nallow_networks = ["example.com"]': (
        '2: tools.fetch.allow_networks.0: found "example.com", expected a network such as 10.0.0.0/8'
    ),
    '[tools.shell]\nallowed_paths = ["../x"]': (
        '2: tools.shell.allowed_paths.0: found "../x", expected an absolute path or one that begins with ~/'
    ),
    '[tools]\nexecutors = ["mine"]': '2: tools.executors.0: found "mine", expected "package.module:factory"',
    '[llm]\nmodel = "openai: "': '2: llm.model: found "openai: ", expected "PROVIDER:NAME", "offline" or ""',
    f'[storage]\npath = "{"x" * 100}"': (
        f'2: storage.path: found "{"x" * 60}" and more, expected an absolute path or one that begins with ~/'
    ),
    # Rules.
    '[[permissions.rules]]\ntool = "x"': (
        '1: permissions.rules.0.action: found nothing, expected "allow", "ask" or "deny"'
    ),
    '[[permissions.rules]]\ntool = "x"\naction = "ask"\n[[permissions.rules]]\ntool = "shell"\n'
    'match = "git \'x"\naction = "deny"': (
        '6: permissions.rules.1.match: found "git \'x", '
        "expected a pattern that can match something: a quotation in the pattern is not closed"
    ),
    '[[permissions.rules]]\ntool = "x"\nmatch = "a\\u001bb"\naction = "deny"': (
        '3: permissions.rules.0.match: found "a\\u001bb", '
        "expected a pattern that can match something: the pattern holds control characters"
    ),
    '[[permissions.rules]]\ntool = "x"\naction = "deny"\nforce = true': (
        "4: permissions.rules.0.force: found true, "
        'expected no force here: only a rule that says "ask" can force it'
    ),
    '[[permissions.rules]]\ntool = "Shell Tool"\naction = "deny"': (
        '2: permissions.rules.0.tool: found "Shell Tool", '
        "expected the name of a tool, or a pattern such as * or git_*"
    ),
    # Keys of providers, and values that may hold one.
    f'[llm]\napi_key = "{SECRET}"': (
        "2: llm.api_key: keys and passwords do not belong in the configuration; "
        "name its variable in api_key_env or its file in api_key_file"
    ),
    f'[[llm.providers]]\nname = "a"\napi-key = "{SECRET}"': (
        "3: llm.providers.0.api-key: keys and passwords do not belong in the configuration; "
        "name its variable in api_key_env or its file in api_key_file"
    ),
    f'[[llm.providers]]\nname = "a"\napi_key_evn = "{SECRET}"': (
        "3: llm.providers.0.api_key_evn: unknown key; did you mean api_key_env?"
    ),
    f'[[llm.providers]]\nname = "a"\napi_key_env = "{SECRET}"': (
        "3: llm.providers.0.api_key_env: found a string (not shown), "
        "expected the name of a variable, not its value"
    ),
    f'[[llm.providers]]\nname = "a"\napi_key_file = "{SECRET}"': (
        "3: llm.providers.0.api_key_file: found a string (not shown), "
        "expected an absolute path or one that begins with ~/"
    ),
    f'[[llm.providers]]\nname = "a"\nbase_url = "https://me:{SECRET}@host/v1"': (
        "3: llm.providers.0.base_url: found a string (not shown), "
        "expected an http or https URL such as https://host/v1; remove the user name and password"
    ),
    '[[llm.providers]]\nname = "a"\nbase_url = "http://gpu.example.com/v1"\napi_key_env = "K"': (
        "3: llm.providers.0.base_url: found a string (not shown), "
        "expected an https URL, for the key would travel in the clear"
    ),
    f'[llm]\nproxy = "socks://me:{SECRET}@host"': (
        "2: llm.proxy: found a string (not shown), expected a URL such as http://host:3128"
    ),
    '[[llm.providers]]\nname = "offline"': (
        '2: llm.providers.0.name: found "offline", expected another name: this one is built in'
    ),
    '[[llm.providers]]\nname = "a"\n[[llm.providers]]\nname = "a"': (
        '1: llm.providers: found a list, expected one provider named "a", not two'
    ),
    # What is not TOML.
    "[agent]\nmax_turns = ": "2: not TOML: Invalid value",
    "a = 1\na = 2": "2: not TOML: Cannot overwrite a value",
    "a = [1,\n2": "2: not TOML: Unclosed array",
    "a = 'x\n": "1: not TOML: Illegal character '\\n'",
    f"a = {'[' * 100_000}": " not TOML: tables or lists are nested too deep",
    f"a = {'1' * 5000}": " not TOML: a number is too long",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    expected = f"config.toml:{BAD[text]}"
    found = complaint(tmp_path, text)
    # Wordings of the TOML parser differ a little from one Python to the next; the line does not.
    assert found == expected or (
        "not TOML" in expected and found.startswith(expected.split("TOML", maxsplit=1)[0])
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a = 1\nb = '\xff'", "config.toml:2: byte 0xff is not UTF-8"),
        (b"\x7fELF\0\0", "config.toml: it is binary, not text"),
        (b"#" * (1024 * 1024 + 1), "config.toml: it is larger than 1 MiB"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, raw: bytes, expected: str) -> None:
    assert complaint(tmp_path, raw) == expected


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^gone\.toml: there is no such file$"):
        load(file=Path("gone.toml"), environment={})
    with pytest.raises(ConfigError, match=r"^gone\.toml: there is no such file$"):
        load(environment={"LEEWARD_CONFIG": "gone.toml"})
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe"):
        with pytest.raises(ConfigError, match="it cannot be read: "):
            load(file=tmp_path / name, environment={})
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(
        ConfigError, match=rf"^config\.toml: {re.escape(str(tmp_path))}/config\.toml cannot be read: "
    ):
        load(config_dir=tmp_path, environment={})
    (tmp_path / "config.toml").rmdir()
    (tmp_path / "config.toml").symlink_to("gone.toml")
    with pytest.raises(ConfigError, match="there is no such file"):
        load(config_dir=tmp_path, environment={})


def test_all_problems_of_all_layers_are_told_together_in_order(tmp_path: Path) -> None:
    text = "[agent]\nmax_turn = 1\nmax_turns = 0\n[tools.shell]\ntimeout = -1\n[agent.x]\n"
    said = complaint(tmp_path, text, environment={"LEEWARD_X": "1"}, flags={"agent.max_turns": "many"})
    assert said.splitlines() == [
        "config.toml:2: agent.max_turn: unknown key; did you mean max_turns?",
        "config.toml:3: agent.max_turns: found 0, expected a whole number from 1 to 1000",
        "config.toml:5: tools.shell.timeout: found -1, expected a number above 0 and up to 604800",
        "config.toml:6: agent.x: unknown key",
        "environment LEEWARD_X: unknown variable",
        'command line: agent.max_turns: found "many", expected a whole number from 1 to 1000',
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[mcp.servers."bad name"]\ncommand = ["x"]\n',
            'mcp.servers."bad name": found "bad name", expected a name of',
        ),
        (
            '[secrets."a-b"]\nenv = "X"\nhosts = ["a.example"]\n',
            'found "a-b", expected the name of a variable',
        ),
        ('[security.trust]\n"" = "verified"\n', 'found "", expected the name of a tool'),
    ],
    ids=["server", "secret", "trust"],
)
def test_a_name_of_the_persons_own_is_shown_with_what_it_may_be(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert expected in complaint(tmp_path, text)


def test_a_flood_of_problems_is_cut_short(tmp_path: Path) -> None:
    said = complaint(tmp_path, "\n".join(f"k{index} = 1" for index in range(5000))).splitlines()
    assert said[0] == "config.toml:1: k0: unknown key"
    assert said[-1] == "config.toml: 4950 more problems"
    assert len(said) == 51


def test_the_error_is_there_for_machines_too(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[agent]\nmax_turns = "5"')
    with pytest.raises(ConfigError) as caught:
        load(config_dir=tmp_path, environment={})
    error = caught.value.error()
    assert (error["code"], error["phase"]) == ("CONFIG_ERROR", "configuration")
    expected = "a whole number from 1 to 1000"
    listed = {
        "file": "config.toml",
        "line": 2,
        "key": "agent.max_turns",
        "found": '"5"',
        "expected": expected,
    }
    assert error["errors"] == [{**listed, "hint": ""}]
