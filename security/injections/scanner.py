"""Find what looks like an order to an assistant in a text that is data.

Signals (`signals.toml`) are expressions of RE2, so a text of any shape takes linear time. Each has a weight;
those that are close together are added up, and enough of them are findings. A signal that the sentence
around it quotes or reports counts for nothing; what nobody is meant to see, or was encoded, counts for more.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import re2

from ..lazy import regex
from .disguise import View, views_of

__all__ = ["Finding", "find_injections"]

_TABLE = Path(__file__).with_name("signals.toml")
_ENOUGH = 4
_BONUS = 2
"""What it adds if nobody was meant to see the words, or if they were encoded."""

_NEAR = 400
_LONGEST = 256 * 1024
_MOST_OF_ONE = 20
_ORDER = "order"

# Spans of a page or a README that are not drawn.
_UNDRAWN = regex(
    r"<!--.{0,4000}?(?:-->|\Z)"
    r"|\b(?:alt|title|aria-label|content|data-[\w-]{1,30}|placeholder)\s?=\s?(?:\"[^\"]{12,2000}\"|'[^']{12,2000}')"
    r"|^\[[^\]\n]{0,40}\]:\s?(?:\#|<>)\s?[(\"'][^\n]{8,2000}"
    r"|!\[[^\]\n]{30,1000}\]\("
    r"|<\w{1,12}\s[^>]{0,400}?(?:display\s?:\s?none|visibility\s?:\s?hidden|font-size\s?:\s?[01](?:px|pt|em|%)?\b"
    r"|opacity\s?:\s?0(?:\.0\d*)?\b|color\s?:\s?(?:white|\#fff(?:fff)?|transparent)\b"
    r"|(?:left|top|text-indent)\s?:\s?-\d{3,}"
    r"|\shidden\b|clip\s?:)[^>]{0,400}>[^<]{0,4000}",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "「": "」", "『": "』", "„": "“"}
_REPORTS = regex(
    r"\b(?:such as|for example|e\.g\.|for instance|phrases?|strings?|sentences?|wording|words|examples?"
    r"|payloads?|patterns?"
    r"|attack(?:er|s)?|adversar\w+|injections?|jailbreaks?|malicious|hostile|detect\w*|filters?|match(?:es|ing)?|regex\w*"
    r"|says?|saying|reads?|written|writes|contains?|containing|like|called|titled|attempts?|tries|trying|asserts?|tests?)\b",
    re.IGNORECASE,
)
_BACK = 160
# One word: no signal is that little, and nothing encoded is as short.
_NAME = regex(r"[A-Za-z0-9]{0,12}")
# A token named in a sentence (`such as <|im_start|> must be`), and one that begins a turn of somebody's.
_IN_PROSE = regex(r"[a-z]{2,} \Z")
_WITH_ROLE = regex(r"<\|?\w+\|?>\s*(?:system|user|assistant|developer|model)\b")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A stretch of a text, in characters, that is part of what looks like an order, and its kind."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Hit:
    start: int
    end: int
    name: str
    weight: int


class _Signals:
    """The compiled table. Most texts hold the words of a few signals only; one set tells of which."""

    def __init__(self) -> None:
        table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
        parts = dict[str, str]()
        for name, text in table["parts"].items():
            parts[name] = _filled(text, parts)
        self._filter = re2.Filter()
        self._what: list[tuple[str, int]] = []
        self._orders: list[tuple[Any, int]] = []
        for name, weight, pattern in _written(table["signal"]):
            expression = f"(?m){_filled(pattern, parts)}"
            if name == _ORDER:
                self._orders.append((re2.compile(expression, _options()), weight))
            else:
                self._filter.Add(expression, _options())
                self._what.append((name, weight))
        self._filter.Compile()

    def hits_in(self, text: str) -> Iterator[_Hit]:
        """Yield what of the table is found in a text, and the orders close to that."""
        found = []
        for index in self._filter.Match(text, potential=True) or ():
            name, weight = self._what[index]
            matches = self._filter.re(index).finditer(text)
            for match, _ in zip(matches, range(_MOST_OF_ONE), strict=False):
                found.append(_Hit(match.start(), match.end(), name, weight))
        yield from found
        for start, end in _joined((max(0, hit.start - _NEAR), hit.end + _NEAR) for hit in found):
            near = [hit for hit in found if start <= hit.start <= end]
            for expression, weight in self._orders:
                for match in expression.finditer(text[start:end]):
                    at = start + match.end() - 1
                    if not any(hit.start <= at < hit.end for hit in near):
                        yield _Hit(start + match.start(), start + match.end(), _ORDER, weight)
                        break


def _options() -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.never_capture = True
    options.max_mem = 64 << 20
    return options


def _written(signals: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, str]]:
    for signal in signals:
        for pattern in signal["patterns"]:
            yield signal["name"], signal["weight"], pattern


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{([a-z]+\d?)\}", lambda found: parts[found[1]], pattern)


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans of which none touches another."""
    current: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if current is not None and start <= current[1]:
            current = current[0], max(current[1], end)
            continue
        if current is not None:
            yield current
        current = start, end
    if current is not None:
        yield current


