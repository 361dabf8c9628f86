"""Wrong: only words with a Cyrillic letter between Latin ones are looked at."""

import re

_MIXED = re.compile(r"[A-Za-z][\u0400-\u04ff]+[A-Za-z]")


def look_alike_flags(text: str) -> tuple[str, ...]:
    return tuple(_MIXED.findall(text))
