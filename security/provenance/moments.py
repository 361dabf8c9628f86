"""Read dates and times of day, whichever way a person writes them, in one form.

    2026-06-04, 4 June 2026, 06/04/2026   ->  date:2026-06-04
    4 June, June 4th                      ->  date:06-04
    14:00, 2pm, 2 p.m.                    ->  time:14:00

A date without a year is that day of any year. Where day and month could be either, both readings are meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..lazy import regex

__all__ = ["is_moment", "moment_forms", "moments_in"]

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun",
            "july jul", "august aug", "september sep sept", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = regex(
    r"(?<![\w-])(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?=T\d|[^\w-]|$)"
    rf"|(?<!\w)(?P<named>{_NAMES})\.?\s+(?P<of>\d{{1,2}})(?:st|nd|rd|th)?(?!\w|:\d)(?:,?\s+(?P<in>\d{{4}})(?!\w))?"
    rf"|(?<![\w:])(?P<ofday>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?(?P<ofname>{_NAMES})(?!\w)\.?(?:,?\s+(?P<ofyear>\d{{4}})(?!\w))?"
    r"|(?<![\w/-])(?P<one>\d{1,2})[/.](?P<other>\d{1,2})(?:[/.](?P<last>\d{4}))(?![\w/-])",
    re.IGNORECASE,
)
_TIME = regex(
    r"(?<![\d:.,-])(?:(?<=T)|(?<!\w))(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::\d{2}(?:\.\d+)?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?(?![\d:])"
    r"|(?<![\w:.,-])(?P<full>\d{1,2})\s?(?P<fullhalf>[ap])\.?m\b\.?"
    r"|\b(?P<word>noon|midday|midnight)\b",
    re.IGNORECASE,
)
_WORDS = {"noon": "12:00", "midday": "12:00", "midnight": "00:00"}
_BETWEEN = regex(r"(?:[T,\s]|\bat\b|\bon\b|(?:Z|[+-]\d{2}:?\d{2})$)*", re.IGNORECASE)
_LONGEST = 64


def moments_in(text: str) -> Iterator[str]:
    """Yield the form of each date and time in a text, a date with its year where it has one."""
    for found in _DATE.finditer(text):
        for year, month, day in _dates(found):
            yield f"date:{year}-{month:02d}-{day:02d}" if year else f"date:{month:02d}-{day:02d}"
    for found in _TIME.finditer(text):
        if form := _time(found):
            yield f"time:{form}"


def moment_forms(text: str) -> tuple[tuple[str, ...], ...]:
    """Return for each date and time that a text consists of the forms it may have; none if it says more."""
    if len(text) > _LONGEST:
        return ()
    forms: list[tuple[str, ...]] = []
    for found in _DATE.finditer(text):
        several = [(year, f"{month:02d}-{day:02d}") for year, month, day in _dates(found)]
        exact = (f"date:{year}-{day}" for year, day in several if year)
        forms.append((*exact, *(f"date:{day}" for _, day in several)))
    rest = _DATE.sub(" ", text)
    forms += ((f"time:{form}",) for found in _TIME.finditer(rest) if (form := _time(found)))
    rest = _TIME.sub(" ", rest)
    return tuple(filter(None, forms)) if forms and _BETWEEN.fullmatch(rest.strip()) else ()


def is_moment(text: str) -> bool:
    """Whether a text is a date, a time of day, or both, and nothing else."""
    return bool(moment_forms(text))


def _dates(found: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the year ("" where there is none), month and day of a match, in each way it can be read."""
    if found["year"]:
        read = [(found["year"], int(found["month"]), int(found["day"]))]
    elif found["named"]:
        read = [(found["in"] or "", _MONTHS[found["named"].lower()], int(found["of"]))]
    elif found["ofname"]:
        read = [(found["ofyear"] or "", _MONTHS[found["ofname"].lower()], int(found["ofday"]))]
    else:
        one, other = int(found["one"]), int(found["other"])
        read = [(found["last"], one, other), (found["last"], other, one)]
    return ((year, month, day) for year, month, day in read if 1 <= month <= 12 and 1 <= day <= 31)


def _time(found: re.Match[str]) -> str:
    if found["word"]:
        return _WORDS[found["word"].lower()]
    hour, minute = int(found["hour"] or found["full"]), int(found["minute"] or 0)
    half = (found["half"] or found["fullhalf"] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour:02d}:{minute:02d}" if hour < 24 and minute < 60 else ""
