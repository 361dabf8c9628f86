"""Which lines reach nothing but what a proxy for http gives them, and which hosts these name."""

from __future__ import annotations

import pytest

from leeward.security.command import parse_command, urls_by_proxy
from leeward.security.kinds import CommandLine
from leeward.security.url import reach_of_url

NAMED = {
    "curl https://docs.example.com/a?b": ["docs.example.com"],
    "curl -sSL https://docs.example.com/a -o x && wget https://files.example.com:8443/b": [
        "docs.example.com",
        "files.example.com:8443",
    ],
    "curl docs.example.com": ["docs.example.com:80"],
    "curl http://docs.example.com/": ["docs.example.com:80"],
    "git clone https://git.example.com/a/b.git": ["git.example.com"],
    "git fetch": [],
    "git push origin main": [],
    "git clone git@git.example.com:a/b.git": [],
    "git clone ssh://git.example.com/a/b.git": [],
    "pip install requests": [],
    "pip install --index-url https://index.example.com/simple x": ["index.example.com"],
    "npm ci": [],
    "cargo build": [],
    "curl $URL": [],
    "make test": [],
    "python3 get.py https://docs.example.com/": ["docs.example.com"],
    "for h in a b; do curl https://docs.example.com/$h; done": ["docs.example.com"],
    "sh -c 'curl https://docs.example.com/'": ["docs.example.com"],
}

NOT_BY_PROXY = [
    "ssh host.example.com uptime",
    "ssh host uptime",
    "scp a host.example.com:/tmp",
    "rsync -a . host.example.com:/tmp",
    "ping example.com",
    "nc example.com 443",
    "docker pull x",
    "psql -h db.example.com",
    "curl ftp://files.example.com/",
    "curl https://127.0.0.1:8080/",
    "curl http://localhost/",
    "curl https://10.0.0.1/",
    "curl https://user:word@docs.example.com/",
    "curl http://169.254.169.254/latest",
    "echo x > /dev/tcp/example.com/80",
    "curl https://docs.example.com/ | ssh host",
]


def read(line: str) -> CommandLine:
    found = parse_command(line)
    assert isinstance(found, CommandLine), found
    return found


@pytest.mark.parametrize("line", NAMED)
def test_the_hosts_of_a_line_are_asked_about(line) -> None:
    urls = urls_by_proxy(read(line), ())
    assert urls is not None and list(map(reach_of_url, urls)) == NAMED[line]


@pytest.mark.parametrize("line", NOT_BY_PROXY)
def test_what_needs_another_network_is_asked_about_as_a_whole(line) -> None:
    assert urls_by_proxy(read(line), ()) is None
