r"""Find credentials without a recognisable shape by the name they are assigned to.

`api_token = "…"`, `PASSWORD=…`, `--password …`: the names, and the values that are no secrets, are listed in
`assigned.toml`. A value right behind the name of a secret is one unless it is a placeholder, an expression or
a word, or the name is about something else (`token_url`, `password_hash`, `public_key`). Further behind such
a name, and behind the name of a vendor, only what looks drawn at random is a secret. Marked hashes, git ids
and UUIDs are none but right behind their name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from ..lazy import regex
from .masking import CONTEXT, SecretRule

__all__ = ["assigned_rules", "is_no_stand_in", "name_at_end"]

_WRITTEN = tomllib.loads(Path(__file__).with_name("assigned.toml").read_text(encoding="utf-8"))
_NAMES, _VALUES = _WRITTEN["names"], _WRITTEN["values"]
_OTHER_SUBJECTS = frozenset((*_NAMES["about"], *_NAMES["hash"]))
_OTHER_BEFORE = _OTHER_SUBJECTS - frozenset(_NAMES["place"])
_HASHES = frozenset(_NAMES["hash"])
_STAND_INS = frozenset(_VALUES["words"])
_STAND_IN_PARTS = tuple(_VALUES["parts"])
_GLUED = tuple(_NAMES["glued"])

_MOST = 200
"""Characters of a value that are looked at; what follows of it is masked all the same."""
_TYPICAL = 80
"""Characters of a value by which it is judged whether it is drawn at random."""
_FAR = 30
"""Characters between a name and a value that no sign assigns to it."""
_LONGEST = 130 + _MOST
_OWN = 30
"""Characters behind a prefix on no list, from which on they are a token and not an id."""

# ------------------------------------------------------------------ how an assignment is written

_REST = r"(?:[A-Za-z0-9_.]|-(?!>)){0,24}+"
_QUOTE = r"\\{0,2}[\"'`]"
_LINE_END = r"[ \t]{0,4}\r?\n"
# `token: &str = …`, `token string = …`, `name="token" value="…"`.
_TYPE = (
    r"(?::[ \t]{0,4}&?(?:'static )?[A-Za-z][\w.<>\[\]]{0,24}[ \t]{1,4}(?==[^=])"
    r"|(?:string|String|str|\[\]byte|\[\])[ \t]{1,4}(?=:?=[^=])|[ \t]{0,4}(?:value|content|default)(?==)"
    # `name: TOKEN` above `value: …`, `variable "token" { default = …`, elements of a property list.
    rf"|(?:[,{{]?{_LINE_END}[ \t]{{0,40}}|[,{{][ \t]{{0,8}})(?:{_QUOTE})?(?:value|content|default)"
    rf"(?:{_QUOTE})?[ \t]{{0,4}}(?=[:=])|</key>(?:{_LINE_END}[ \t]{{0,40}})?<string(?=>))?"
)
_IS = r"(?:is|ist|lautet|est|es|é|è|jest|är|er|to|это|は|는|은)"
_IS = r"(?:is|ist|lautet|est|es|é|è|jest|är|er)"
_SIGN = (
    r"(?:(?::=|=>|->|<-|<{2,3}|\{(?=[\"'])|::|={1,3}|[:：]|,|\(|>|\|"
    rf"|\b{_IS}\b:?)[ \t]{{0,12}}|(?<=[ \t]))"
)
# `password for bob is …`, `password is generated for bob: …`, `mot de passe du serveur est …`.
_OF = r"(?:for|of|für|von|zum|zur|de|du|del|della|do|da|des|di|der|till|voor|od|от|для|к)"
_ARTICLE = r"(?:(?:the|den|die|das|dem|la|le|les|il|el|os|as|het|my|our)[ \t])?"
_NEW = (
    r"(?:new|initial|temporary|provvisori[ao]|provisoire|provis[óo]ri[ao]|temporal|temporaire"
    r"|inicial|initiale|iniziale)"
)
_OWNER = (
    rf"(?:(?:(?:is|was)[ \t]\w{{3,12}}[ \t])?{_OF}[ \t]{_ARTICLE}[\w.@'\"-]{{1,30}}[ \t]?"
    rf"(?={_IS}\b|[:=])|{_NEW}[ \t]?(?=[:=]))?"
)
_LINK = rf"(?:(?:{_QUOTE})?(?:\]|\)){{0,2}}[ \t]{{0,12}}{_OWNER}{_TYPE}(?P<sign>{_SIGN}))"
_OPENING = rf"(?:[bBrRuUfF@]{{0,2}}|\[|\(|(?:new )?String\(){_QUOTE}"
_INSIDE = r"[^\"'`\\\s]"
_QUOTED = rf"{_INSIDE}{{{_MOST}}}|{_INSIDE}{{1,{_MOST}}}(?={_QUOTE})"
_BARE = rf"[^\s\"'`,;<>()\[\]{{}}|\\&」』。]{{1,{_MOST}}}"
_VALUE = rf"(?P<opening>{_OPENING})?(?P<value>(?(opening)(?:{_QUOTED})|{_BARE}))"
_DRAWN = rf"(?P<value>[A-Za-z0-9+/=_.~\-]{{20,{_MOST}}}+)(?![\w/+=.-])"
_TAIL = regex(r"[A-Za-z0-9+/=_~-]*")

# Any letter beyond Latin-1 is a `?` where anchors are looked for.
_FOREIGN = rb"[?][A-Za-z]{0,8}[\"']?[ \t]{0,4}[:=?][ \t]{0,4}[\"'A-Za-z0-9]"
_BEFORE = regex(r"[A-Za-z0-9_\-]*\Z")
_AFTER = regex(r"[A-Za-z0-9_.\-]*")
# What lets a blank assign: a flag, a word of .netrc, a line of a Dockerfile, a macro.
_WANTS_BLANK = regex(
    r"(?i)(?:--?[\w-]*|(?:#define|\bENV|\bsetx?|\bthe)[ \t]+\w*|\blogin[ \t]+\S+[ \t]+"
    r"|\bconfig[ \t]+set[ \t]+(?:--\w+[ \t]+)?\S*)\Z"
)
# `std::Token` is the name of a type, `set_var("TOKEN"` behind `env::` is not.
_TYPE_NAME = regex(r"::[\w:]*\Z")
_COPIES = regex(r"(?i)(?:cpy|copy|set\w|assign)\w*\([\w.>&*\[\]-]*\Z")
_ENVIRONMENT = regex(r"(?:\A|[\n;\s\"'])(?:(?:export|set|ENV|ARG)[ \t]+|-e[ \t]?)?[A-Z][A-Z0-9_]*\Z")

# ------------------------------------------------------------------ how values look

_WORD = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_LONG_WORD = regex(r"[A-Z][a-z]{3,}|[a-z]{4,}|[A-Z]{5,}")
_DIGITS = regex(r"\d+")
_CONSONANTS = regex(r"(?i)[b-df-hj-np-tv-xz]{4}|[^aeiou\W]q|q[^u]|[jvx][bcdfghjklmnpqrstvwxz]")
_IN_WORDS = regex(r"[A-Za-z]+(?:[-_.:/][A-Za-z]+)*[-_.]?\d{0,3}\Z")
_DATED = regex(r"[v^~<>=]{0,2}\d+(?:[.:/-]\d+)+(?:[-+.]?[a-z]+\d*)?\Z|\d{4}-\d\d-\d\d.*\Z")
_UUID = regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = regex(r"[0-9a-f]+|[0-9A-F]+")
_HASH_LENGTHS = frozenset({40, 64, 96, 128})
_MARKED = regex(r"(?i)(?:\bsha-?\d{1,3}|\bmd5|\bblake\w{0,3}|\bh1|\bcrc\d*)[-:=_\s\"']{0,3}\Z")
_MARKED_HASH = regex(r"(?i)(?:sha\d{1,3}|md5)[-:]")
_VARIABLE = regex(
    r"\$[({]|\$[A-Za-z_](?=[\w$./:@%-]*\Z)|%[({]|%[A-Z_]+%|\{\{|\{\w*\}|<|#\{|@\{"
    r"|\A(?:vault:|op://|ssm:|secretsmanager:|keyring:|env:)|\A[$%&*]\w+\Z|\A__\w+__\Z|\A[A-Z]{2,}(?:_[A-Z]{2,})+\Z"
)
_PLACE = regex(
    r"~?\.{0,2}/[\w.-]+(?:/|\Z)|[A-Za-z]:[\\/]"
    r"|.*\.(?:pem|key|json|ya?ml|toml|txt|crt|env|py|js|ts|go|rb|html?|md|conf|ini|xml)\Z"
)
_BASE64 = regex(r"(?=[a-z+/]*[A-Z0-9])[A-Za-z0-9+/]+={1,2}\Z")
_DOTTED = regex(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+\Z")
_SMALL_NUMBER = regex(r"-?\d{1,5}(?:\.\d+)?[a-zA-Z]{0,2}\Z")


def assigned_rules() -> Iterator[SecretRule]:
    """Yield the rules for values behind the name of a secret, and behind a vendor's."""
    passwords, keys, weak, vendors = (_any_of(_NAMES[kind]) for kind in ("password", "key", "weak", "vendor"))
    for name, names, accepts in (
        ("password", passwords, _is_password),
        ("secret", keys, _is_key),
        ("secret", weak, _is_key_in_doubt),
    ):
        yield _rule(name, names, rf"(?i:{names}){_REST}{_LINK}{_VALUE}", accepts)
    foreign = regex(rf"(?i:{_any_of(_NAMES['foreign'])}){_LINK}{_VALUE}")
    yield SecretRule("password", _FOREIGN, _FAR, foreign, _LONGEST, _TAIL, None, _is_password)
    # A short name says too little of a value some way behind it.
    long_names = _any_of(name for name in _NAMES["password"] if name.startswith("passw"))
    between = rf"[^\n\r]{{0,{_FAR}}}?(?<=[\s\"'`=:(>,|\[])"
    # Found by the anchors that are looked for anyway.
    for far, anchors in ((keys, keys), (long_names, passwords)):
        yield _rule("secret", anchors, rf"(?i:{far}){_REST}{between}{_DRAWN}", _is_far_secret)
    signed = rf"[ \t]{{0,8}}(?::=|=>|={{1,3}}|:|,|\(|>)[ \t]{{0,8}}[@$]?(?:{_QUOTE})?"
    vendor = rf"(?i:{vendors})[\w. \t\-]{{0,24}}(?:{_QUOTE})?\]?{signed}{_DRAWN}"
    yield _rule("secret", vendors, vendor, _is_of_vendor)
    yield _own_prefix_rule()


