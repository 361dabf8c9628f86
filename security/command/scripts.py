"""What can an awk or sed program do besides transforming text?

Both languages can run commands, read and write other files. Programs are not parsed in full: one
is harmless if it lacks everything those powers need, in a shape that needs no guess.
"""

from __future__ import annotations

import re

from .nouns import Word
from .options import Parsed, parse_options

__all__ = ["AWK_OPTIONS", "SED_OPTIONS", "awk_is_pure", "awk_runs", "sed_is_pure", "sed_runs"]

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
_AWK_RUNS = re.compile(r"system|getline|@|\|&|print[^\n]*\|(?!\|)|/inet|extension")

_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]/\n\\]*\])+/I?|\+\d+)"
_SED_COMMAND = re.compile(
    rf"\s*(?:{_SED_ADDRESS}(?:\s*,\s*{_SED_ADDRESS})?\s*!?\s*)?"
    r"(?:[pdDPNnGHghxl=]|[qQ]\d*"
    r"|(?P<what>[sy])(?P<mark>[/|,#:!@%_~+])(?P<from>(?:\\.|(?!(?P=mark))[^\\\n])*)(?P=mark)"
    r"(?P<to>(?:\\.|(?!(?P=mark))[^\\\n])*)(?P=mark)(?P<flags>[gpiIM0-9]*))\s*(?P<end>;|\n|\Z)",
    re.DOTALL,
)
_SED_SIMPLE = re.compile(r"[\d,$;\spdq=!nN~+-]*")
_SED_POWER = re.compile(r"(?:^|[;\n{}/|,#!0-9$\s])\s*[eFwWrR]\b|[gpiIM0-9]*[ew]\s*(?:[;\n}]|\Z)|\be\s")


def awk_runs(words: tuple[Word, ...]) -> str | None:
    """Say why an awk program may run commands, or None."""
    programs, parsed = _programs(words, AWK_OPTIONS, "-f", stops=True)
    if parsed.unknown is not None:
        return "an option of awk is not known, nor what it runs"
    if not all(program.is_literal for program in programs):
        return "the awk program is only known when it runs"
    return "the awk program can run commands" if any(_AWK_RUNS.search(one.text) for one in programs) else None


def awk_is_pure(words: tuple[Word, ...]) -> bool:
    """Whether awk reads its operands and prints, and nothing else."""
    programs, parsed = _programs(words, AWK_OPTIONS, "-f", stops=True)
    if parsed.unknown is not None or parsed.has("-f") or len(programs) != 1:
        return False
    return programs[0].is_literal and _is_pure_awk(programs[0].text)


def _is_pure_awk(text: str) -> bool:
    """Output goes to a file or program only by `>` or `|` behind a `print` of the same program."""
    if _AWK_POWER.search(text):
        return False
    start = text.find("print")
    after = text[start:].replace("||", "") if start >= 0 else ""
    return ">" not in after and "|" not in after


def sed_runs(words: tuple[Word, ...]) -> str | None:
    """Say why a sed program may run commands, or None."""
    programs, parsed = _programs(words, f"{SED_OPTIONS} -i? -f:script --in-place? --file:script", "-e", "-f")
    if parsed.unknown is not None:
        return None
    if not all(program.is_literal for program in programs):
        return "the sed program is only known when it runs"
    risky = any(not _is_pure_sed(one.text) and _SED_POWER.search(one.text) for one in programs)
    return "the sed program may run commands or write files" if risky else None


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
    at = 0
    while at < len(text):
        found = _SED_COMMAND.match(text, at)
        if found is None or found.end() == at or _hides_a_mark(found):
            return False
        at = found.end()
    return True


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
