"""`leeward check --batch`: judge many calls, one JSON object per line in, one per line out.

    {"tool": …, "args": {…} or "…", "said": "…", "urls": […], "seen": […], "workspace": "…"}

All but the first two may be left out. A line may hold a whole trace instead, with a field "calls"
(`trace.py`). `dry_run.py` judges; here lines are read as they come and answered in order. A line that cannot
be answered gets an error object.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from functools import partial

from leeward.security.kinds import Runs
from leeward.security.lazy import regex
from leeward.security.trust import Origin

from ..console import begin
from ..dry_run import SEEN, DryRun, DryRunCall
from ..exits import Exit, Json
from ..options import Options
from ..printer import Printer
from ..trace import BadTrace, Trace, as_json, read_trace
from .batch_lines import LONGEST_LINE, BadLine, answer_lines

__all__ = ["read_line", "run_batch"]

_FIELDS = ("tool", "args", "said", "urls", "seen", "workspace")
_TOKEN = regex(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]')


async def run_batch(options: Options, printer: Printer) -> Exit:
    """Answer every line; the exit code is 2 if one of them was not an object.

    Raises:
        CliError: the lines cannot be read, or the configuration cannot be used.
    """
    dry = DryRun(begin(options, works=False), Runs(options.rung) if options.rung else None)
    return await answer_lines(options.batch or "-", printer, partial(_answered, dry))


async def _answered(dry: DryRun, raw: bytes) -> Mapping[str, Json]:
    asked, notes = read_line(raw)
    try:
        if isinstance(asked, Trace):
            return as_json(asked, [one.as_json() for one in await dry.follow(asked)])
        answer = (await dry.judge(asked)).as_json()
    except ValueError as error:
        raise BadLine(f"workspace: {error}") from error
    except Exception as error:
        # Whatever one line runs into, the others are answered.
        raise BadLine(f"judging failed ({type(error).__name__}); the call is denied") from error
    return {**answer, "warnings": list(notes)} if notes else answer


def read_line(raw: bytes) -> tuple[DryRunCall | Trace, tuple[str, ...]]:
    """Read one line, and what there is to say about its fields.

    Raises:
        BadLine: it is no JSON object, or a field is not what it must be.
    """
    if len(raw) > LONGEST_LINE:
        raise BadLine(f"the line is longer than {LONGEST_LINE} bytes", is_object=False)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadLine("the line is not UTF-8", is_object=False) from None
    fields = _object(text)
    if "calls" in fields:
        try:
            trace = read_trace(fields)
        except BadTrace as error:
            raise BadLine(str(error)) from error
        return trace, trace.notes
    notes = tuple(_unknown_fields(fields))
    return DryRunCall(
        tool=_text(fields, "tool"),
        arguments=_arguments(fields),
        person_words=_text(fields, "said", ""),
        urls=tuple(_texts(fields, "urls")),
        seen=frozenset(map(_origin, _texts(fields, "seen"))),
        workspace=_text(fields, "workspace", "") or None,
    ), notes


class _Twice(ValueError):
    """An object in the line names a key twice."""


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except (RecursionError, _Twice):
        # Only arguments may be like that: they are judged as they were written.
        return _with_raw_arguments(text)
    except ValueError:
        raise BadLine("the line is not JSON", is_object=False) from None
    if not isinstance(found, dict):
        raise BadLine("the line is not a JSON object", is_object=False)
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Twice
    return found


def _with_raw_arguments(text: str) -> dict[str, object]:
    """Read a line whose arguments are too deep or ambiguous to be parsed; they stay text."""
    span = _value_span(text, "args")
    if span is None:
        raise BadLine("the line names a key twice, or is nested too deep", is_object=text.lstrip()[:1] == "{")
    start, end = span
    try:
        found = json.loads(f"{text[:start]}null{text[end:]}", object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise BadLine("the line names a key twice, or is not JSON") from None
    return {**found, "args": text[start:end]}


def _value_span(text: str, key: str) -> tuple[int, int] | None:
    """Return where the value of a key of the outermost object begins and ends."""
    depth, start, last = 0, -1, ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if depth == 1 and start < 0 and word == ":" and last == f'"{key}"':
            start = token.end()
        elif word in "[{":
            depth += 1
        elif word in "]}":
            depth -= 1
        if start >= 0 and ((depth == 1 and word == ",") or depth == 0):
            return start, token.start()
        last = word
    return None


def _unknown_fields(fields: Iterable[str]) -> Iterable[str]:
    """Yield a note on each field nobody knows; one that looks like a known one is a mistake."""
    for name in fields:
        if name in _FIELDS:
            continue
        near = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.7)
        if near:
            raise BadLine(f"there is no field {name[:64]!r}; did you mean {near[0]!r}?")
        yield f"the field {name[:64]!r} is not known and was passed over"


def _text(fields: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise BadLine(f"{name}: expected a string" if name in fields else f"{name} is missing")
    return value


def _texts(fields: Mapping[str, object], name: str) -> list[str]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise BadLine(f"{name}: expected a list of strings")
    return value


def _arguments(fields: Mapping[str, object]) -> str:
    if "args" not in fields:
        raise BadLine("args is missing")
    value = fields["args"]
    return value if isinstance(value, str) else json.dumps(value)


def _origin(name: str) -> Origin:
    if name not in SEEN:
        raise BadLine(f"seen: expected {', '.join(SEEN)}")
    return Origin(name)
