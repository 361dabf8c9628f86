"""Find where a line connects to (URLs, hosts, git remotes) and judge each destination.

Any word may hold a URL; which operands are hosts depends on the program. What is unclear is named
rather than left out: naming too much costs a question, naming too little is a way out. Destinations are held
against what the person gave and against the addresses that nothing may reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ...kinds import CommandLine, Unreadable
from ...lazy import dataclass, regex
from ...url import Ledger, Url, judge_host, parse_url
from ..expand import commands_of
from ..programs import groups_of, lines_of, table
from ..syntax import Command, Node, Redirection
from .verdict import Ruling, Say

__all__ = [
    "connects",
    "destinations",
    "destinations_of",
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
_ANY_HOST = regex(r"(?:[\w.-]+@)?[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class _Connecting:
    """What a group of `network.toml` says of its programs, with the defaults."""

    operands: str = ""
    copies: bool = False
    proxy: str = ""
    known: bool = False
    connects: bool = True
    here: str = ""
    offline: bool = False


_UNLISTED = _Connecting(connects=False)


@lru_cache(maxsize=1)
def _programs() -> dict[str, _Connecting]:
    groups = groups_of(table("network.toml")["group"])
    return {program: _Connecting(**said) for program, said in groups}


def _known_of(program: str) -> _Connecting:
    return _programs().get(program, _UNLISTED)


_GIT_REMOTE = frozenset("clone fetch pull push ls-remote remote submodule archive".split())
_SAYS_ITSELF = frozenset("--version -V -v --help -h help version --offline".split())
_QUIET = frozenset("-q -s -v --quiet --silent --verbose --locked --frozen --color=never".split())
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


def _hides_destination(command: Command) -> bool:
    """Whether a program that only connects to what it names is given words, but no place among them."""
    has_operands = any(not word.text.startswith("-") for word in command.words[1:])
    return _known_of(command.program).known and has_operands and not destinations_of(command)


def connects(line: CommandLine) -> tuple[str, ...]:
    """Return the programs in a line that reach out by themselves, for any words."""
    commands = commands_of(line.root)
    reaching = (one.program for one in commands if _known_of(one.program).connects and not _stays_here(one))
    return tuple(dict.fromkeys(reaching))


def _stays_here(command: Command) -> bool:
    """Whether the words of a package manager ask for nothing from elsewhere."""
    verbs = _known_of(command.program).here.split()
    if not verbs or not all(word.is_literal for word in command.words[:3]):
        return False
    texts = [word.text for word in command.words[1:]]
    first = next((text for text in texts if text not in _QUIET), "")
    return first in verbs or first in _SAYS_ITSELF


def _of(command: Command) -> Iterator[str]:
    yield from filter(None, map(_device, command.redirections))
    if not _may_connect(command):
        return
    texts = [word.text.translate(_MARKS) for word in command.words[1:]]
    texts += [assignment.value.text.translate(_MARKS) for assignment in command.assignments]
    with_urls = {text: found for text in texts if "://" in text and (found := _URL.findall(text))}
    for text in texts:
        yield from with_urls.get(text, ())
    program, known = command.program, _known_of(command.program)
    for index, word in enumerate(texts):
        text = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        if text.startswith("-") or word in with_urls:
            continue
        if (known.copies and _is_remote(program, text, texts[0])) or (
            known.operands and _is_host(program, text, index, texts)
        ):
            yield text


def _may_connect(command: Command) -> bool:
    """Some programs connect to nothing for any words, and git only where it speaks of remotes."""
    program = command.program
    if program == "git":
        return any(word.text in _GIT_REMOTE for word in command.words[1:])
    known = _known_of(program)
    return known.connects or not (known.offline or program in lines_of("programs.toml"))


def _device(redirection: Redirection) -> str:
    """Return the place that bash connects to for a redirection, "" where it opens a file."""
    found = _DEVICE.fullmatch(redirection.target.text)
    return f"{found['host']}:{found['port']}" if found is not None else ""


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
    takes_names = _known_of(program).operands == "names"
    return takes_names and text == first and _ANY_HOST.fullmatch(text) is not None


_LOCAL = frozenset({"loopback"})


def reach_of(line: CommandLine, ledger: Ledger, allow_networks: Sequence[str]) -> Ruling:
    """Return the strictest word about where a line connects to."""
    rulings = [_judged(text, ledger, allow_networks) for text in destinations(line)]
    hiding = dict.fromkeys(one.program for one in commands_of(line.root) if _hides_destination(one))
    why = "where it connects to is only known when it runs"
    rulings += [Ruling(Say.FORCE, "destination", why, name) for name in hiding]
    if not rulings:
        reaching = ", ".join(connects(line))
        return (
            Ruling(Say.ASK, "connects", "it connects to a network", reaching)
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
        program, known = command.program, _known_of(command.program)
        by_itself = (known.connects or known.copies) and not known.proxy
        if by_itself or any(map(_device, command.redirections)):
            return None
        for text in _of(command):
            if program == "git" and ("://" not in text or _OF_GIT.fullmatch(text)):
                continue
            url = parse_url(text if "://" in text else f"{known.proxy or 'https'}://{text}")
            if isinstance(url, Unreadable) or judge_host(url.host, allow_networks) is not None:
                return None
            found.append(url)
    return tuple(dict.fromkeys(found))
