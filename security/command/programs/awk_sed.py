"""Detect awk and sed programs that run commands or access files.

Both languages can run commands and read or write other files. Programs are not parsed in full: one is
harmless if it holds none of the constructs needed for that, in a form that leaves nothing to guess.
"""

from __future__ import annotations

import re

from ..syntax import Word
from .options import Parsed, parse_options

__all__ = [
    "AWK_OPTIONS",
    "SED_OPTIONS",
    "awk_is_pure",
    "awk_runs",
    "edited_by_sed",
    "sed_is_pure",
    "sed_runs",
]

AWK_OPTIONS = (
    "-F: -v: -f:script -n -P -S -O -s -t --field-separator: --assign: --posix --sandbox --re-interval "
    "--csv -k --version"
)
SED_OPTIONS = (
    "-nErsuz -e:program -l: -b --quiet --silent --regexp-extended --separate --null-data --unbuffered "
    "--expression:program --posix --debug --line-length: --sandbox --version"
)

# ARGV lets a program read files it was not given, `@` loads code, and the rest runs or fetches.
_AWK_POWER = re.compile(
    r"system|getline|ARGV|ARGC|ARGIND|@|PROCINFO|SYMTAB|FUNCTAB|\|&|/inet|\bfflush|\bclose|extension"
)
_AWK_RUNS = re.compile(r"system|getline|@|\|&|/inet|extension")

# Possessive throughout: `[]]` could else be read in two ways, and a row of them in as many as there are rows.
_SED_ADDRESS = r"(?:\d++(?:~\d++)?+|\$|/(?:[^/\\\n\[]|\\.|\[\^?+\]?+[^\]/\n\\]*+\])+/I?+|\+\d++)"
_SED_COMMAND = re.compile(
    rf"\s*+(?:{_SED_ADDRESS}(?:\s*+,\s*+{_SED_ADDRESS})?\s*+!?\s*+)?"
    r"(?:[pdDPNnGHghxl=]|[qQ]\d*"
    r"|(?P<what>[sy])(?P<mark>[/|,#:!@%_~+])(?P<from>(?:\\.|(?!(?P=mark))[^\\\n])*)(?P=mark)"
    r"(?P<to>(?:\\.|(?!(?P=mark))[^\\\n])*)(?P=mark)(?P<flags>[gpiIM0-9]*))\s*(?P<end>;|\n|\Z|(?=\}))",
    re.DOTALL,
)
_SED_SIMPLE = re.compile(r"[\d,$;\spdq=!nN~+-]*")
# What changes text, too, but has a form of its own: blocks, and text to the end of the line.
_SED_EDIT = re.compile(
    rf"\s*+(?:{_SED_ADDRESS}(?:\s*+,\s*+{_SED_ADDRESS})?\s*+!?\s*+)?(?:[{{}}]\s*+;?|[aic](?:\\(?!\n))?(?:\\\n|[^\\\n])*(?:\n|\Z))"
)
_SED_POWER = re.compile(r"[ewWrR]")


def awk_runs(words: tuple[Word, ...]) -> str | None:
    """Say why an awk program may run commands or write files, or None."""
    programs, parsed = _programs(words, AWK_OPTIONS, "-f", stops=True)
    if parsed.unknown is not None:
        return "an option of awk is not known, nor what it runs"
    if not all(program.is_literal for program in programs):
        return "the awk program is only known when it runs"
    if any(_may_run(one.text) for one in programs):
        return "the awk program can run commands"
    return "the awk program may write files" if any(">" in _output(one.text) for one in programs) else None


def _may_run(text: str) -> bool:
    """Whether a program may run others; a bar may be on another line than the `print` it is for."""
    pipes = "|" in _output(text).replace("||", "")
    return pipes or _AWK_RUNS.search(text) is not None


def awk_is_pure(words: tuple[Word, ...]) -> bool:
    """Whether awk reads its operands and prints, and nothing else."""
    programs, parsed = _programs(words, AWK_OPTIONS, "-f", stops=True)
    if parsed.unknown is not None or parsed.has("-f") or len(programs) != 1:
        return False
    return programs[0].is_literal and _is_pure_awk(programs[0].text)


def _is_pure_awk(text: str) -> bool:
    """Whether a program only prints: output leaves it only by `>` or `|` behind one of its `print`s."""
    after = _output(text).replace("||", "")
    return not _AWK_POWER.search(text) and ">" not in after and "|" not in after


def _output(text: str) -> str:
    """Return the part of an awk program in which `>` and `|` could say where output goes."""
    start = text.find("print")
    return text[start:] if start >= 0 else ""


def sed_runs(words: tuple[Word, ...]) -> str | None:
    """Say why a sed program may run commands, or None."""
    programs, parsed = _programs(words, f"{SED_OPTIONS} -i? -f:script --in-place? --file:script", "-e", "-f")
    if parsed.unknown is not None:
        return None
    if not all(program.is_literal for program in programs):
        return "the sed program is only known when it runs"
    risky = any(_SED_POWER.search(one.text) and not _only_edits(one.text) for one in programs)
    return "the sed program may run commands or write files" if risky else None


def edited_by_sed(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the files that sed changes in place; the words are those behind its name."""
    parsed = parse_options(words, f"{SED_OPTIONS} -i? -f:script --in-place? --file:script")
    if not parsed.has("-i", "--in-place"):
        return ()
    return parsed.operands if parsed.has("-e", "--expression", "-f", "--file") else parsed.operands[1:]


def sed_is_pure(words: tuple[Word, ...]) -> bool:
    """Whether sed reads its operands and prints, and nothing else."""
    programs, parsed = _programs(words, SED_OPTIONS, "-e", "--expression")
    if parsed.unknown is not None or not programs:
        return False
    return all(program.is_literal and _is_pure_sed(program.text) for program in programs)


def _is_pure_sed(text: str) -> bool:
    """Read a sed program command by command; only those that transform and print are known."""
    if _SED_SIMPLE.fullmatch(text):
        return True
    return _rest_of_sed(text, 0) == len(text)


def _only_edits(text: str) -> bool:
    """Whether a sed program changes text and nothing else, blocks and inserted lines included."""
    at = _rest_of_sed(text, 0)
    while at < len(text):
        found = _SED_EDIT.match(text, at)
        if found is None:
            return False
        at = _rest_of_sed(text, found.end())
    return True


def _rest_of_sed(text: str, at: int) -> int:
    """Return where the commands end that only transform and print."""
    while at < len(text):
        found = _SED_COMMAND.match(text, at)
        if found is None or found.end() == at or _hides_a_mark(found):
            return at
        at = found.end()
    return at


def _hides_a_mark(found: re.Match[str]) -> bool:
    """Whether a delimiter could stand inside brackets, where not every sed ends the pattern."""
    pattern = re.sub(r"\\.", "", found["from"] or "")
    return pattern.count("[") != pattern.count("]")


def _programs(
    words: tuple[Word, ...], described: str, *names: str, stops: bool = False
) -> tuple[tuple[Word, ...], Parsed]:
    """Return the program texts: those in options, else the first operand; `stops` at it, as awk does."""
    parsed = parse_options(words[1:], described, stops=stops)
    given = [value for _, value, kind in parsed.options if kind == "program" and value is not None]
    if not given and not parsed.has(*names) and parsed.operands:
        given = [parsed.operands[0]]
    return tuple(given), parsed
