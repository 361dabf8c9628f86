"""Masks the text as it stands: a spelling that JSON reads otherwise gets by, and a mask may break
the JSON.
"""

from __future__ import annotations

from leeward.security.text import redact_text


def at_rest(content, secrets):
    calls = [
        [call_id, name, redact_text(arguments, secrets)] for call_id, name, arguments in content["calls"]
    ]
    return {**content, "text": redact_text(content["text"], secrets), "calls": calls}
