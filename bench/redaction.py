"""Measure what secrets `redact` leaves, what it masks without need, and how fast it is.

    python bench/redaction.py [SEED | --smoke | --megabyte]

Figures only. Values are drawn by chance, and put into the lines of redaction.toml (every way to write a value
down, times several names and alphabets) and into the formats and contexts of contexts.toml, which have names
of their own and are counted apart. Neither was made from the rules; unseen/secrets.toml is of an author who
had not read them; what marks its secrets as made up is drawn anew first. Beginnings of secrets are repeated
for 200 kB each, with `--megabyte` for five times as much, which takes some minutes.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import string
import sys
import time
import tomllib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import trio

from leeward.security import filters
from leeward.security.filters import Screened, Source, applied
from leeward.security.pipeline import FILTERS
from leeward.security.text import Redactor, redact_text
from leeward.security.trust import Origin

_CONTEXTS = tomllib.loads(Path(__file__).with_name("contexts.toml").read_text(encoding="utf-8"))["contexts"]
_UNSEEN = tomllib.loads(Path(__file__).with_name("unseen").joinpath("secrets.toml").read_text("utf-8"))
_CORPUS = tomllib.loads(Path(__file__).with_name("redaction.toml").read_text(encoding="utf-8"))
_LETTERS = string.ascii_letters + string.digits
_SHAPES = {
    "hex 32": ("0123456789abcdef", 32),
    "hex 40": ("0123456789abcdef", 40),
    "alphanumeric 20": (_LETTERS, 20),
    "alphanumeric 40": (_LETTERS, 40),
    "small letters and digits 24": (string.ascii_lowercase + string.digits, 24),
    "base64 44": (_LETTERS + "+/", 44),
    "url-safe 43": (_LETTERS + "-_", 43),
}
_PASSWORDS = ("short", "with signs", "words and a number")


def _drawn(chance: random.Random, shape: str) -> str:
    chars, length = _SHAPES[shape]
    return "".join(chance.choices(chars, k=length))


def _password(chance: random.Random, shape: str) -> str:
    if shape == "short":
        return "".join(chance.choices(string.ascii_lowercase, k=5)) + str(chance.randrange(10, 99))
    if shape == "with signs":
        letters = "".join(chance.choices(_LETTERS, k=11))
        return letters[:7] + chance.choice("!#*+") + letters[7:]
    return chance.choice(("Summer", "dragon", "monkey", "Winter")) + str(chance.randrange(1900, 2030))


def _written(template: str, name: str, value: str) -> str:
    words = name.split("_")
    camel = words[0] + "".join(map(str.capitalize, words[1:]))
    return template.format(n=name, N=name.upper(), c=camel, k=name.replace("_", "-"), v=value)


def secret_lines(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, line, secret): every template with every kind of value, the names in turn."""
    chance = random.Random(seed)  # noqa: S311 — made-up values, not a secret in use
    for group, templates in _CORPUS["secret"].items():
        for template in templates:
            for shape in _SHAPES:
                value, name = _drawn(chance, shape), chance.choice(_CORPUS["names"]["key"])
                yield f"{group}, key", _written(template, name, value), value
            for shape in _PASSWORDS:
                value, name = _password(chance, shape), chance.choice(_CORPUS["names"]["password"])
                yield f"{group}, password", _written(template, name, value), value
    for template in _CORPUS["secret_password"]["connection"]:
        for shape in _PASSWORDS[:2]:
            value = _password(chance, shape).replace("#", "!")
            yield "connection", _written(template, "password", value), value
    for group, templates in _CORPUS["secret_vendor"].items():
        for template in templates:
            for name in _CORPUS["names"]["vendor"]:
                value = _drawn(chance, chance.choice(list(_SHAPES)[:5]))
                yield f"vendor, {group}", _written(template, name, value), value


