"""Have the model answer in a JSON Schema of the person's, and check that it did.

The schema goes along with the words as text of ours: it is not the person's words, so it grounds no URL. The
report of a wrong answer names places and rules, never values, which may be anybody's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from leeward.security.action import depth_of
from leeward.security.lazy import LazyModule, dataclass
from leeward.tools.declare import inner_references_only, schema_validator

from ..exits import CliError, Exit, Json

if TYPE_CHECKING:
    import jsonschema_rs
else:
    jsonschema_rs = LazyModule("jsonschema_rs")

__all__ = ["REPAIR", "AnswerSchema", "UnfitAnswer", "load_answer_schema"]

REPAIR = "That answer was not accepted. Answer once more, with the JSON value alone."
"""The words of the second turn; the report of what was wrong goes along."""

_LARGEST = 256 * 1024
_FENCE = "```"
_BLANKS = " \t\r"
# The check of the schema gives up at some 250 levels, and printing at some 400.
_DEEPEST = 100
_MOST_DIGITS = 4300
_PLAIN = re.compile(r"[A-Za-z0-9_$.-]{1,60}")
_MOST_PROBLEMS = 10


class UnfitAnswer(Exception):
    """An answer is no JSON, or does not fit the schema; `problems` says where and why, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems: tuple[str, ...] = tuple(problems)

    @property
    def report(self) -> str:
        """What is wrong with the answer, for the model."""
        return "\n".join(("What was wrong:", *(f"- {problem}" for problem in self.problems)))


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The form of the answer that is wanted: the schema's text, and what checks an answer."""

    text: str
    validator: jsonschema_rs.Validator

    @property
    def instruction(self) -> str:
        """What goes along with the person's words."""
        return (
            "The final answer must be one JSON value alone, without a word before or behind it, that this"
            f" JSON Schema accepts:\n{self.text}"
        )

    def read(self, answer: str) -> Json:
        """Return the value that an answer holds: the whole of it, or its only block of code.

        Raises:
            UnfitAnswer: it holds none, or one that does not fit.
        """
        block = _only_block(answer)
        try:
            value: Json = _json_value(answer if block is None else block)
        except (ValueError, RecursionError) as error:
            raise UnfitAnswer([f"it is not one JSON value: {_reason(error)}"]) from None
        errors = islice(self.validator.iter_errors(value), _MOST_PROBLEMS)
        found = [
            f"{_place(error.instance_path)} does not fit {_place(error.schema_path)} of the schema"
            for error in errors
        ]
        if found:
            raise UnfitAnswer(found)
        return value


def load_answer_schema(path: Path) -> AnswerSchema:
    """Read a schema from a file.

    Raises:
        CliError: it cannot be read, is not a JSON Schema, or refers to something outside itself.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise _unusable(path, f"larger than {_LARGEST // 1024} KiB")
        schema = _json_value(raw.decode("utf-8-sig"))
        if not isinstance(schema, dict):
            raise _unusable(path, "a JSON Schema is an object")
        inner_references_only(schema)
        return AnswerSchema(json.dumps(schema, ensure_ascii=False), schema_validator(schema))
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(path, _reason(error)) from error


def _place(steps: Iterable[str | int]) -> str:
    """Return a JSON pointer; a name that could say something to a model is not shown."""
    return "/" + "/".join(str(step) if _PLAIN.fullmatch(str(step)) else "…" for step in steps)


def _only_block(text: str) -> str | None:
    """Return what lies between fences of code, where that is so once; each line is looked at once."""
    found: list[str] = []
    inside: list[str] | None = None
    for line in text.split("\n"):
        bare = line.rstrip(_BLANKS)
        if inside is None and bare in {_FENCE, f"{_FENCE}json"}:
            inside = []
        elif inside is not None and bare == _FENCE:
            found.append("\n".join(inside))
            inside = None
        elif inside is not None:
            inside.append(line)
    return found[0] if len(found) == 1 else None


def _json_value(text: str) -> Any:
    """Return the value of a JSON text, if it can be written as JSON again.

    Raises:
        ValueError, RecursionError: it is not JSON, or what Python reads beyond it.
    """
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    # What is innermost is a level, too.
    if depth_of(text) >= _DEEPEST:
        raise RecursionError
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text in it holds a lone surrogate, half of a character") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number in it is too large")
    return value


def _whole(digits: str) -> int:
    # Python reads and writes no longer ones.
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number in it has more than {_MOST_DIGITS} digits")
    return int(digits)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _unusable(path: Path, why: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "ARG_ERROR", f"--output-schema {path}: {why}")
