"""Find URLs in text.

There are two purposes. From a person's words we take what they meant and no more, since it becomes a
permission: `urls_in`, `urls_given`, `urls_hinted`. From a string in a model's call we take everything
that some client could open, since it is to be judged: `suspects_in`. The meaning of a URL is for
`parse.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ..lazy import regex
from ..text import folded
from .fingerprints import percent_decoded
from .parse import Url, parse_url

__all__ = ["is_host_like", "suspects_in", "urls_given", "urls_hinted", "urls_in", "without_urls"]

# A name without https:// is taken for a host only under a well-known top-level domain, so that
# `node.js`, `np.array` and `e.g.` stay words. Someone who means another domain can write https://.
_COUNTRIES = (
    "ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw "
    "by bz ca cc cd cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et "
    "eu fi fj fk fm fo fr ga gd ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie "
    "il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp kr kw ky kz la lb lc li lk lr ls lt lu lv "
    "ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na nc ne nf ng ni nl no np nr "
    "nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw sa sb sc sd se sg sh si sk sl "
    "sm sn so sr ss st su sv sx sy sz tc td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk us uy uz "
    "va vc ve vg vi vn vu wf ws ye yt za zm zw"
)
_GENERIC = (
    "com org net edu gov mil int info biz name pro mobi asia jobs tel travel museum coop aero post arpa "
    "app dev page cloud online site store shop tech xyz blog news wiki website space live life world "
    "today agency studio design art media digital network systems software solutions services company "
    "group team work works tools zone host hosting link click chat email social community foundation "
    "academy education school university science health care finance bank money capital fund ventures law "
    "legal press review reviews events games game fun fyi guide help support center city earth global "
    "international plus one top vip win ink ngo ong eco green energy codes computer engineer engineering "
    "technology graphics photo photos pictures video film movie tube show radio fm run build domains "
    "directory expert institute land rocks ninja guru cool wtf lol moe ist berlin paris london nyc tokyo "
    "amsterdam wien zuerich scot wales cat google goog youtube amazon aws apple microsoft android moscow "
    "bot data docs zip mov new how foo"
)
_INTERNATIONAL = (
    "xn--p1ai xn--p1acf xn--80asehdb xn--80aswg xn--90ais xn--j1amh xn--90a3ac xn--d1alf xn--qxam xn-- "
    "e1a4c xn--fiqs8s xn--fiqz9s xn--j6w193g xn--kprw13d xn--kpry57d xn--55qx5d xn--io0a7i xn--3e0b707e "
    "xn--q9jyb4c"
)
_TOP_LEVEL = frozenset(f"{_COUNTRIES} {_GENERIC} {_INTERNATIONAL}".split())
_ENDINGS = (
    "ac am as bz cat cc dot do fish gd gs java la map md mk ml mo mov pl pm prof ps pub py rs sh so st "
    "sv tf zip"
)
_FILE_ENDINGS = frozenset(_ENDINGS.split())

# Names of attributes, modules and locales end like hosts, too: `user.id`, `System.IO`, `messages.de`, and
# a path behind them says nothing: `app.services/user`. Anyone can register those, so a bare name is taken
# at its word only under a domain that no program uses as a name, and a question is put where it is not.
_SURE = frozenset({*"com org net edu gov mil jp uk au nz br mx dk cz tw hk".split(), *_INTERNATIONAL.split()})
_SECOND_LEVEL = frozenset("ac co com edu go gob gov gouv ltd net ne nhs nom or org plc".split())
_NAMESPACES = frozenset("android asp dot java javax kotlin microsoft ml scala system vb windows".split())
# What begins so is an attribute of something that programs call so, or a package named backwards.
_ROOTS = frozenset(
    "self cls this super os sys np pd plt tf torch process window document navigator console module exports "
    "require import request response req res ctx args kwargs com org net edu gov io".split()
)
_VERSION = regex(r"v?\d+(?:\.\d+)+", re.IGNORECASE)
_CODE_BEFORE = regex(r"(?:[\w)\]][(\[{<\"'`]+|->|::|#include\s*[<\"])\Z", re.ASCII)
_LINK_BEFORE = regex(r"\][(\[]<?\Z")
_CODE_AFTER = regex(r"[\[{]|::|->|[\"'`)\]]*\.[A-Za-z_]|[\"'`)]+[(\[]|\s+(?:=(?!>)|import\s)|/\w+\.h\b")
_INNER_CAPITAL = regex(r"[a-z][A-Z]")

_LONGEST_HOST = 1024
_NEAR = 12  # Characters beside a word that show whether it is part of code.
_LONGEST = 9000  # A little more than `url.MAX_BYTES`, so that what is cut off here is refused there.

# Scripts written without blanks, where a word may follow a URL directly.
_UNSPACED = (
    r"\u0e00-\u109f\u1100-\u11ff\u2e80-\u2fff\u3040-\u30ff\u3400-\u9fff"
    r"\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
)
_QUOTES = '"`«»‹›“”„‘’'
_WIDE = "。、，；：！？（）「」『』【】〔〕《》〈〉［］｛｝｜～…‥・·｡､｢｣．"
_MARKS = r"\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_OUTSIDE = rf"\s\x00-\x1f\x7f-\x9f{_MARKS}\u2014\u2015\\<>{_QUOTES}{_WIDE}"
_STOP = regex(rf"[{_OUTSIDE}()\[\]{{}}?#]|(?<![/=?&#:])https?:[/\\]", re.IGNORECASE)
_HOST = regex(rf"[^{_OUTSIDE}/?#'(){{}}|,;!*$&+=^~\u2012\u2013]*")
_UNBROKEN = regex(r"[^\s\x00-\x1f\x7f-\x9f<>/?#\\^|]*")
_CLOSERS = {
    "'": "'",
    "|": "|",
    '"': '"',
    "`": "`",
    "(": ")",
    "[": "]",
    "{": "}",
    "<": ">",
    "“": "”",
    "‘": "’",
}
_CLOSERS |= {"«": "»", "（": "）", "「": "」", "『": "』", "【": "】", "《": "》", "〈": "〉"}
_PAIRS = {")": "(", "]": "[", "}": "{"}
_CUTS = {"'": "'", "|": "|", "<": "|"}
_EMPHASIS = "*_~"
_UNSPACED_WORD = regex(rf"(?<=[A-Za-z0-9])(?=[{_UNSPACED}])")
_DOUBTFUL_END = regex(rf"(?<=[A-Za-z0-9])(?=[{_UNSPACED}])|(?<=[A-Za-z0-9/)])(?=[\u2012\u2013])")

_EXPLICIT = regex(r"(?<![A-Za-z0-9])https?://", re.IGNORECASE)
_LOOSE = regex(
    r"https?:(?:[/\\]+(?=[^\s/\\])|(?=\[|localhost\b|[^\s/\\?#:]*[.。．｡][^\s/\\?#.]))", re.IGNORECASE
)
_WHOLE = regex(r"https?:[/\\]*[^\s/\\]\S*", re.IGNORECASE)
# A user name may hold blanks, so that `https://good.com (@evil.net` leads to evil.net.
_WITH_USER = regex(r"https?:[/\\]*[^/?#\\]*@", re.IGNORECASE)
# Where any other scheme ends; a digit before it hides it from nobody who looks for `scheme://`.
_ANY_SCHEME = regex(r"(?<=[A-Za-z0-9+.-])://(?=[^\s.,;:!?)\]}>'\"`])")
_SCHEME_NAME = regex(r"[A-Za-z][A-Za-z0-9+.-]{0,63}\Z")
_DECODINGS = 4
_OTHER_OPENED = regex(
    r"file:(?:\S|[\t\r\n]*[/\\])|(?:ftps?|sftp|tftp|gopher|dict|ldaps?|wss?):[/\\]+[^\s/\\]", re.IGNORECASE
)

_LETTERS = "A-Za-z0-9\u00c0-\u024f\u0370-\u052f"
_LABEL = rf"[{_LETTERS}](?>[{_LETTERS}_-]*)"
_BARE = regex(
    rf"(?<![{_LETTERS}@/\\._~$%#&=:+-])(?>{_LABEL}(?:\.{_LABEL})+)(?>:\d+)?"
    rf"(?![{_LETTERS}_@\\(=-]|\.[{_LETTERS}])"
)
_GOES_ON = regex(r"^@|[.。．｡@]\w", re.ASCII)
_NEW_SENTENCE = regex(r"[a-z0-9)]\.[A-Z][a-z]*$")


def urls_in(text: str) -> tuple[Url, ...]:
    """Return the URLs written out with http:// or https://, in order, each once."""
    return _distinct(text[start:end] for start, end in _explicit_spans(text))


