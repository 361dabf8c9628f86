"""Strategies for structured reports: test runners, linters, git.

What they have read to its last character they may leave out, such as a test that passed; everything else
stays under the guard of the page. A form that they do not know they leave as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from leeward.memory.patterns import LinearPattern, line_pattern, linear_pattern

from .importance import changed_lines
from .page import Decision, Fold, Page, matching
from .similar import templated
from .strategies import Count, Parameters, joined

__all__ = ["GitDiff", "GitStatus", "GroupByRule", "Runner", "TestSummary"]

Runner: TypeAlias = Literal["pytest", "cargo", "go", "jest", "junit", "tap"]

_PASSED: Mapping[str, tuple[str, ...]] = {
    "pytest": (
        r"^\S+::.* (?:PASSED|SKIPPED|XFAIL)(?: \(.*\))?(?: +\[ *\d+%\])?$",
        r"^\[gw\d+\] \[ *\d+%\] (?:PASSED|SKIPPED|XFAIL) \S+::.*$",
        r"^(?:\S+\.py )?[.sx]+(?: +\[ *\d+%\])?$",
        r"^\S+::\S+ $",
        r"^\w+ \([\w.]+\)(?: \.\.\.)? ok$",
    ),
    "cargo": (
        r"^test .+ \.\.\. (?:ok|ignored)(?:, .*)?$",
        r"^ +(?:PASS|SKIP) \[ *[\d.]+s\] .+$",
        r"^running \d+ tests?$",
        r"^test result: ok\. 0 passed; 0 failed; .*$",
    ),
    "go": (
        r"^=== (?:RUN|PAUSE|CONT|NAME) .+$",
        r"^ *--- (?:PASS|SKIP): .+ \([\d.]+s\)$",
        r"^\?   \t\S+\t\[no test files\]$",
        r"^ok  \t\S+\t(?:[\d.]+s|\(cached\))(?:\tcoverage: .*)?$",
        r"^PASS$",
    ),
    "jest": (
        r"^ +[✓√✔] .+$",
        r"^ +[○↓] .+$",
        r"^PASS +(?:\S+ +)?\S+\.[cm]?[jt]sx?(?: \([\d.]+ m?s\))?$",
    ),
    "junit": (
        r"^\[INFO\] Running \S+$",
        r"^\[INFO\] Tests run: \d+, Failures: 0, Errors: 0, Skipped: \d+, Time elapsed: .+$",
        r"^\S+ > .+ (?:PASSED|SKIPPED)$",
    ),
    "tap": (
        r"^ *ok \d+.*$",
        r"^ *# Subtest: .*$",
        r"^ *(?:✔|﹣|▶) .+$",
        r"^ *duration_ms: .*$",
        r"^ *1\.\.\d+$",
    ),
}
"""Lines of tests that went well, whole: whatever words a test's name is made of."""

_CHATTER: Mapping[str, tuple[str, ...]] = {
    "pytest": (
        r"^(?:platform|cachedir:|rootdir:|configfile:|plugins:|testpaths:|collecting|asyncio:) ?.*",
        r"^hypothesis profile ",
        r"^scheduling tests via",
        r"^gw\d+ ",
        r"^created: \d+",
        r"^Using --randomly-seed",
    ),
    "cargo": (r"^ +(?:Running|Doc-tests|Compiling|Downloaded|Downloading|Blocking|Starting) ",),
    "go": (r"^go: downloading ", r"^go: finding "),
    "jest": (r"^> ", r"^$"),
    "junit": (r"^> Task :", r"^\[INFO\] *$", r"^\[INFO\] -+(?: .* -+)?$", r"^\[INFO\]  T E S T S$"),
    "tap": (r"^ *---$", r"^ *\.\.\.$", r"^ *type: '?(?:test|suite)'?$"),
}


