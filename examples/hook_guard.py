"""A hook for `before_call`: nobody changes what lies below migrations/, and big writes are asked about.

It reads one JSON object from standard input and prints one. `{}` is no objection; a hook cannot allow.
"""

from __future__ import annotations

import json
import sys

_LARGE = 20_000
_CHANGING = {"create", "write"}


def answer(call: dict) -> dict:
    """Return what is to be said of a call."""
    paths = [act["is"] for act in call["acts"] if act["kind"] == "path"]
    below = [path for path in paths if path.startswith(f"{call['workspace']}/migrations/")]
    if below and _CHANGING & set(call["effects"]):
        return {"decision": "deny", "reason": "migrations are written by hand here"}
    if len(str(call["arguments"])) > _LARGE:
        return {"decision": "ask", "reason": "this writes a lot at once"}
    return {}


json.dump(answer(json.load(sys.stdin)), sys.stdout)
