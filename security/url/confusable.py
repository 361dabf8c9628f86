"""Could a person take this host for another one?

A host is always shown as it is sent, in ASCII: `xn--80ak6aa92e.com`. What such a name would look like
in a browser, and that it mixes scripts or is drawn like Latin letters, is said beside it. The rules
are those of the "highly restrictive" level of UTS 39, 5.2; names in one script are nobody's mistake.
"""

from __future__ import annotations

import unicodedata

from .parse import Url

__all__ = ["host_facts", "host_warning"]

_ENCODED = "xn--"

# Written together in ordinary Japanese, Korean and Chinese (UTS 39, 5.1); each may stand beside Latin.
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
)

# Small letters of other scripts that are drawn like a Latin letter, and the letter they are drawn like.
_CYRILLIC = dict(zip("авсԁеһіјӏкмпорԛгѕтцѵԝхуᴢь", "abcdehijlkmnopqrstuvwxyzb", strict=True))
_GREEK = dict(zip("αβγεηικνορτυχω", "abyenikvoptuxw", strict=True))
_ARMENIAN = dict(zip("ացգհոսւքօզ", "wgqhnuvpoq", strict=True))
_LATIN = {"ı": "i", "ɑ": "a", "ɡ": "g", "ɩ": "i", "ʟ": "l", "ʀ": "r", "ɴ": "n", "ᴏ": "o", "ꞓ": "c"}
_DRAWN_AS = {**_CYRILLIC, **_GREEK, **_ARMENIAN, **_LATIN}


def host_warning(host: str) -> str | None:
    """Return what is odd about a canonical host, with what it looks like, or None for an ordinary one.

    The answer quotes the host in its own script: it is for a person's eyes or goes inside a fence.
    """
    labels = [_decoded(label) for label in host.split(".")]
    shown = ".".join(labels)
    if shown == host:
        return None
    if any(_mixes(label) for label in labels):
        return f"the host mixes scripts: {shown} is not what it looks like"
    drawn = ["".join(_DRAWN_AS.get(char, char) for char in label) for label in labels]
    if any(one.isascii() and not other.isascii() for one, other in zip(drawn, labels, strict=True)):
        return f"the host is drawn like {'.'.join(drawn)} in letters of another script: {shown}"
    return None


def host_facts(url: Url) -> tuple[tuple[str, str], ...]:
    """Return the warning about a URL's host as a fact of an Ask or Deny; nothing for an ordinary host."""
    warning = host_warning(url.host)
    return (("warning", warning),) if warning is not None else ()


def _decoded(label: str) -> str:
    if not label.startswith(_ENCODED):
        return label
    try:
        return label.removeprefix(_ENCODED).encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _mixes(label: str) -> bool:
    scripts = {script for char in label if (script := _script(char))}
    return len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER)


def _script(char: str) -> str:
    """Return the script of a letter, by the first word of its name; "" for digits, marks and the like."""
    if not char.isalpha():
        return ""
    name = unicodedata.name(char, "UNNAMED").split(" ")[0]
    return "CJK" if name in {"IDEOGRAPHIC", "KANGXI"} else name