@cache
def _signals() -> _Signals:
    return _Signals()


def find_injections(text: str) -> tuple[Finding, ...]:
    """Return what looks like orders to an assistant in a text; of a long one both ends are looked at."""
    if _NAME.fullmatch(text):
        return ()
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        head, tail, shift = find_injections(text[:half]), find_injections(text[-half:]), len(text) - half
        return (*head, *(replace(one, start=one.start + shift, end=one.end + shift) for one in tail))
    clusters = [(view, cluster) for view in views_of(text) for cluster in _clusters(_meant_in(view.text))]
    # Few texts have any, and looking for what is not drawn takes longer than all else.
    undrawn = [found.span() for found in _UNDRAWN.finditer(text)] if clusters else []
    return tuple(sorted({one for view, cluster in clusters for one in _findings(view, cluster, undrawn)}))


def _meant_in(text: str) -> list[_Hit]:
    hits = sorted(_signals().hits_in(text), key=lambda hit: hit.start)
    return [hit for hit in hits if _is_meant(text, hit)]


def _findings(view: View, cluster: Sequence[_Hit], undrawn: Sequence[tuple[int, int]]) -> Iterator[Finding]:
    placed = [(hit, view.span(hit.start, hit.end)) for hit in cluster]
    is_hidden = any(first <= start < last for _, (start, _) in placed for first, last in undrawn)
    weights: dict[str, int] = {}
    for hit in cluster:
        weights[hit.name] = max(weights.get(hit.name, 0), hit.weight)
    bonus = _BONUS * (view.is_encoded + is_hidden)
    if set(weights) == {_ORDER} or sum(weights.values()) + bonus < _ENOUGH:
        return
    for hit, (start, end) in placed:
        if hit.name != _ORDER:
            yield Finding(start, end, hit.name)
            if view.is_encoded:
                yield Finding(start, end, "encoded")
            if is_hidden:
                yield Finding(start, end, "hidden")


def _clusters(hits: Iterable[_Hit]) -> Iterator[list[_Hit]]:
    """Yield hits in groups that are close together."""
    group: list[_Hit] = []
    for hit in hits:
        if group and hit.start - max(one.end for one in group[-8:]) > _NEAR:
            yield group
            group = []
        group.append(hit)
    if group:
        yield group


def _is_meant(text: str, hit: _Hit) -> bool:
    """Whether the words of a hit are the text's own: not quoted or reported by their sentence."""
    start = max(text.rfind("\n", 0, hit.start), hit.start - _BACK)
    line_end = text.find("\n", hit.end)
    before, after = (
        text[start + 1 : hit.start + 2],
        text[hit.end - 1 : (line_end if line_end >= 0 else len(text))],
    )
    if (
        hit.name == "template token"
        and _IN_PROSE.search(before[:-2])
        and not _WITH_ROLE.match(text, hit.start)
    ):
        return False
    for opening, closing in _QUOTES.items():
        at = before.rfind(opening)
        if at < 0 or closing not in after:
            continue
        if opening == closing and before.count(opening) % 2 == 0:
            continue
        lead = before[:at].rstrip()
        rest = after.index(closing)
        if lead.endswith((":", "=")) and len(lead.split()) < 3:
            return True  # the value of a field, which is all the text there is
        if _REPORTS.search(lead) or (rest < 20 and _goes_around(lead, after[rest + 1 :])):
            return False
    return True


def _goes_around(lead: str, rest: str) -> bool:
    """Whether words or brackets around a short quotation make it one: a sentence, a list, a comparison."""
    return len(lead.split()) > 1 or lead.endswith(("(", "[", ",")) or bool(lead and re.search(r"\w", rest))