def urls_given(text: str, names_file: Callable[[str], bool] = lambda _: False) -> tuple[Url, ...]:
    """Return the URLs a person gave: those written out, and bare hosts such as `example.com/docs`.

    A bare host is taken as https. It has to be a word of its own that can only be a host: nothing in the
    workspace has its name, which `names_file` tells, it does not end like a file (`main.rs`), and no
    program could be meant (`user.id`, `app.services/user`, `settings.database.com`).
    """
    whole = text.strip()
    bare = [word for word, alone in _bare_words(text) if alone and _is_given(word, whole, names_file)]
    return tuple(dict.fromkeys((*urls_in(text), *_distinct(f"https://{word}" for word in bare))))


def urls_hinted(text: str, names_file: Callable[[str], bool] = lambda _: False) -> tuple[Url, ...]:
    """Return what may be a URL or else a file or a name: worth a question, no permission.

    That is `docs.rs/tokio`, for a file has no path behind it, and `user.id`, which may be a host.
    """
    whole = text.strip()
    others = [word for word, alone in _bare_words(text) if not (alone and _is_given(word, whole, names_file))]
    doubtful = (word for word in others if "/" in word or not _could_be_file(word, names_file))
    return _distinct(f"https://{word}" for word in doubtful)


def _is_given(word: str, whole: str, names_file: Callable[[str], bool]) -> bool:
    """Whether a word of a text is meant as a URL; below a domain only where no other reading is likely."""
    is_plain = word == whole or _is_registered(word)
    return is_plain and _is_surely_host(word) and not _could_be_file(word, names_file)