def name_at_end() -> re.Pattern[str]:
    """Return what finds, at the end of a line, the name of a secret whose value may be on the next line."""
    names = _any_of(name for kind in ("password", "key", "weak") for name in _NAMES[kind])
    closed = rf"(?:{_QUOTE})?(?:\]|\)){{0,2}}[ \t]{{0,12}}"
    return regex(rf"(?i:{names}){_REST}{closed}(?:[,{{]|</key>)?{_LINE_END}\Z")


def is_no_stand_in(match: re.Match[str]) -> bool:
    """Say whether what follows the last colon of a value is more than a word for a password."""
    password = match["value"].rpartition(":")[2].lower()
    return password not in _STAND_INS and not set(password) <= set("x*.-_")


def _rule(name: str, names: str, head: str, accepts: Callable[[re.Match[str]], bool]) -> SecretRule:
    # re2 knows no lookahead; it only looks for the places to try.
    anchor = f"(?i){names}".replace("(?![a-z])", "").encode("latin-1")
    return SecretRule(name, anchor, 0, regex(head), _LONGEST, _TAIL, None, accepts)


def _own_prefix_rule() -> SecretRule:
    prefix, drawn = r"[a-z]{2,12}(?:[_-][a-z0-9]{1,8}){0,2}[_-]", f"[A-Za-z0-9]{{{_OWN},80}}"
    head = regex(rf"(?<![\w/+.%-])(?P<value>{prefix}(?P<drawn>{drawn}))")
    anchor = f"[_-][A-Za-z0-9]{{{_OWN}}}".encode()
    return SecretRule("secret", anchor, 40, head, 130, _TAIL, None, _is_own_prefix)


