"""Have the model answer in a JSON Schema of the person's, and check that it did.

The schema goes along with the words as text of ours: it is not the person's words, so it grounds no URL. The
report of a wrong answer names places and rules, never values, which may be anybody's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

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
_FENCED = re.compile(r"^```(?:json)?[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
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
        blocks = _FENCED.findall(answer)
        try:
            value: Json = json.loads(blocks[0] if len(blocks) == 1 else answer, parse_constant=_refuse)
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
        schema = json.loads(raw.decode("utf-8-sig"))
        if not isinstance(schema, dict):
            raise _unusable(path, "a JSON Schema is an object")
        inner_references_only(schema)
        return AnswerSchema(json.dumps(schema, ensure_ascii=False), schema_validator(schema))
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unusable(path, str(error)) from error


def _place(steps: Iterable[str | int]) -> str:
    """Return a JSON pointer; a name that could say something to a model is not shown."""
    return "/" + "/".join(str(step) if _PLAIN.fullmatch(str(step)) else "…" for step in steps)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _unusable(path: Path, why: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "ARG_ERROR", f"--output-schema {path}: {why}")