def _is_registered(word: str) -> bool:
    """Whether a host is a domain as people register it; a deeper one reads like an attribute."""
    labels = re.split(r"[/?#:]", word, maxsplit=1)[0].lower().split(".")
    if labels[0] == "www" or not labels[0].isascii():
        return True
    is_below_country = len(labels[-1]) == 2 and len(labels) == 3 and labels[-2] in _SECOND_LEVEL
    return len(labels) == 2 or is_below_country


def without_urls(text: str) -> str:
    """Return a text with a blank instead of each URL that is written out in it."""
    pieces, position = [], 0
    for start, end in _explicit_spans(text):
        pieces.append(text[position:start])
        position = end
    return " ".join((*pieces, text[position:]))


def suspects_in(text: str) -> tuple[str, ...]:
    """Return every piece of a tool's argument that some client could open as a URL, as it is written.

    Each is for `parse_url`, which refuses those that only a repair makes a URL: missing or wrong
    slashes, line breaks, user names. A URL in another's query belongs to that one.
    """
    if ":" not in text and "%" not in text and text.isascii():
        # True of most texts: nothing in it ends a scheme, however that may be spelled.
        return ()
    if _is_mended_by_clients(text) or _OTHER_OPENED.match(text.lstrip()):
        return (text,)
    found, rest = _web_addresses(text)
    if "%" in rest or "://" in rest or not rest.isascii():
        found |= dict.fromkeys(word for word in rest.split() if _is_other_address(word))
    whole = text.strip()
    if len(found) <= 1 and whole.isascii() and _WHOLE.fullmatch(whole):
        # One word that is a URL is taken at its word, with whatever punctuation it ends in.
        return (whole,)
    return tuple(found)


def _web_addresses(text: str) -> tuple[dict[str, None], str]:
    """Return what begins with http: or https: in a text, and the text without it."""
    found: dict[str, None] = {}
    between: list[str] = []
    position = 0
    while start := _LOOSE.search(text, position):
        candidate = _guarded(text, start)
        between.append(text[position : start.start()])
        position = start.start() + max(len(candidate), 1)
        if len(candidate) > start.end() - start.start():
            found[candidate] = None
        else:
            between.append(text[start.start() : position])
    return found, "".join((*between, text[position:]))


