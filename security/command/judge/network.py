"""Where a line connects to, and whether it may: URLs, hosts and remotes among its words.

Any word may hold a URL; which operands are hosts depends on the program. What is unclear is named
rather than left out: naming too much costs a question, naming too little is a way out. Destinations are held
against what the person gave and against the addresses that nothing may reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...kinds import Unreadable
from ...url import Ledger, Url, judge_host, parse_url
from ..expand import visits
from ..programs import lines_of
from ..syntax import Command, CommandLine, Node, PartKind, Redirection
from .verdict import Ruling, Say

__all__ = ["connects", "destinations", "destinations_of", "hides_destination", "hosts_of", "reach_of"]


_URL = re.compile(
    r"(?:https?|ftps?|wss?|git|ssh|sftp|rsync|svn(?:\+ssh)?|ldaps?|telnet|smb|nfs|s3|gs|dict|gopher|tftp|mqtt|imaps?|smtps?|pop3s?|rtmp|docker)://[^\s'\"<>]+",
    re.IGNORECASE,
)
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\]):(?!//|\\)\S*")
_HOST = re.compile(
    r"(?:[\w.-]+@)?(?P<host>(?:[A-Za-z0-9_-]+\.)+[A-Za-z]{2,}|localhost|\d{1,3}(?:\.\d{1,3}){3}|\[?[0-9a-fA-F]*:[0-9a-fA-F:]+\]?)(?::\d+)?(?:/\S*)?"
)
_DEVICE = re.compile(r"/dev/(?:tcp|udp)/(?P<host>[^/]+)/(?P<port>\S+)")
_MARKS = str.maketrans("", "", "⟨⟩")
_OPEN = frozenset({PartKind.VARIABLE, PartKind.EXPANSION, PartKind.SUBSTITUTION, PartKind.GIVEN})
_ANY_HOST = re.compile(r"(?:[\w.-]+@)?[A-Za-z0-9_][A-Za-z0-9_.-]*")

# Programs whose operands are hosts or bare addresses, and programs that copy to `host:path`.
_HOST_PROGRAMS = frozenset(
    "ping ping6 fping traceroute traceroute6 tracepath mtr dig host nslookup drill kdig whois nc ncat "
    "netcat socat telnet "
    "ssh mosh ftp lftp sftp curl curlie wget wget2 aria2c http https xh httpie nmap masscan openssl rsh "
    "rlogin finger "
    "mysql psql redis-cli mongo mongosh ldapsearch smbclient snmpwalk ssh-keyscan ssh-copy-id arping "
    "hping3 iperf iperf3 "
    "resolvectl getent websocat grpcurl rclone".split()
)
_SILENT_NAMES = frozenset(
    (
        "ssh mosh ping dig host nslookup whois nc ncat netcat telnet ftp sftp ssh-copy-id ssh-keyscan "
        "mtr traceroute"
    ).split()
)
_REMOTE_COPIERS = frozenset("scp rsync sftp git rclone".split())
_GIT_REMOTE = frozenset("clone fetch pull push ls-remote remote submodule archive".split())
_CONNECTING = frozenset(
    "apt apt-get aptitude dnf yum zypper apk pacman brew port snap flatpak pip pip3 pipx uv poetry pdm "
    "conda mamba npm npx "
    "yarn pnpm bun deno cargo rustup go gem bundle composer mvn gradle nuget dotnet docker podman "
    "kubectl helm terraform "
    "aws gcloud gsutil az gh glab hub heroku vercel netlify fly flyctl doctl ansible ansible-playbook "
    "vagrant mail mailx "
    "sendmail msmtp mutt swaks xdg-open open lynx links w3m elinks chromium google-chrome firefox "
    "youtube-dl yt-dlp "
    "ngrok cloudflared tailscale wg openvpn".split()
)
_REACHING = _CONNECTING | _HOST_PROGRAMS
# The word behind one of these is no host.
_VALUES = frozenset("-o --output -d --data -H --header -A -u --user -X -w -p -i -m -c -n".split())
_DOTTED_FILE = re.compile(
    r".*\.(?:py|js|ts|json|md|txt|sh|toml|ya?ml|html?|css|c|h|cpp|rs|go|java|rb|php|xml|csv|log|lock|cfg|ini|gz|zip|tar|tgz|png|jpg|pdf|pem|key|crt|sql|out|bin|so|o)",
    re.IGNORECASE,
)


def destinations(line: CommandLine) -> tuple[str, ...]:
    """Return every URL, host and remote a line names, as written, each once."""
    return line.once.of(destinations_of, line.root)


def destinations_of(root: Node) -> tuple[str, ...]:
    """Return the same of what was read of a line."""
    return tuple(dict.fromkeys(found for visit in visits(root) for found in _of(visit.command)))


def hides_destination(command: Command) -> bool:
    """Whether words that are only known when it runs may say where a program connects."""
    named = bool(destinations_of(command))
    if named and command.program in {"ssh", "mosh"}:
        return False
    if not named:
        return any(not word.text.startswith("-") for word in command.words[1:])
    return any(
        word.parts and word.parts[0].kind in _OPEN and before.text not in _VALUES
        for before, word in pairwise(command.words)
    )


def connects(line: CommandLine) -> tuple[str, ...]:
    """Return the programs in a line that reach out by themselves, whatever they are told."""
    programs = (visit.command.program for visit in visits(line.root))
    return tuple(dict.fromkeys(program for program in programs if program in _REACHING))


def _of(command: Command) -> Iterator[str]:
    for redirection in command.redirections:
        yield from _device(redirection)
    if not _may_connect(command):
        return
    texts = [word.text.translate(_MARKS) for word in command.words[1:]]
    texts += [assignment.value.text.translate(_MARKS) for assignment in command.assignments]
    with_urls = {text: found for text in texts if "://" in text and (found := _URL.findall(text))}
    for text in texts:
        yield from with_urls.get(text, ())
    program = command.program
    for index, word in enumerate(texts):
        text = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        if text.startswith("-") or word in with_urls:
            continue
        if (program in _REMOTE_COPIERS and _is_remote(program, text, texts[0])) or (
            program in _HOST_PROGRAMS and _is_host(program, text, index, texts)
        ):
            yield text


def _may_connect(command: Command) -> bool:
    """Programs that are known to only read connect to nothing, and git only where it speaks of remotes."""
    program = command.program
    if program == "git":
        return any(word.text in _GIT_REMOTE for word in command.words[1:])
    return program in _REACHING or program not in lines_of("programs.toml")


def _device(redirection: Redirection) -> Iterator[str]:
    found = _DEVICE.fullmatch(redirection.target.text)
    if found is not None:
        yield f"{found['host']}:{found['port']}"


def _is_remote(program: str, text: str, first: str) -> bool:
    if program == "git" and first not in _GIT_REMOTE:
        return False
    return _SCP.fullmatch(text) is not None and not text.startswith(("HEAD:", "refs/", "+refs"))


def _is_host(program: str, text: str, index: int, texts: list[str]) -> bool:
    if program == "getent" and texts[0] not in {"hosts", "ahosts", "ahostsv4", "ahostsv6"}:
        return False
    if program == "openssl" and texts[0] != "s_client":
        return False
    if index and texts[index - 1] in _VALUES:
        return False
    if _HOST.fullmatch(text) and ("/" in text or not _DOTTED_FILE.fullmatch(text)):
        return True
    first = next((word for word in texts if not word.startswith(("-", "+", "@"))), "")
    return program in _SILENT_NAMES and text == first and _ANY_HOST.fullmatch(text) is not None


_LOCAL = frozenset({"loopback"})
_HOST_ONLY = frozenset(
    (
        "curl wget nc ncat netcat telnet ssh scp sftp ftp socat http https xh aria2c ping dig host "
        "nslookup whois"
    ).split()
)


def reach_of(line: CommandLine, ledger: Ledger, allow_networks: Sequence[str]) -> Ruling:
    """Return the strictest word about where a line connects to."""
    rulings = [_judged(text, ledger, allow_networks) for text in destinations(line)]
    reaching = connects(line)
    commands = (visit.command for visit in visits(line.root)) if _HOST_ONLY & set(reaching) else ()
    hiding = (one.program for one in commands if one.program in _HOST_ONLY and hides_destination(one))
    rulings += [
        Ruling(Say.FORCE, "destination", "where it connects to is only known when it runs", name)
        for name in dict.fromkeys(hiding)
    ]
    if not rulings:
        return (
            Ruling(Say.ASK, "connects", "it connects to a network", ", ".join(reaching))
            if reaching
            else Ruling(Say.NOTHING)
        )
    worst = max(rulings, key=lambda ruling: ruling.say)
    values = tuple((ruling.reason, ruling.value) for ruling in rulings if ruling.say)
    return Ruling(worst.say, worst.rule, worst.reason, worst.value, values)


def hosts_of(line: CommandLine) -> tuple[str, ...]:
    """Return the hosts a line names, in canonical form, but for those of this machine."""
    urls = (url for text in destinations(line) for url in _readings(text))
    hosts = dict.fromkeys(url.host for url in urls if isinstance(url, Url))
    return tuple(host for host in hosts if judge_host(host, ()) not in _LOCAL)


def _judged(text: str, ledger: Ledger, allow_networks: Sequence[str]) -> Ruling:
    for url in _readings(text):
        if isinstance(url, Unreadable):
            continue
        what = judge_host(url.host, allow_networks)
        if what == "cloud metadata":
            return Ruling(Say.DENY, "metadata", "it reaches the cloud's metadata service", text)
        if what in _LOCAL:
            return Ruling(Say.ASK, "loopback", "it connects to a service on this machine", text)
        if what is not None:
            return Ruling(
                Say.FORCE, "destination", f"it connects to a host that is not public ({what})", text
            )
        known = ledger.lookup(url)
        if known.source is not None and not known.added:
            return Ruling(Say.ASK, "connects", "it connects to a place you named", text)
    return Ruling(Say.FORCE, "destination", "it connects to a place you did not name", text)


def _readings(text: str) -> Iterator[Url | Unreadable]:
    """Yield what a destination may be as a URL: itself, or the host in it."""
    if "://" in text:
        scheme, _, rest = text.partition("://")
        yield parse_url(text if scheme in {"http", "https"} else f"https://{rest.rpartition('@')[2]}")
        return
    host = text.rpartition("@")[2]
    yield parse_url(f"https://{host}")
    yield parse_url(f"https://{host.partition(':')[0]}/")
