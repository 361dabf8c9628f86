"""Exit codes, and the JSON every command answers with."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.exits import CliError, CommandRun, Exit, envelope, error_object, to_json

CODES = {
    "SUCCESS": 0,
    "GENERAL_ERROR": 1,
    "ARG_ERROR": 2,
    "PARTIAL_FAILURE": 3,
    "PRECONDITION": 4,
    "NOT_FOUND": 5,
    "UNKNOWN_OUTCOME": 6,
    "PERMISSION_DENIED": 7,
    "AUTH_REQUIRED": 8,
    "TIMEOUT": 10,
    "RATE_LIMITED": 11,
    "UNAVAILABLE": 12,
    "SIGINT": 130,
    "SIGTERM": 143,
}


def test_the_codes_are_the_contract() -> None:
    assert {code.name: code.value for code in Exit} == CODES


@pytest.mark.parametrize("code", list(Exit))
def test_ok_follows_from_the_exit_code(code: Exit) -> None:
    answer = json.loads(envelope(code, data={"n": 1}))
    assert answer["ok"] is (code is Exit.SUCCESS)
    assert set(answer) == {"ok", "data", "error", "warnings", "meta"}
    assert (answer["error"] is None) is answer["ok"]
    if not answer["ok"]:
        assert answer["error"]["code"] == code.name
        assert answer["error"]["message"]
        assert answer["error"]["phase"]
        assert answer["error"]["retryable"] is (code in {Exit.TIMEOUT, Exit.RATE_LIMITED, Exit.UNAVAILABLE})


def test_a_success_carries_no_error() -> None:
    with pytest.raises(ValueError, match="exit code of a failure"):
        envelope(Exit.SUCCESS, error={"code": "X"})


def test_meta_has_whole_milliseconds_and_an_id_of_its_own() -> None:
    first, second = (json.loads(envelope(Exit.SUCCESS))["meta"] for _ in range(2))
    assert isinstance(first["duration_ms"], int)
    assert first["request_id"] != second["request_id"]
    request = CommandRun()
    meta = json.loads(envelope(Exit.SUCCESS, meta=request.meta(model="offline")))["meta"]
    assert meta["request_id"] == request.id
    assert meta["model"] == "offline"
    assert 0 <= meta["duration_ms"] < 60_000


def test_nothing_that_is_added_to_meta_displaces_what_is_measured() -> None:
    request = CommandRun()
    assert request.meta(duration_ms="soon", request_id=None)["request_id"] == request.id


def test_a_cli_error_becomes_the_error_object() -> None:
    error = CliError(Exit.NOT_FOUND, "TOOL_NOT_FOUND", "no such tool", nearest="read", phase="lookup")
    assert str(error) == "no such tool"
    expected = {
        "code": "TOOL_NOT_FOUND",
        "message": "no such tool",
        "phase": "lookup",
        "retryable": False,
        "nearest": "read",
    }
    assert error.error() == expected
    assert json.loads(envelope(error.exit, error=error))["error"] == expected
    assert json.loads(envelope(Exit.NOT_FOUND, error=expected))["error"] == expected


def test_an_incomplete_error_object_is_completed() -> None:
    answer = json.loads(envelope(Exit.TIMEOUT, error={"code": "TURN_TIMEOUT"}))
    assert answer["error"] == {**error_object(Exit.TIMEOUT), "code": "TURN_TIMEOUT"}


class _Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("\x1b[31m", '"\\u001b[31m"'),
        ("\x7f", '"\\u007f"'),
        ("\x9b", '"\\u009b"'),
        ("\u202e", '"\\u202e"'),
        ("\ud800", '"\\ud800"'),
        ("\u2028", '"\\u2028"'),
        ("a\nb\t", '"a\\nb\\t"'),
        ("\\u007f", '"\\\\u007f"'),
        (math.inf, "null"),
        ([math.nan, 1.5], "[null, 1.5]"),
        (_Colour.RED, '"red"'),
        (Exit.TIMEOUT, "10"),
        (MappingProxyType({1: (1, 2)}), '{"1": [1, 2]}'),
        (frozenset({"b", "a"}), '["a", "b"]'),
        (PurePosixPath("/x"), '"/x"'),
        (b"\xffok", '"\\\\xffok"'),
        (None, "null"),
        (True, "true"),
    ],
)
def test_values_are_written_plainly(value: object, written: str) -> None:
    assert to_json(value) == written


_ANY_TEXT = st.text(st.characters(exclude_categories=()))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(_JSON, _ANY_TEXT)
@example({"\x1b]0;x\x07": "\x7f\x00\x9b"}, "\ud800\udfff")
def test_no_control_byte_comes_out_and_nothing_is_lost(data: object, text: str) -> None:
    error = CliError(Exit.GENERAL_ERROR, "X", text, input_value=text)
    line = envelope(Exit.GENERAL_ERROR, data, error, [text])
    assert all(" " <= char <= "~" for char in line)
    answer = json.loads(line)
    assert answer["data"] == json.loads(json.dumps(data))
    assert answer["error"]["input_value"] == json.loads(json.dumps(text))
    assert answer["warnings"] == [json.loads(json.dumps(text))]


def test_only_the_standard_library_is_imported() -> None:
    program = (
        "import sys; before = set(sys.modules); import leeward.runtime.exits;"
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    brought = set(json.loads(result.stdout.replace("'", '"')))
    assert brought - set(sys.stdlib_module_names) <= {"leeward"}