def context_lines(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, text, secret): every context with several values each."""
    chance = random.Random(seed)  # noqa: S311 — made-up values, not a secret in use
    for group, templates in _CONTEXTS.items():
        for template in templates:
            for shape in _PASSWORDS if "{p}" in template else chance.sample(list(_SHAPES), 3):
                is_password = "{p}" in template
                value = _password(chance, shape).replace("#", "!") if is_password else _drawn(chance, shape)
                yield group, template.replace("{p}" if is_password else "{k}", value), value


def other_lines(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, line) of what holds no secret: placeholders, code about secrets, hashes and ids."""
    chance = random.Random(seed)  # noqa: S311 — made-up values, not a secret in use
    for template in _CORPUS["none"]["lines"]:
        for name in (*_CORPUS["names"]["key"], *_CORPUS["names"]["password"]):
            yield "no secret", _written(template, name, "")
    for template in _CORPUS["none"]["hashes"]:
        for _ in range(12):
            yield "hash or id", template.format(**_hashes(chance))


def _hashes(chance: random.Random) -> dict[str, str]:
    raw = chance.randbytes(64)
    made = {name: hashlib.new(name, raw).hexdigest() for name in ("md5", "sha1", "sha256", "sha512")}
    text = base64.b64encode(raw).decode()
    ids = {
        "uuid": str(uuid.UUID(bytes=raw[:16], version=4)),
        "epoch": str(chance.randrange(1_500_000_000, 1_900_000_000)),
    }
    return {**made, **ids, "short": made["sha1"][:12], "b64": text, "b64s": text[:43]}


def _print_rates(seed: int) -> None:
    lines = [(kind, line, secret in redact_text(line)) for kind, line, secret in secret_lines(seed)]
    _print_shares("left of secrets", lines)
    lines = [(kind, text, secret in redact_text(text)) for kind, text, secret in context_lines(seed)]
    print(f"contexts: {sum(map(len, _CONTEXTS.values()))}")
    _print_shares("left of secrets in contexts", lines)
    _print_shares(
        "touched of others", [(kind, line, redact_text(line) != line) for kind, line in other_lines(seed)]
    )

    chance = random.Random(seed)  # noqa: S311 — made-up values, not a secret in use
    drawn = [(one["context"], *_drawn_anew(one, chance)) for one in _UNSEEN["secret"]]
    lines = [(kind, text, secret in redact_text(text)) for kind, text, secret in drawn]
    _print_shares("left of unseen secrets", lines)
    plain = [
        (one["context"], one["text"], redact_text(one["text"]) != one["text"]) for one in _UNSEEN["plain"]
    ]
    _print_shares("touched of unseen plain texts", plain)


def _drawn_anew(one: Mapping[str, str], chance: random.Random) -> tuple[str, str]:
    """Return an unseen text and its secret without what marks it as made up, which `redact` knows."""

    def drawn(mark: re.Match[str]) -> str:
        if mark[0].lower() == "fa4efa4e":
            return "".join(chance.choices("0123456789abcdef", k=8))
        small, large = string.ascii_lowercase, string.ascii_uppercase
        return "".join(chance.choice(large if char.isupper() else small) for char in mark[0])

    secret = re.sub(r"(?i)fa4efa4e|f[a4]ke|ex[a@]mple", drawn, one["secret"])
    return one["text"].replace(one["secret"], secret), secret


def _print_shares(title: str, lines: list[tuple[str, str, bool]]) -> None:
    count = sum(is_wrong for _, _, is_wrong in lines)
    print(f"{title}: {count} of {len(lines)} ({100 * count / len(lines):.1f} %)")
    every, wrong = (
        Counter(kind for kind, _, _ in lines),
        Counter(kind for kind, _, is_wrong in lines if is_wrong),
    )
    for kind, number in every.items():
        example = next((line for of_kind, line, is_wrong in lines if is_wrong and of_kind == kind), "")
        print(f"  {kind:24} {wrong[kind]:4} of {number:4}  {example[:90]!r}")