class TestSummary(Parameters):
    """Show of a test run what failed, why, and the totals; `trace` lines of each stretch nobody knows."""

    __test__ = False  # it is no test

    kind: Literal["test_summary"] = "test_summary"
    runner: Runner
    trace: Annotated[int, Field(ge=2, le=10_000)] = 20

    def decide(self, page: Page) -> Decision:
        """Name what passed, progress and settings, and the middle of long traces."""
        passed = set(matching(joined(_PASSED[self.runner]), page))
        chatter = set(matching(joined(_CHATTER[self.runner]), page)) - passed
        gone = bytearray(len(page.lines))
        for index in (*passed, *chatter):
            gone[index] = 1
        # The last line tells how it ended, even where it is that of a test.
        passed.discard(len(page.lines) - 1)
        return Decision(dropped=[*chatter, *self._middles(page, gone)], known=passed)

    def _middles(self, page: Page, gone: bytearray) -> Iterator[int]:
        """Yield the middle of each long stretch of lines without one that matters."""
        wanted = page.important[:]
        for index in changed_lines(page.block) if page.failed else ():
            wanted[index] = 1
        stretch: list[int] = []
        for index in range(len(page.lines) + 1):
            if index < len(page.lines) and gone[index]:
                continue
            if index < len(page.lines) and not wanted[index]:
                stretch.append(index)
                continue
            # The lines right before a failure's message explain most of it.
            tail = self.trace * 2 // 3
            yield from stretch[self.trace - tail : -tail] if len(stretch) > self.trace else ()
            stretch = []


_PLACE = r"(?P<place>[^\s:][^:]*:\d+(?::\d+)?): (?P<message>.+)"
_PLACE_IN_BRACKETS = r"(?P<place>\S.*\(\d+(?:,\d+)?\)): (?P<message>.+)"
_BELOW_FILE = r"\s+(?P<place>\d+:\d+)\s+(?P<message>(?:error|warning)\s.+)"
_POINTS = line_pattern(r"^ *--> \S+:\d+")
_FRAME = line_pattern(r"^ *(?:\d+ )?[|=]|^ *--> |^ *\.\.\.$")
# Labels below a line of code, and the lines that continue a `= note: …`.
_LABEL = linear_pattern(r"^ *(?:\|[ |^~+_-]*([A-Za-z`].*)|= (.*)| {8,}(\S.*))$")
_ADVICE = linear_pattern(
    r"^(?:help: for further information|note: `(?:#\[|-[A-Z] )|note: .*requested on the command line)"
)
_MOST_PLACES = 500


class GroupByRule(Parameters):
    """Show a complaint of a linter once, with all places it is made about."""

    kind: Literal["group_by_rule"] = "group_by_rule"

    def decide(self, page: Page) -> Decision:
        """Fold complaints that differ in their place, and in the names and numbers they quote."""
        single, headers = _complaints(page)
        folds = list(_folded(single))
        gone = {index for fold in folds for index in fold.members}
        empty = [
            header for header, members in headers.items() if members <= gone and not page.serious[header]
        ]
        framed = list(_framed(page))
        frames = {index for fold in folds for index in fold.members}
        folds += [fold for fold in framed if not frames & {fold.into, *fold.members}]
        return Decision(dropped=empty, folds=folds)


Complaint: TypeAlias = tuple[int, str, str, str]
"""The index of its line, the file, the place in it, and the message."""


def _complaints(page: Page) -> tuple[list[Complaint], dict[int, set[int]]]:
    """Return the complaints of one line each, and which of them are below which header."""
    found: list[Complaint] = []
    headers: dict[int, set[int]] = {}
    header: int | None = None
    for index, line in enumerate(page.lines):
        if below := _below_file().fullmatch(line):
            if header is not None:
                headers.setdefault(header, set()).add(index)
                found.append((index, page.lines[header], below["place"], " ".join(below["message"].split())))
        elif placed := _placed().fullmatch(line):
            place = placed["place"] or placed["place2"]
            message = placed["message"] or placed["message2"]
            cut = place.rfind("(") if place.endswith(")") else place.find(":")
            found.append((index, place[:cut], place[cut:].strip(":()"), message))
        elif line[:1].strip():
            header = index
    return found, headers


