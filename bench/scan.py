"""Measure what `suspect` points out: rates by source and language, hidden text, and how fast a scan is.

    python bench/scan.py [SEED | --smoke]

Figures only. Orders of scan.toml are put into the frames of each source by chance; none of them is in a test
of the scanner. Most of its signals were there before these lines. The texts of unseen/injections.toml are of
an author who had not read the rules.
"""

from __future__ import annotations

import random
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from leeward.runtime.cli.scan import scanned
from leeward.security.injections import find_injections

_UNSEEN = tomllib.loads(Path(__file__).with_name("unseen").joinpath("injections.toml").read_text("utf-8"))
_CORPUS = tomllib.loads(Path(__file__).with_name("scan.toml").read_text(encoding="utf-8"))


def orders(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (source or language, text): every order in a frame of every source."""
    chance = random.Random(seed)  # noqa: S311 — picks texts of a corpus, no secret
    for source, frames in _CORPUS["frames"].items():
        for order in _CORPUS["orders"]["english"]:
            yield f"English, {source}", chance.choice(frames).format(text=order)
    for language, texts in _CORPUS["orders"].items():
        if language != "english":
            for text in texts:
                frames = _CORPUS["frames"][chance.choice(list(_CORPUS["frames"]))]
                yield language, chance.choice(frames).format(text=text)


def ordinary(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of what gives no orders: alone, and two of a kind behind each other."""
    chance = random.Random(seed)  # noqa: S311 — picks texts of a corpus, no secret
    for kind, texts in _CORPUS["ordinary"].items():
        for text in texts:
            yield kind, text
            yield kind, f"{text}\n\n{chance.choice(texts)}"


def unseen(which: str, by: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of another author's hostile or benign texts, by source or language."""
    for one in _UNSEEN[which]:
        yield f"{by} {one[by]}", one["text"]


def _print_rates(title: str, texts: Iterator[tuple[str, str]]) -> None:
    found: dict[str, list[bool]] = defaultdict(list)
    for kind, text in texts:
        found[kind].append(bool(find_injections(text)))
    every = [flag for flags in found.values() for flag in flags]
    print(f"{title}: {sum(every)} of {len(every)} ({100 * sum(every) / len(every):.1f} %)")
    for kind, flags in found.items():
        print(f"  {kind:28} {sum(flags):3} of {len(flags):3}  {100 * sum(flags) / len(flags):5.1f} %")


def _print_speed(texts: list[str]) -> None:
    scanned(texts[0])
    begin = time.process_time()
    for text in texts:
        scanned(text)
    seconds = time.process_time() - begin
    each = sum(map(len, texts)) / len(texts)
    print(f"scanned: {len(texts) / seconds:.0f} texts a second of CPU, {each:.0f} characters each")


def main(words: list[str]) -> None:
    """Print the figures for a seed."""
    seed = int(words[0]) if words and words[0].isdigit() else 1
    _print_rates("orders pointed out", orders(seed))
    _print_rates("ordinary texts pointed out", ordinary(seed))
    for by in ("source", "language"):
        _print_rates("unseen hostile texts pointed out", unseen("hostile", by))
    _print_rates("unseen benign texts pointed out", unseen("benign", "source"))
    texts = [text for _, text in (*orders(seed), *ordinary(seed))]
    _print_speed(texts[:100] if "--smoke" in words else texts)


if __name__ == "__main__":
    main(sys.argv[1:])
