"""How do programs that only read run, so that nothing in the workspace makes them do more?

Plain forms of git are printed with everything off that a repository can switch on (`git.py`), and `rg` so
that no file can make it search hidden ones.
"""

from __future__ import annotations

from ..syntax import Word, literal
from .git import neutralised
from .options import Parsed, parse_options
from .tables import lines_of

__all__ = ["as_run", "passes_over_hidden"]

# A pattern of names comes before what any ignore file says.
_NO_HIDDEN = (literal("-g"), literal("!.*"))


def as_run(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words with which a command is run."""
    if not words or words[0].text != "rg" or words[1:3] == _NO_HIDDEN:
        return neutralised(words)
    parsed = parse_options(words[1:], lines_of("programs.toml")["rg"]["options"])
    return (words[0], *_NO_HIDDEN, *words[1:]) if passes_over_hidden(parsed) else words


def passes_over_hidden(parsed: Parsed) -> bool:
    """Whether `rg` with these options leaves hidden files out."""
    return parsed.unknown is None and not parsed.has("--hidden", "-.", "-u", "--unrestricted")