def _any_of(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(names)})"


# ------------------------------------------------------------------ what is a secret


def _is_password(match: re.Match[str]) -> bool:
    """Say whether a password's name is given a password: a word may be one, in quotes or a settings file."""
    value, sign = match["value"], match["sign"].strip()
    is_in_sentence = not sign and match["opening"] is not None and any(map(str.isdigit, value))
    if not is_in_sentence and not _may_assign(match, _OTHER_BEFORE):
        return False
    if not _may_be_secret(value, match):
        return False
    if match["opening"]:
        return sign not in {",", "("} or any(map(str.isdigit, value))
    if sign in {"(", ",", "->", "<-"} or (sign == ">" and not _is_element(match)) or _is_expression(match):
        return False
    if _is_environment_line(match) or _is_element(match):
        return True
    is_test_result = sign == ":" and match[0][:6] in {"PASS: ", "Pass: "} and not _name_before(match)
    has_more_than_letters = re.search(r"\d|[^\w.:/-]", value) is not None or _is_jumbled(value)
    return len(value) >= 5 and has_more_than_letters and not is_test_result and not _SMALL_NUMBER.match(value)


def _is_key(match: re.Match[str]) -> bool:
    """Say whether the name of a key or token is given one: neither a word nor a name nor a number."""
    value, is_quoted = match["value"], match["opening"] is not None
    if not _may_assign(match) or not _may_be_secret(value, match):
        return False
    if not is_quoted and (match["sign"].strip() in {"(", ","} or _is_expression(match)):
        return False
    if not is_quoted and _is_environment_line(match) and len(value) >= 8:
        return not _DATED.match(value) and not value.isdigit()
    if _UUID.fullmatch(value) or _is_drawn(value, 10):
        return True
    return len(value) >= 8 and any(map(str.isdigit, value)) and not _is_named(value)


