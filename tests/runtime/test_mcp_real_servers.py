"""Servers that others wrote, where they are installed: listed, quarantined, called in the sandbox, fenced."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from leeward.security.call import Status
from leeward.security.sandbox import SandboxLevel
from leeward.security.trust import TrustLevel

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

SPAN = re.compile(r"«UNTRUSTED:([0-9a-f]{32}):[^»]*».*?«END:\1»", re.DOTALL)

# Program, words after it, a tool, its arguments, effects and declared kinds, and what the answer holds.
SERVERS = {
    "time": ("mcp-server-time", (), "get_current_time", {"timezone": "UTC"}, 'timezone = "text"', "UTC"),
    "fetch": ("mcp-server-fetch", (), "fetch", {"url": "https://docs.example.com/"}, 'url = "url"', None),
    "filesystem": (
        "mcp-server-filesystem",
        (".",),
        "read_text_file",
        {"path": "a.txt"},
        'path = "path"',
        "hello",
    ),
    "everything": ("mcp-server-everything", (), "echo", {"message": "hello"}, 'message = "text"', "hello"),
}


def configured(found, words, tool, kinds):
    """Return the configuration of a server whose program and libraries may be read."""
    real = Path(found).resolve()
    folders = {
        str(Path(found).parent.parent),
        *(str(one) for one in real.parents if one.name == "node_modules"),
    }
    command, read = json.dumps([found, *words]), json.dumps(sorted(folders))
    server = f"[mcp.servers.real]\ncommand = {command}\nread = {read}\nstart_timeout = 120\n"
    return f'{server}[mcp.servers.real.tools.{tool}]\neffects = ["read"]\narguments = {{ {kinds} }}\n'


@pytest.mark.parametrize("name", SERVERS)
async def test_a_real_server_is_judged_and_fenced(sessions, tmp_path, name):
    program, words, tool, arguments, kinds, expected = SERVERS[name]
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    config = configured(found, words, tool, kinds)
    async with sessions.session(tmp_path, config) as runtime:
        if runtime.sandbox.level is SandboxLevel.NONE:
            pytest.skip(f"no sandbox works here: {runtime.sandbox.weaker_because}")
        (runtime.places.workspace / "a.txt").write_text("hello")
        specs = [spec for spec in runtime.tools.specs() if spec.source == "server:real"]
        assert specs, [str(event) for event in runtime.heard]
        assert all(spec.level is TrustLevel.QUARANTINED for spec in specs)
        for spec in specs:
            assert "UNTRUSTED" in spec.description and "\x1b" not in spec.description
            if spec.name != f"real__{tool}":
                assert (await runtime.call(spec.name, {})).outcome.status is Status.DENIED
        result = await runtime.call(f"real__{tool}", arguments)
        if expected is None:
            # It fetches, and was given no host; nobody gave the URL, either.
            assert result.outcome.status is not Status.OK
            return
        assert result.outcome.status is Status.OK and expected in result.text, result.text
        assert expected not in SPAN.sub("", result.text)
        assert runtime.servers.servers["real"].starts == 1
