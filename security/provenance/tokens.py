"""Split texts and values into the tokens by which they are compared.

1. A token is the text between blanks, quotes, brackets, commas and semicolons, without punctuation at its
   ends; letters are folded. So `#general`, "General" and `general,` are one token, and no part of a token is.
   Commas, semicolons and line ends are a token of their own: "Emma, Johnson" is no Emma Johnson.
2. What is written in more than one way has a form of its own beside its tokens, and the form says which way
   it is (`url:`, `account:`, `phone:`, `number:`): groups of an IBAN or of a phone number joined, a URL in
   canonical form, also if it is written as `www.host.com` or at the end of a sentence.
3. A text that is JSON is read leaf by leaf, and no run of tokens reaches from one leaf into another.

Text and value pass the same functions: what differs here is never equal there.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator

from ..kinds import Kind
from ..lazy import dataclass, regex
from ..url import Destination, DestinationKind, Url, is_host_like, parse_url, suspects_in, urls_in

__all__ = ["LONGEST_RUN", "Piece", "actionable_in", "forms_of", "number_form", "pieces_of", "tokens_of"]

LONGEST_RUN = 16
"""Tokens that a value may consist of, at most; one of more was seen by nobody."""

_LONGEST_TOKEN = 2048
_LONGEST_JSON = 1 << 20

# A comma stays where it groups digits by three, which no list of numbers is written like.
_TOKEN = regex(
    r"[,;|\n]|[^\s,;|\"'`<>()\[\]{}“”„‘’‚«»\u2026\x00-\x1f]+"
    r"(?:(?<=\d),(?=\d{3}(?!\d))[^\s,;|\"'`<>()\[\]{}“”„‘’‚«»\u2026\x00-\x1f]+)*"
)
_SEPARATORS, _SEPARATOR = frozenset(",;|\n"), ","
_EDGES = ".:!?*_~#@$€£¥%=&/\\-–—+^·•"
_LABELLED = regex(r"[A-Za-z_-]{2,40}[:=](?!//)(.+)", re.DOTALL)
# The next sentence without a blank before it: `www.host.com.They`.
# A name that may be one of a host, under a top level domain that is known or not, with a port or without.
_DOTTED = regex(r"(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,8}[a-z][a-z0-9-]{1,62}\.?(?::\d{1,5})?", re.IGNORECASE)
_GLUED = regex(r"(.*\w\.[a-z]{2,24})\.[A-Z][a-z']*", re.DOTALL)
_SAYS_MORE = regex(r"[.:=]\w|^\W*\d[\d,]*\W*\Z")
_NUMBER = regex(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,15}(?:\.\d+)?")
_ACCOUNT = regex(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}[ -][A-Za-z0-9]{4}(?:[ -](?=[A-Za-z]*\d)[A-Za-z0-9]{4}){1,6}"
    r"(?:[ -](?=[A-Za-z]*\d)[A-Za-z0-9]{1,3})?(?![A-Za-z0-9])"
)
_ACCOUNT_PART = regex(r"[A-Za-z]{2}\d{2}[A-Za-z0-9]{7,30}")
_PHONE = regex(r"(?<![\w.,+-])(?:\+|0|\(|(?=\d{3}-\d{3}-\d{4}))[\d(][\d ()./-]{5,22}\d(?!\w)")
_MAIL = regex(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_SEVERAL_DIGITS = regex(r"(?:\D*\d){8}")
_DIGITS_IN_A_ROW = regex(r"(?<![\w.,-])\+?\d{8,15}(?![\w-]|[.,]\d)")
_DIGIT, _DIGITS = regex(r"\d"), regex(r"\d\d")
_ACTS = regex(r"\.\S|\d")
_PHONE_DIGITS = range(7, 16)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text within which tokens follow each other; `forms` are other readings of them.

    `written` is for each token, and each form with it, its spelling in the text.
    """

    tokens: tuple[str, ...]
    forms: tuple[tuple[str, str], ...] = ()


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a text, in order; nothing sets apart what does not follow."""
    found = _sequence(map(_plain, _TOKEN.findall(text)))
    return tuple(found[1:] if found[:1] == [_SEPARATOR] else found)


def _sequence(tokens: Iterable[str]) -> list[str]:
    """Return tokens without empty ones, and separators that follow each other as one; none at the end."""
    found: list[str] = []
    for token in tokens:
        if token and (token != _SEPARATOR or found[-1:] != [_SEPARATOR]):
            found.append(token)
    return found[:-1] if found[-1:] == [_SEPARATOR] else found


def _plain(word: str) -> str:
    if word in _SEPARATORS:
        return _SEPARATOR
    if len(word) > _LONGEST_TOKEN:
        return ""
    bare = word.strip(_EDGES)
    if not bare.isascii():
        bare = unicodedata.normalize("NFKC", bare)
    # Not `casefold`, for which `straße.example` would be another domain, `strasse.example`.
    return bare.lower().removeprefix("mailto:")


def pieces_of(text: str) -> Iterator[Piece]:
    """Yield the stretches of a text: the leaves and keys of JSON, or all of it."""
    leaves = _leaves(text)
    if leaves is None:
        yield _piece(text)
        return
    yield from map(_piece, dict.fromkeys(leaves))


def _leaves(text: str) -> list[str] | None:
    start = text.lstrip()[:1]
    if start not in ("{", "[") or len(text) > _LONGEST_JSON:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found: list[str] = []
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as inner:
                found.extend(inner)
                waiting.extend(inner.values())
            case list() as inner:
                waiting.extend(inner)
            case str() as leaf:
                found.append(leaf)
            case bool() | None:
                pass
            case number:
                found.append(str(number))
    return found


def _piece(text: str) -> Piece:
    words = _TOKEN.findall(text)
    plain = {word: _plain(word) for word in dict.fromkeys(words)}
    tokens = tuple(_sequence(map(plain.__getitem__, words)))
    forms: dict[tuple[str, str], None] = {}
    for word in filter(_SAYS_MORE.search, plain):
        forms.update(dict.fromkeys(_forms_of_word(word)))
    if "://" in text:
        forms |= dict.fromkeys((_url_form(url), url.text) for url in urls_in(text))
    if _DIGITS.search(text):
        forms |= dict.fromkeys((form, form.partition(":")[2]) for form in _grouped(text))
    return Piece(tokens, tuple(forms))


def _forms_of_word(word: str) -> Iterator[tuple[str, str]]:
    """Yield what a word says beside its token, each with the part of the word that says it."""
    if labelled := _LABELLED.fullmatch(word):
        yield _plain(labelled[1]), labelled[1]
    if glued := _GLUED.fullmatch(word):
        yield _plain(glued[1]), glued[1]
    if form := number_form(word.strip(_EDGES)):
        yield form, word
    for host in (glued[1] if glued else word, labelled[1] if labelled else ""):
        bare = host.strip(_EDGES)
        if "://" not in host and is_host_like(bare) and (form := _host_url(bare)):
            yield form, bare


def _host_url(bare: str) -> str:
    url = parse_url(f"https://{bare}")
    return _url_form(url) if isinstance(url, Url) else ""


def _url_form(url: Url) -> str:
    """Return the form of a URL: its fragment says nothing of what is asked for."""
    return "url:" + url.text.partition("#")[0]


def number_form(text: str) -> str:
    """Return the form of a number, the same for `1,200.50` and `1200.5`; "" for what is none."""
    if not _NUMBER.fullmatch(text):
        return ""
    whole, _, rest = text.replace(",", "").partition(".")
    rest = rest.rstrip("0")
    return f"number:{whole}.{rest}" if rest else f"number:{whole}"


def _grouped(text: str) -> Iterator[str]:
    """Yield account and phone numbers that are written in groups."""
    for found in _ACCOUNT.finditer(text):
        groups = re.split("[ -]", found[0])
        whole = "".join(groups)
        shorter = "".join(groups[:-1])
        # A number of another kind may follow; the check digits tell.
        is_shorter = not _is_checked(whole) and _is_checked(shorter)
        yield f"account:{(shorter if is_shorter else whole).casefold()}"
    for found in _PHONE.finditer(text):
        digits = re.sub(r"\D", "", found[0])
        if len(digits) in _PHONE_DIGITS:
            yield f"phone:{digits}"


def _is_checked(account: str) -> bool:
    """Whether the check digits of an IBAN fit (ISO 13616: the rest of a division by 97 is 1)."""
    turned = account[4:] + account[:4]
    return (
        turned.isalnum()
        and turned.isascii()
        and int("".join(str(int(char, 36)) for char in turned)) % 97 == 1
    )


def forms_of(kind: Kind, canonical: object, raw: str) -> tuple[tuple[str, ...], ...]:
    """Return the runs of tokens, or forms, any of which is the value in a text."""
    match canonical:
        case Url() as url:
            secure = _url_form(url)
            # A known http URL covers its https form, never the reverse.
            return ((secure,), (secure.replace("url:https:", "url:http:", 1),))
        case Destination(kind=DestinationKind.MAIL) as place:
            found = [tokens_of(place.text)]
        case Destination() as place:
            found = [tokens_of(place.text), tokens_of(raw)]
        case _:
            found = [tokens_of(raw)]
    if kind is Kind.DESTINATION and not isinstance(canonical, Url):
        found += _number_forms(raw)
    return tuple(dict.fromkeys(run for run in found if 0 < len(run) <= LONGEST_RUN))


def actionable_in(text: str) -> Iterator[tuple[str, Kind, tuple[tuple[str, ...], ...]]]:
    """Yield what a reader of a text can act on, with its kind and the forms it has.

    These are URLs and hosts, mail addresses, and account and phone numbers, in groups or in one.
    """
    for raw in dict.fromkeys(suspects_in(text)):
        url = parse_url(raw if "://" in raw else f"https://{raw}")
        if isinstance(url, Url):
            yield url.text, Kind.URL, forms_of(Kind.URL, url, raw)
    # A host, an address and an account have a dot or a digit in them, as few words of a text do.
    rest = " ".join(word for word in text.split() if not word.isalpha() and _ACTS.search(word))
    for word in dict.fromkeys(_TOKEN.findall(rest)):
        bare = word.strip(_EDGES)
        place = parse_url(f"https://{bare}") if _is_place(bare) else None
        if isinstance(place, Url):
            yield bare, Kind.URL, (*forms_of(Kind.URL, place, bare), (bare.lower(),))
        elif found := _MAIL.search(bare):
            yield found[0], Kind.DESTINATION, ((found[0].lower(),),)
        elif _ACCOUNT_PART.fullmatch(bare) and _SEVERAL_DIGITS.search(bare):
            yield bare, Kind.DESTINATION, tuple(_number_forms(bare))
    if _DIGIT.search(rest) is None:
        return
    for form in dict.fromkeys(_grouped(text)):
        value = form.partition(":")[2]
        yield value, Kind.DESTINATION, ((form,), (value,))
    for found in _DIGITS_IN_A_ROW.finditer(text):
        yield found[0], Kind.DESTINATION, tuple(_number_forms(found[0]))


def _is_place(bare: str) -> bool:
    """Whether a word without a scheme could be opened: a host as it is, or what may be one before a path."""
    host, slash, _ = bare.partition("/")
    return "@" not in bare and (_DOTTED.fullmatch(host) is not None if slash else is_host_like(host))


def _number_forms(raw: str) -> Iterator[tuple[str, ...]]:
    """Yield an account or a phone number without its blanks, and in the form of one written in groups."""
    joined = re.sub(r"[\s-]", "", raw)
    if _ACCOUNT_PART.fullmatch(joined):
        yield (joined.casefold(),)
        yield (f"account:{joined.casefold()}",)
    digits = re.sub(r"\D", "", raw)
    if len(digits) in _PHONE_DIGITS and not re.search(r"[^\d\s()+./-]", raw):
        yield (digits,)
        yield (f"phone:{digits}",)