def _texts(megabytes: float) -> dict[str, str]:
    """Return texts of one length: source code, that of the rules themselves, and prose about secrets."""
    ours, modules = Path(__file__).parents[1], Path(random.__file__).parent
    found = {
        "source code": modules.glob("*.py"),
        "code about secrets": (ours / "security").rglob("*.py"),
        "documents": (ours / "docs").glob("*.md"),
    }
    size, texts = int(megabytes * 1_000_000), {}
    for name, paths in found.items():
        text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(paths))
        texts[name] = (text * (size // len(text) + 1))[:size]
    return texts


def _redact(text: str) -> None:
    redactor = Redactor(("fake-known-value-1234",))
    for start in range(0, len(text), 65_536):
        redactor.feed(text[start : start + 65_536])
    redactor.flush()


def _print_speed(megabytes: float) -> None:
    """Print the speed twice: what the rules need at first is built once in a process."""
    for name, text in _texts(megabytes).items():
        times = [_seconds(_redact, text) for _ in range(2)]
        first, again = (len(text) / taken / 1e6 for taken in times)
        factor = times[1] / _seconds(str.splitlines, text)
        told = f"{first:5.1f} MB/s at first, then {again:5.1f} MB/s, {factor:.0f} x splitlines"
        print(f"redact: {name:20} {told}")


def _seconds(work: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    work(text)
    return time.process_time() - began


async def _print_shares_of_chain(megabytes: float) -> None:
    """Print what each filter takes of the whole, for an output that is not shortened before them."""
    text = _texts(megabytes)["source code"]
    known = frozenset({"fake-known-value-1234"})
    source = Source("bench", Origin.TOOL, secrets=known, threshold=2 * len(text))
    screened, taken = Screened(text), {}
    names = {id(getattr(filters, name)): name for name in filters.__all__}
    for step in FILTERS:
        began = time.process_time()
        screened = await applied(step, screened, source)
        taken[names[id(step)]] = time.process_time() - began
    whole = sum(taken.values())
    shares = ", ".join(f"{name} {100 * seconds / whole:.0f} %" for name, seconds in taken.items())
    print(f"filters: {len(text) / whole / 1e6:.1f} MB/s for all of them; {shares}")


def _hostile_units() -> list[str]:
    """Return what every rule is looked for by, each to be repeated: beginnings of secrets that never come."""
    rules = Path(__file__).parents[1] / "security" / "text"
    written, assigned = (
        tomllib.loads((rules / name).read_text(encoding="utf-8"))
        for name in ("secrets.toml", "assigned.toml")
    )
    units = [
        prefix + "0" * (one["min"] - 1) for one in written["prefixed"].values() for prefix in one["prefix"]
    ]
    units += [text for one in written["shaped"].values() for text in one.get("anchor", [])]
    names = (name for kind in ("password", "key", "weak", "vendor") for name in assigned["names"][kind])
    units += [re.split(r"[(\[]", name)[0].replace("?", "") + " = " for name in names]
    return [unit + end for unit in units for end in ("", " ")]


def _print_hostile(kilobytes: int) -> None:
    """Print which repeated beginning takes longest, and what four times as much of it takes."""
    found = []
    for unit in _hostile_units():
        texts = [unit * (size // len(unit)) for size in (kilobytes * 250, kilobytes * 1000)]
        short, long = (_seconds(_redact, text) for text in texts)
        found.append((long / kilobytes * 1000, long / max(short, 1e-4), unit))
    worst, ratio = max(found), max(found, key=lambda one: one[1])
    print(f"hostile: {len(found)} texts of {kilobytes} kB; slowest {worst[0]:.2f} s/MB ({worst[2][:30]!r})")
    print(f"hostile: four times as much takes at most {ratio[1]:.1f} times as long ({ratio[2][:30]!r})")


def main() -> None:
    """Print the figures."""
    is_smoke = "--smoke" in sys.argv
    _print_rates(next((int(word) for word in sys.argv[1:] if word.isdigit()), 1))
    megabytes = 0.2 if is_smoke else 3
    _print_speed(megabytes)
    trio.run(_print_shares_of_chain, megabytes)
    _print_hostile(4 if is_smoke else 1000 if "--megabyte" in sys.argv else 200)


if __name__ == "__main__":
    main()
