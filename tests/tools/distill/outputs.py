"""Golden outputs of programs, and lines to plant in them that no filter may lose, in many spellings.

python tests/tools/distill/outputs.py     writes golden/NAME.shown anew, after a change of the rules
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leeward.security.command import parse_command
from leeward.security.filters import Distilled
from leeward.security.kinds import CommandLine
from leeward.tools.distill import Engine

HERE = Path(__file__).parent
ROOM = 50_000


@dataclass(frozen=True)
class Case:
    """An output: of which command, how that ended, and which rule it is there for."""

    name: str
    rule: str
    command: str
    exit: int
    origin: str

    @property
    def text(self) -> str:
        return (HERE / "golden" / f"{self.name}.txt").read_text(encoding="utf-8")

    @property
    def shown_file(self) -> Path:
        return HERE / "golden" / f"{self.name}.shown"


CASES = [Case(**row) for row in tomllib.loads((HERE / "golden.toml").read_text(encoding="utf-8"))["case"]]


def distilled(command: str, text: str, code: int | None, engine: Engine, room: int = ROOM) -> Distilled:
    """Return what an engine leaves of an output; its text is always there."""
    line = parse_command(command)
    assert isinstance(line, CommandLine), command
    distillation = engine.begin(line)
    distillation.feed(text)
    found = distillation.finish(code, room) or Distilled(None)
    return Distilled(text if found.text is None else found.text, found.notices)


def is_shown(line: str, shown: Sequence[str]) -> bool:
    """Whether a line stands in what is shown, or is the place of one that does."""
    if any(one == line or one.startswith(f"{line}  [… ") for one in shown):
        return True
    file, _, place = line.strip().removeprefix("--> ").partition(":")
    return line.lstrip().startswith("-->") and any(f"{file}: " in one and place in one for one in shown)


PLANTED = tomllib.loads((HERE / "planted.toml").read_text(encoding="utf-8"))


def planted(text: str, seed: int, count: int = 40) -> tuple[str, list[str]]:
    """Return a text with lines planted at random places, and these lines."""
    rng = random.Random(seed)
    every = list(_spelled(rng))
    lines = text.removesuffix("\n").split("\n")
    chosen = rng.sample(every, count)
    for line in chosen:
        lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join([*lines, ""]), chosen


def _spelled(rng: random.Random) -> Iterator[str]:
    for number, form in enumerate(PLANTED["whole"]):
        yield form.format(n=10 + number)
    for form in PLANTED["forms"]:
        for word in PLANTED["words"]:
            yield form.format(w=word, n=rng.randrange(100, 999))


if __name__ == "__main__":
    for case in CASES:
        shown = distilled(case.command, case.text, case.exit, Engine()).text
        case.shown_file.write_text(shown, encoding="utf-8")
