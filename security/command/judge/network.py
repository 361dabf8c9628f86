"""Find where a line connects to (URLs, hosts, git remotes) and judge each destination.

Any word may hold a URL; which operands are hosts depends on the program. What is unclear is named
rather than left out: naming too much costs a question, naming too little is a way out. Destinations are held
against what the person gave and against the addresses that nothing may reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...kinds import CommandLine, Unreadable
from ...lazy import regex
from ...url import Ledger, Url, judge_host, parse_url
from ..expand import commands_of
from ..programs import lines_of
from ..syntax import Command, Node, PartKind, Redirection
from .verdict import Ruling, Say

__all__ = [
    "connects",
    "destinations",
    "destinations_of",
    "hides_destination",
    "hosts_of",
    "reach_of",
    "urls_by_proxy",
]


_URL = regex(
    r"(?:https?|ftps?|wss?|git|ssh|sftp|rsync|svn(?:\+ssh)?|ldaps?|telnet|smb|nfs|s3|gs|dict|gopher|tftp|mqtt|imaps?|smtps?|pop3s?|rtmp|docker)://[^\s'\"<>]+",
    re.IGNORECASE,
)
_SCP = regex(r"(?:[\w.-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\]):(?!//|\\)\S*")
_HOST = regex(
    r"(?:[\w.-]+@)?(?P<host>(?:[A-Za-z0-9_-]+\.)+[A-Za-z]{2,}|localhost|\d{1,3}(?:\.\d{1,3}){3}|\[?[0-9a-fA-F]*:[0-9a-fA-F:]+\]?)(?::\d+)?(?:/\S*)?"
)
_DEVICE = regex(r"/dev/(?:tcp|udp)/(?P<host>[^/]+)/(?P<port>\S+)")
_MARKS = str.maketrans("", "", "⟨⟩")
_OPEN = frozenset({PartKind.VARIABLE, PartKind.EXPANSION, PartKind.SUBSTITUTION, PartKind.GIVEN})
_ANY_HOST = regex(r"(?:[\w.-]+@)?[A-Za-z0-9_][A-Za-z0-9_.-]*")

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
# These open no URL, even if one is among their words. Neither do programs that only read.
_OFFLINE = frozenset(
    (
        "ag apropos arch awk b2sum base32 base64 bc break cal cksum column command continue diff dpkg "
        "dpkg-query egrep exa exit expand expr eza factor fd fdfind fgrep findmnt fmt fold free gawk "
        "getconf getfacl groups gzip hash hexdump hostname hostnamectl ifconfig iostat ip jobs join jq "
        "locale locate logname lsattr lsblk lscpu lsmod lsof lspci lsusb mawk namei netstat nm numfmt od "
        "paste pathchk pgrep pidof pr printf ps pstree read readelf rev rg sed set sha1sum sha224sum "
        "sha384sum sha512sum shasum shift shuf size ss strings sum tac tar times tput tree tty type "
        "ulimit umask unexpand unzip uptime users vmstat w wait whatis whereis who xxd zcat zipinfo "
    ).split()
)
# What managers of packages do with what is there already. Where something is missing they want to fetch it,
# and fail for want of a network, as any program may.
_WITH_WHAT_IS_THERE = {
    program: frozenset(verbs.split())
    for programs, verbs in {
        "npm": "test t tst run run-script start stop restart ls list ll la pkg config bin prefix explain",
        "yarn pnpm": "test run start ls list why bin config",
        "bun": "test run",
        "cargo": "build b check c test t run r bench doc clippy fmt clean tree metadata new init",
        "rustup": "show which",
        "go": "build test vet run fmt list env version doc clean tool fix",
        "pip pip3": "list show check freeze config cache debug inspect hash",
        "poetry": "run show check env version config",
        "bundle": "exec list show check config",
        "gem": "list environment which",
        "composer": "show run-script run validate dump-autoload",
    }.items()
    for program in programs.split()
}
_SAYS_ITSELF = frozenset("--version -V -v --help -h help version --offline".split())
_QUIET = frozenset("-q -s -v --quiet --silent --verbose --locked --frozen --color=never".split())
# Programs that go by a proxy where one is named, and those of them that speak http to a bare host.
_BY_PROXY = frozenset(
    (
        "curl curlie wget wget2 aria2c http https xh httpie git pip pip3 pipx uv poetry pdm npm npx yarn "
        "pnpm bun deno cargo rustup go gem bundle composer"
    ).split()
)
_BY_THEMSELVES = (_REACHING | _REMOTE_COPIERS) - _BY_PROXY
_HTTP_BY_DEFAULT = frozenset("curl curlie wget wget2 aria2c http xh httpie".split())
_OF_GIT = regex(r"(?:ssh|git|git\+ssh)://\S+", re.IGNORECASE)
# The word behind one of these is no host.
_VALUES = frozenset("-o --output -d --data -H --header -A -u --user -X -w -p -i -m -c -n".split())
_DOTTED_FILE = regex(
    r".*\.(?:py|js|ts|json|md|txt|sh|toml|ya?ml|html?|css|c|h|cpp|rs|go|java|rb|php|xml|csv|log|lock|cfg|ini|gz|zip|tar|tgz|png|jpg|pdf|pem|key|crt|sql|out|bin|so|o)",
    re.IGNORECASE,
)


def destinations(line: CommandLine) -> tuple[str, ...]:
    """Return every URL, host and remote a line names, as written, each once."""
    return line.once.of(destinations_of, line.root)


def destinations_of(root: Node) -> tuple[str, ...]:
    """Return the same of what was read of a line."""
    return tuple(dict.fromkeys(found for command in commands_of(root) for found in _of(command)))


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
    """Return the programs in a line that reach out by themselves, for any words."""
    commands = commands_of(line.root)
    reaching = (one.program for one in commands if one.program in _REACHING and not _stays_here(one))
    return tuple(dict.fromkeys(reaching))


def _stays_here(command: Command) -> bool:
    """Whether the words of a package manager ask for nothing from elsewhere."""
    verbs = _WITH_WHAT_IS_THERE.get(command.program)
    if verbs is None or not all(word.is_literal for word in command.words[:3]):
        return False
    texts = [word.text for word in command.words[1:]]
    first = next((text for text in texts if text not in _QUIET), "")
    return first in verbs | _SAYS_ITSELF


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
    """Some programs connect to nothing for any words, and git only where it speaks of remotes."""
    program = command.program
    if program == "git":
        return any(word.text in _GIT_REMOTE for word in command.words[1:])
    return program in _REACHING or not (program in _OFFLINE or program in lines_of("programs.toml"))


def _redirected_to(command: Command) -> Iterator[str]:
    yield from (redirection.target.text for redirection in command.redirections)


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
    commands = commands_of(line.root) if _HOST_ONLY & set(reaching) else ()
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


def urls_by_proxy(line: CommandLine, allow_networks: Sequence[str]) -> tuple[Url, ...] | None:
    """Return the URLs a line names, if all it may connect to can be reached by a proxy for http, else None.

    A bare host is given as a URL. What is known only when the line runs is left out: there the proxy is asked
    for it. So is a remote of git's that only ssh leads to, for that fails at once and says why.
    """
    found: list[Url] = []
    for command in commands_of(line.root):
        program = command.program
        if program in _BY_THEMSELVES or any(map(_DEVICE.fullmatch, _redirected_to(command))):
            return None
        for text in _of(command):
            if program == "git" and ("://" not in text or _OF_GIT.fullmatch(text)):
                continue
            bare = f"http://{text}" if program in _HTTP_BY_DEFAULT else f"https://{text}"
            url = parse_url(text if "://" in text else bare)
            if isinstance(url, Unreadable) or judge_host(url.host, allow_networks) is not None:
                return None
            found.append(url)
    return tuple(dict.fromkeys(found))