def _is_other_address(word: str) -> bool:
    """Whether a word has another scheme, or any once it is decoded and its look-alikes are undone."""
    if "%" not in word and word.isascii():
        return _has_scheme(word)
    for _ in range(_DECODINGS):
        word, before = percent_decoded(folded(word)), word
        if _has_scheme(word):
            return True
        if word == before:
            return False
    return _has_scheme(folded(word))


def _has_scheme(word: str) -> bool:
    ends = (found.start() for found in _ANY_SCHEME.finditer(word))
    return any(_SCHEME_NAME.search(word[max(0, end - 64) : end]) for end in ends)


def _distinct(written: Iterable[str]) -> tuple[Url, ...]:
    """Read each of several URLs as a person may mean it, in order, each once."""
    return tuple(dict.fromkeys(url for text in dict.fromkeys(written) for url in _readings(text)))


def _explicit_spans(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    while start := _EXPLICIT.search(text, position):
        position = start.start() + len(_natural(text, start.start(), start.end()))
        yield start.start(), position
        position = max(position, start.end())


def _natural(text: str, start: int, host: int) -> str:
    """Return the URL that begins at `start`, less the punctuation of the sentence around it.

    `host` is where its host begins.
    """
    opener = text[start - 1 : start]
    run = text[host : _end(text, host, min(len(text), host + _LONGEST))]
    name = _HOST.match(run)
    if name and run[name.end() : name.end() + 1] not in ("/", "?", "#"):
        run = name[0]
    word = _UNSPACED_WORD.search(run)
    if name and word and word.start() < name.end() and _is_top_level(_last(run[: word.start()])):
        run = run[: word.start()]
    if opener in _CUTS:
        run = run.partition(_CUTS[opener])[0]
    run = run.rstrip(".,;:!?'")
    if opener and opener in _EMPHASIS:
        run = run.rstrip(opener + ".,;:!?'")
    return text[start:host] + run


def _end(text: str, position: int, limit: int) -> int:
    """Return where a URL ends.

    That is at a character no URL holds, at a bracket that closes nothing in it, or before another
    URL, unless that one is a part of this one's path or query.
    """
    opened = dict.fromkeys(_PAIRS.values(), 0)
    in_path = True
    while stop := _STOP.search(text, position, limit):
        mark, position = stop[0], stop.start() + 1
        if mark in opened:
            opened[mark] += 1
        elif mark in _PAIRS and opened[_PAIRS[mark]]:
            opened[_PAIRS[mark]] -= 1
        elif mark in ("?", "#"):
            in_path = False
        elif len(mark) == 1 or in_path:
            return stop.start()
    return limit


def _last(host: str) -> str:
    return host.rpartition(".")[2]


def _readings(written: str) -> Iterator[Url]:
    """Yield what a URL in a person's text may mean.

    Where a word of an unspaced script or a dash follows without a blank (`…/pageを読んで`), nobody but
    the person knows whether it belongs to the path: both are as they wrote it.
    """
    word = _DOUBTFUL_END.search(written, written.find("/", len("https://")) % (len(written) + 1))
    for variant in (written, written[: word.start()]) if word else (written,):
        url = parse_url(variant)
        if isinstance(url, Url):
            yield url


def _is_top_level(label: str) -> bool:
    return label.lower() in _TOP_LEVEL


def _bare_words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words that are a host under a well-known domain, with their port and path.

    With each, whether it is a word of its own: what touches it is no code.
    """
    rest = without_urls(text)
    for match in _BARE.finditer(rest):
        glued = _NEW_SENTENCE.search(match[0])
        if glued and match[0].startswith("www.") and _is_host(match[0][: glued.start() + 1]):
            # The next sentence begins without a blank: `www.host.com.They`.
            yield match[0][: glued.start() + 1], True
            continue
        if not _is_host(match[0].partition(":")[0]):
            continue
        if glued and not match[0][0].isupper():
            continue
        word = _natural(rest, match.start(), match.start())
        word = word if len(word) >= len(match[0]) else match[0]
        yield word, _stands_alone(rest, match.start(), match.start() + len(word))


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a word is no part of code such as `get("example.com")[0]`, which links of Markdown are not."""
    before = text[max(0, start - _NEAR) : start]
    if _CODE_BEFORE.search(before) and not _LINK_BEFORE.search(before):
        return False
    return _CODE_AFTER.match(text, end, end + _NEAR) is None


def _is_host(name: str) -> bool:
    if not name.isascii():
        url = parse_url(f"https://{name}")
        name = url.host if isinstance(url, Url) else ""
    return _is_top_level(_last(name))


def _is_surely_host(word: str) -> bool:
    """Whether a bare word can only begin with a host: under a domain that is no name in a program."""
    host = re.split(r"[/?#:]", word, maxsplit=1)[0]
    labels = host.split(".")
    last = labels[-1]
    if labels[0].lower() == "www":
        return True
    if (
        labels[0].lower() in _ROOTS
        or _INNER_CAPITAL.search(host)
        or "_" in host
        or _VERSION.fullmatch(host.rpartition(".")[0])
    ):
        return False
    if not labels[0].isascii():
        return True
    if last.lower() not in _SURE:
        return len(last) == 2 and len(labels) > 2 and labels[-2].lower() in _SECOND_LEVEL
    # `System.Net` and `ASP.NET` are written like this, hosts are not.
    is_written_so = last == last.capitalize() or last == "NET"
    return not is_written_so and not (last == "net" and labels[0].lower() in _NAMESPACES)


def is_host_like(word: str) -> bool:
    """Whether a word begins like a host under a well-known domain, and not like a file; wildcards aside."""
    name = re.split(r"[/?#:]", word, maxsplit=1)[0].removesuffix(".")
    if "." not in name or "@" in name or _last(name).lower() in _FILE_ENDINGS:
        return False
    return _is_host(name.replace("*", "x"))


def _could_be_file(word: str, names_file: Callable[[str], bool]) -> bool:
    host = re.split(r"[/?#:]", word, maxsplit=1)[0]
    return _last(host).lower() in _FILE_ENDINGS or names_file(host) or names_file(word)


def _guarded(text: str, start: re.Match[str]) -> str:
    """Return the URL that begins at a match, cut only where no client would read its host further."""
    natural = _natural(text, start.start(), start.end())
    unbroken = _UNBROKEN.match(text, start.end(), start.end() + _LONGEST_HOST)
    authority = unbroken[0] if unbroken else ""
    closer = _CLOSERS.get(text[start.start() - 1 : start.start()])
    if closer is not None and closer in authority:
        return natural
    beyond = authority[len(natural) - (start.end() - start.start()) :]
    if len(authority) == _LONGEST_HOST or _GOES_ON.search(beyond):
        return text[start.start() : start.end()] + authority
    rest = text[start.start() + len(natural) : start.start() + len(natural) + 1]
    return natural + rest if rest == "\\" else natural


def _is_mended_by_clients(text: str) -> bool:
    """Whether a text as a whole is a URL to clients that remove line breaks and tabs from it."""
    stripped = text.strip("".join(map(chr, range(0x21))))
    mended = re.sub(r"[\t\r\n]", "", stripped)
    if _WITH_USER.match(mended):
        return True
    begins = _LOOSE.match(mended)
    if begins is None or mended == stripped:
        return False
    return _is_one_url(stripped, re.split(r"[/?#\\]", mended[begins.end() :], maxsplit=1)[0])


def _is_one_url(text: str, host: str) -> bool:
    """Whether a text with line breaks in it is rather a broken URL than one followed by other words.

    `host` is what its host is without them; a host with a blank in it is none.
    """
    head, piece = re.split(r"[\t\r\n]+", text, maxsplit=1)
    begins = _LOOSE.match(head)
    if begins is None:
        return " " not in host
    if " " in head or _LOOSE.match(piece):
        return False
    word = piece.split(maxsplit=1)[0] if piece[:1].strip() else ""
    if re.match(r"[/?.&=%\\:-]+\w", word):
        return True
    if re.search(r"[/?#\\]", head[begins.end() :]):
        return ".." in word
    return " " not in host and (re.search(r"[.:]\w", word) is not None or _is_top_level(_last(host)))
