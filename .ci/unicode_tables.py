"""Make `security/text/scripts.toml` from the data files of Unicode.

    python .ci/unicode_tables.py FOLDER

FOLDER holds `Scripts.txt` of the Unicode Character Database and `confusables.txt` of UTS #39, of one
version. The table holds letters alone: digits, marks and signs are written in every script. Of look-alikes
it holds those of a single ASCII letter, and the few of `_PASSES_FOR`.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

_TABLE = Path(__file__).resolve().parents[1] / "security/text/scripts.toml"
_SMALL_CAPITAL = re.compile(r"LATIN LETTER SMALL CAPITAL ([A-Z])")

# Small letters that are drawn like a capital one of half the size, or like an italic one: UTS #39 gives them
# another prototype, but in an address bar or a terminal they pass for these.
_PASSES_FOR = {"к": "k", "ԟ": "k", "м": "m", "т": "t", "н": "h", "в": "b", "ь": "b", "β": "b", "ε": "e"}
_PASSES_FOR |= {"η": "n", "κ": "k", "τ": "t", "χ": "x", "ω": "w", "ա": "w", "г": "r", "ѡ": "w", "ӏ": "l"}
_LINE = 100


def _fields(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        if data := line.partition("#")[0].strip():
            yield [field.strip() for field in data.split(";")]


def _scripts(path: Path) -> dict[str, list[int]]:
    """Return the letters of each script; those of all scripts (Common, Inherited) are left out."""
    found: dict[str, list[int]] = defaultdict(list)
    for codes, script in _fields(path):
        first, _, last = codes.partition("..")
        for code in range(int(first, 16), int(last or first, 16) + 1):
            if script not in {"Common", "Inherited"} and unicodedata.category(chr(code))[0] == "L":
                found[script].append(code)
    return dict(sorted(found.items()))


def _drawn_as(path: Path) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return for each ASCII letter the letters that are drawn like it, and those that pass for it."""
    drawn_as: dict[str, set[int]] = defaultdict(set)
    passes_for: dict[str, set[int]] = defaultdict(set)
    for source, target, _ in _fields(path):
        char, drawn = chr(int(source, 16)), "".join(chr(int(code, 16)) for code in target.split())
        if char.isascii() or unicodedata.category(char)[0] != "L" or len(drawn) != 1:
            continue
        if small := _SMALL_CAPITAL.fullmatch(unicodedata.name(drawn, "")):
            passes_for[small[1].lower()].add(ord(char))
        elif drawn.isascii() and drawn.isalpha():
            drawn_as[drawn].add(ord(char))
    for char, drawn in _PASSES_FOR.items():
        passes_for[drawn].add(ord(char))
    tables = ({key: sorted(found[key]) for key in sorted(found)} for found in (drawn_as, passes_for))
    first, second = tables
    return first, second


def _ranges(codes: Iterable[int]) -> Iterator[str]:
    """Yield runs of code points as `first-last` in hex."""
    first = last = -2
    for code in (*sorted(codes), -2):
        if code != last + 1:
            if first >= 0:
                yield f"{first:x}-{last:x}" if first != last else f"{first:x}"
            first = code
        last = code


def _entry(name: str, codes: Iterable[int]) -> str:
    lines = [""]
    for item in _ranges(codes):
        if len(lines[-1]) + len(item) >= _LINE:
            lines.append("")
        lines[-1] += f"{item} "
    body = "\n".join(map(str.rstrip, lines))
    return f'{name} = "{body}"' if len(lines) == 1 else f'{name} = """\n{body}"""'


def main(folder: Path) -> None:
    """Write the table from the data files in a folder."""
    version = (folder / "Scripts.txt").read_text(encoding="utf-8").partition("\n")[0].strip("# ")
    head = f"""\
# Letters of each script, and letters that are drawn like an ASCII one, as code points in hex.
# Made by .ci/unicode_tables.py, and changed, from {version} and confusables.txt (UTS #39) of its version.
# Data files: Copyright (c) 1991-2022 Unicode, Inc.; their licence is unicode_license.txt beside this file.
"""
    scripts = [_entry(name, codes) for name, codes in _scripts(folder / "Scripts.txt").items()]
    alike = _drawn_as(folder / "confusables.txt")
    drawn, passing = ([_entry(name, codes) for name, codes in found.items()] for found in alike)
    parts = (head, "[scripts]", *scripts, "", "[drawn_as]", *drawn, "", "[passes_for]", *passing)
    _TABLE.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
