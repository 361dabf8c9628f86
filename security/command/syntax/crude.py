"""What can be told from the words of a text that could not be read?

Nothing here allows anything: it is for saying no to what is plainly destructive or blocked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .nodes import Command, Redirection, literal

__all__ = ["crude_words"]

_MOST_WORDS = 64
_MOST_CHUNKS = 32


def crude_words(raw: str, home: str) -> Iterator[Command]:
    """Yield what looks like commands in a text that could not be read, quotes and all tricks removed."""
    plain = re.sub(r"\\\n", "", raw)
    plain = re.sub(r"\$\{HOME\b[^}]*\}|\$?\bHOME\b", lambda _: home, plain)
    plain = re.sub(r"\$\{?IFS\}?", " ", re.sub(r"['\"\\]", "", plain))
    plain = re.sub(r"\$\{\w+:?[-=]([^{}]*)\}", r"\1", plain)
    # What stands in braces may be a list of words.
    spread = re.sub(r"\{([^{}]*)\}", lambda found: " ; " + found[1].replace(",", " ") + " ; ", plain)
    joined = re.sub(r"[{},]", " ", plain)
    chunks = re.split(r"[;&|()`\n{}]|\$\(", f"{plain}\n{spread}\n{joined}" if "{" in plain else plain)
    for chunk in list(dict.fromkeys(filter(str.strip, chunks)))[:_MOST_CHUNKS]:
        words = [home + word[1:] if word == "~" or word.startswith("~/") else word for word in chunk.split()]
        words = [re.sub(r"^\d?[<>]+.*", "", word) for word in words]
        kept = tuple(literal(word) for word in words if word)
        for start in range(min(len(kept), 8)):
            yield Command(kept[start : start + _MOST_WORDS])
        for target in re.findall(r">+[|&]?\s*(\S+)", chunk)[:8]:
            yield Command((), redirections=(Redirection(">", literal(target)),))