def _folded(found: Iterable[Complaint]) -> Iterator[Fold]:
    groups: dict[str, list[tuple[Complaint, tuple[str, ...]]]] = {}
    for complaint in found:
        template, values = templated(complaint[3])
        groups.setdefault(template, []).append((complaint, values))
    for members in groups.values():
        if len(members) > 1:
            (first, values), *rest = members
            places = [(one[1], " ".join((one[2], *_other(own, values)))) for one, own in rest]
            yield Fold(first[0], [complaint[0] for complaint, _ in rest], _listed(places))


def _listed(places: Sequence[tuple[str, str]]) -> str:
    """Return places by file; of very many, the number of the rest."""
    by_file: dict[str, list[str]] = {}
    for file, place in places[:_MOST_PLACES]:
        by_file.setdefault(file, []).append(place)
    listed = "; ".join(f"{file}: {', '.join(several)}" for file, several in by_file.items())
    more = len(places) - _MOST_PLACES
    return f"{len(places)} more: {listed}" + (f"; and {more} others" if more > 0 else "")


def _framed(page: Page) -> Iterator[Fold]:
    """Yield complaints that show code: a line of words, a place below it, and the code in a frame."""
    blocks: dict[str, list[_Framed]] = {}
    frames = set(matching(_FRAME, page))
    points = set(matching(_POINTS, page))
    for index in sorted(points):
        if index == 0 or index - 1 in frames or not page.lines[index - 1].strip():
            continue
        last = index
        while last + 1 in frames or _goes_on(page.lines, last + 1):
            last += 1
        inside = range(index, last + 1)
        template, values = templated("\n".join((page.lines[index - 1], *_labels(page.lines, inside))))
        places = [page.lines[one].strip().removeprefix("-->").strip() for one in inside if one in points]
        blocks.setdefault(template, []).append(
            _Framed((index - 1, *inside), places, tuple(dict.fromkeys(values)))
        )
    for first, *rest in blocks.values():
        if rest:
            listed = [
                (
                    place.partition(":")[0],
                    " ".join((place.partition(":")[2], *_other(one.values, first.values))),
                )
                for one in rest
                for place in one.places
            ]
            known = {page.lines[index] for index in first.lines}
            members = [index for one in rest for index in one.lines if not _adds(page, index, one, known)]
            yield Fold(first.lines[0], members, _listed(listed))


def _goes_on(lines: Sequence[str], index: int) -> bool:
    """Whether a line continues the `= note: …` above it."""
    return index < len(lines) and lines[index][:8].isspace() and lines[index - 1].lstrip()[:1] == "="


def _labels(lines: Sequence[str], inside: Iterable[int]) -> Iterator[str]:
    """Yield the labels of code in a frame, without general advice, which only one complaint of a kind has."""
    for index in inside:
        if found := _LABEL.search(lines[index]):
            label = next(filter(None, found.groups()))
            if not _ADVICE.search(label):
                yield label


class _Framed(NamedTuple):
    """The lines of one complaint, the places it points at, and the values in its words."""

    lines: tuple[int, ...]
    places: list[str]
    values: tuple[str, ...]


def _other(own: tuple[str, ...], first: tuple[str, ...]) -> tuple[str, ...]:
    return () if own == first else own


def _adds(page: Page, index: int, one: _Framed, known: set[str]) -> bool:
    """Whether a line below the code is serious and is missing from the first complaint of its kind."""
    line = page.lines[index]
    return (
        index != one.lines[0] and page.serious[index] == 1 and line.lstrip()[:1] == "=" and line not in known
    )


@cache
def _placed() -> LinearPattern:
    second = _PLACE_IN_BRACKETS.replace("place>", "place2>").replace("message>", "message2>")
    return linear_pattern(f"{_PLACE}|{second}")