def _is_key_in_doubt(match: re.Match[str]) -> bool:
    """Say whether something that is only called a key is drawn at random, and no hash."""
    value, sign = match["value"], match["sign"].strip()
    if not sign or not _may_assign(match) or not _may_be_secret(value, match):
        return False
    if match["opening"] is None and (sign in {"(", ","} or _is_expression(match)):
        return False
    if match.string[match.start() - 1 : match.start()] in {"?", "&"} and sign == "=":
        return _is_drawn(value, 24)
    return not _HEX.fullmatch(value) and not _UUID.search(value) and _is_drawn(value, 24)


def _is_of_vendor(match: re.Match[str]) -> bool:
    """Say whether something behind a vendor's name is its key: a UUID only if it is called one."""
    between = match.string[match.start() : match.start("value")]
    if _UUID.fullmatch(match["value"]):
        named = _words(_name_before(match) + between)
        return bool(named & {"key", "token", "secret"}) and not named & {"id", *_OTHER_SUBJECTS}
    return _is_drawn_behind(match)


def _is_own_prefix(match: re.Match[str]) -> bool:
    """Say whether a token with a prefix that is on no list has all kinds of characters, as at random."""
    drawn = match["drawn"]
    has_all = any(map(str.isupper, drawn)) and any(map(str.islower, drawn)) and any(map(str.isdigit, drawn))
    return has_all and _may_be_secret(match["value"], match) and _is_drawn(drawn, _OWN)


def _is_far_secret(match: re.Match[str]) -> bool:
    """Say whether something further behind a name is a secret: names in code have no digits as a rule."""
    return any(map(str.isdigit, match["value"])) and _is_drawn_behind(match)


def _is_drawn_behind(match: re.Match[str]) -> bool:
    """Say whether the value behind a name is drawn at random, and no hash."""
    value = match["value"].rstrip(".,:;")
    between = match.string[match.start() : match.start("value")]
    after = _AFTER.match(between)
    named = _words(_name_before(match) + (after[0] if after else ""))
    if not _begins_word(match) or named & _OTHER_SUBJECTS:
        return False
    if (named | _words(between)) & {*_HASHES, "public", "pub", "url", "uri", "id"}:
        return False
    is_id = _HEX.fullmatch(value) is not None and len(value) in _HASH_LENGTHS
    if _DOTTED.match(value) or _UUID.search(value) or (is_id and not {"=", ":"} & set(between)):
        return False
    return _may_be_secret(value, match) and _is_drawn(value, 20)


# ------------------------------------------------------------------ names


def _may_assign(match: re.Match[str], other_before: frozenset[str] = _OTHER_SUBJECTS) -> bool:
    """Say whether a name, with the text around it, is that of a secret, and something assigns to it.

    With a word of `other_before` before it, it is that of something else.
    """
    ahead, behind = _name_before(match), match.string[match.start() : match.start("sign")]
    named = ahead + behind
    if not _begins_word(match) or _words(behind) & _OTHER_SUBJECTS or _words(ahead) & other_before:
        return False
    if match["value"] == named.strip("\"'`\\ \t"):
        return False
    before = match.string[max(0, match.start() - CONTEXT) : match.start()]
    if _TYPE_NAME.search(before):
        return False
    sign = match["sign"].strip()
    if sign == ",":
        # A name that is an argument itself is followed by another one.
        return named.rstrip()[-1:] in {'"', "'", "`"} or _COPIES.search(before) is not None
    return bool(sign) or _WANTS_BLANK.search(before) is not None


def _name_before(match: re.Match[str]) -> str:
    """Return the part of a name before the match, without what it is a part of: `process.env.`."""
    before = _BEFORE.search(match.string, max(0, match.start() - CONTEXT), match.start())
    return before[0] if before is not None else ""