@cache
def _below_file() -> LinearPattern:
    return linear_pattern(_BELOW_FILE)


_HINT = (
    r"^\s*\(use \"git .*\)$",
    r"^\s*\(commit or discard .*\)$",
    r"^no changes added to commit \(use .*\)$",
    r"^nothing added to commit but untracked files present \(use .*\)$",
)


class GitStatus(Parameters):
    """Show what git says of a work tree without its advice, and `entries` files of each kind."""

    kind: Literal["git_status"] = "git_status"
    entries: Count = 10

    def decide(self, page: Page) -> Decision:
        """Name advice, blank lines, and files beyond the first few of a kind."""
        gone = set(matching(joined(_HINT), page))
        counts: dict[str, int] = {}
        section = ""
        for index, line in enumerate(page.lines):
            if not line.strip():
                gone.add(index)
            elif line.startswith("\t") or line[:3] in {"?? ", "!! "}:
                kind = (
                    f"{section}/{line.partition(':')[0] if ':' in line else ''}"
                    if line[0] == "\t"
                    else line[:2]
                )
                counts[kind] = counts.get(kind, 0) + 1
                if counts[kind] > self.entries:
                    gone.add(index)
            elif not line.startswith(" "):
                section = line
        return Decision(dropped=sorted(gone))


_FILE = line_pattern(r"^diff --(?:git|cc|combined) ")
_LOCKS = line_pattern(
    r"[ /](?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|Cargo\.lock"
    r"|poetry\.lock|uv\.lock|pdm\.lock|Pipfile\.lock|requirements\.lock|go\.sum|composer\.lock"
    r"|Gemfile\.lock|mix\.lock|flake\.lock|Podfile\.lock|gradle\.lockfile|\.terraform\.lock\.hcl|\S+\.min\.(?:js|css)|\S+\.(?:js|css)\.map)$"
)
_PLUMBING = line_pattern(r"^(?:index [0-9a-f,]+\.\.[0-9a-f]+(?: \d+)?|--- \S.*|\+\+\+ \S.*)$")


class GitDiff(Parameters):
    """Show `per_file` lines of each file's changes; of lock files and binaries only how much there is."""

    kind: Literal["git_diff"] = "git_diff"
    per_file: Count = 100

    def decide(self, page: Page) -> Decision:
        """Fold what is beyond into the line that names the file."""
        starts = list(matching(_FILE, page))
        ends = (*starts[1:], len(page.lines))
        locks = set(matching(_LOCKS, page))
        plumbing = set(matching(_PLUMBING, page))
        folds, dropped = [], []
        for start, end in zip(starts, ends, strict=False):
            # Behind the first hunk, `--- x` is a line `-- x` that was taken out.
            begin = next((index for index in range(start + 1, end) if page.lines[index][:1] == "@"), end)
            heads = [index for index in range(start + 1, min(begin, start + 8)) if index in plumbing]
            dropped += [index for index in heads if not page.lines[index].endswith(" /dev/null")]
            is_binary = "GIT binary patch" in page.lines[start : start + 8]
            body = [
                index
                for index in range(start + 1, end)
                if _is_body(page.lines[index], is_binary=is_binary) and not page.important[index]
            ]
            body = [index for index in body if index not in heads]
            room = 0 if start in locks or is_binary else self.per_file * (2 if page.failed else 1)
            if len(body) > room:
                folds.append(Fold(start, body[room:], _size(page.lines, body[room:])))
        return Decision(dropped=dropped, folds=folds)


def _is_body(line: str, *, is_binary: bool) -> bool:
    is_encoded = is_binary and line[:1].isalpha() and " " not in line
    return line[:1] in {" ", "+", "-", "@", "\\"} or is_encoded


def _size(lines: Sequence[str], members: Sequence[int]) -> str:
    marks = [lines[index][:1] for index in members]
    return f"{len(members)} more lines: +{marks.count('+')} -{marks.count('-')}"