def _begins_word(match: re.Match[str]) -> bool:
    """Say whether a name is a word of its own: `minipass` and `monkey` end in what is none."""
    before, first = match.string[max(0, match.start() - 1) : match.start()], match.string[match.start()]
    if not before.isalpha() or before.lower() == before.upper() or (before.islower() and first.isupper()):
        return True
    return match.string[match.start() : match.start() + 8].lower().startswith(_GLUED)


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _is_environment_line(match: re.Match[str]) -> bool:
    """Say whether a line sets a variable of an environment: NAME=value, without blanks."""
    start = max(0, match.start() - CONTEXT)
    return match["sign"] == "=" and bool(_ENVIRONMENT.search(match.string[start : match.start("sign")]))


def _is_element(match: re.Match[str]) -> bool:
    """Say whether a value is the content of an element of XML."""
    return match["sign"].strip() == ">" and match.string[match.end() : match.end() + 2] == "</"


# ------------------------------------------------------------------ values


def _may_be_secret(value: str, match: re.Match[str]) -> bool:
    """Say whether a value can be a secret at all: no placeholder, variable, address, path, hash, date."""
    if not _is_possible(value):
        return False
    before = match.string[max(0, match.start("value") - 16) : match.start("value")]
    return _MARKED.search(before) is None


@lru_cache(maxsize=1024)
def _is_possible(value: str) -> bool:
    """Say so of the value alone; a text may hold the same one many times."""
    lowered = value.lower().strip("\"'.,;:![]()<>")
    if len(lowered) < 4 or lowered in _STAND_INS or len(set(lowered)) <= 2:
        return False
    if any(part in lowered for part in _STAND_IN_PARTS):
        return False
    if _DATED.match(value) or _VARIABLE.search(value) or "://" in value or _MARKED_HASH.match(value):
        return False
    return not _PLACE.match(value) or _is_drawn(value, 30)


def _is_expression(match: re.Match[str]) -> bool:
    """Say whether a value without quotes is code: a call, an index, a path of names."""
    value = match["value"]
    if match.string[match.end() : match.end() + 1] in tuple("([{<") and not _is_element(match):
        return True
    if _DOTTED.match(value.rstrip(":")) and not _is_drawn(value, 20):
        return True
    is_encoded = len(value) >= 8 and len(value) % 4 == 0 and _BASE64.match(value) is not None
    return value.endswith((":", "=")) and not is_encoded and not _is_drawn(value, 16)


def _is_named(value: str) -> bool:
    """Say whether a value is made of words, or is a number, a version or a date."""
    value = value[:_TYPICAL]
    if _DATED.match(value) or value.isdigit():
        return True
    if value.isalnum() and len(_DIGITS.findall(value)) >= 3:
        return False
    in_words = sum(len(word) for word in _LONG_WORD.findall(value) if _is_spoken(word))
    if not _IN_WORDS.match(value):
        return in_words >= len(value) / 2
    is_one_run = len(value) >= 24 and value.isalpha() and value.islower()
    return len(value) < 16 or (in_words > len(value) // 2 and not is_one_run)


@lru_cache(maxsize=4096)
def _is_spoken(word: str) -> bool:
    """Say whether a run of letters can be spoken: it has vowels, and few consonants between them."""
    vowels = sum(char in "aeiouyAEIOUY" for char in word)
    return vowels >= len(word) / 5 and _CONSONANTS.search(word) is None


def _is_jumbled(value: str) -> bool:
    """Say whether letters alone, large and small ones, make no words."""
    words = sum(len(word) for word in _WORD.findall(value) if len(word) > 2 and _is_spoken(word))
    return len(value) >= 10 and value.isalpha() and 4 * words < len(value)


@lru_cache(maxsize=1024)
def _is_drawn(value: str, least: int) -> bool:
    """Say whether a value looks drawn at random: its kinds of characters change often.

    Of random letters and digits about every second neighbour is of another kind; of names in code every
    seventh or so.
    """
    value = value[:_TYPICAL]
    if len(value) < least or _is_named(value):
        return False
    kinds = [_kind_of(char) for char in value]
    pairs = [pair for pair in pairwise(kinds) if "sign" not in pair]
    if len(set(kinds)) < 2 or not pairs:
        return False
    changes = sum(one != other for one, other in pairs)
    return changes / len(pairs) >= (0.2 if least <= 10 else 0.25)


def _kind_of(char: str) -> str:
    if char.isdigit():
        return "digit"
    if char.isalpha():
        return "capital" if char.isupper() else "letter"
    return "sign"
