"""Wrong: whatever follows the word for a secret is one, and what has no such word right before it is none."""

import re


def redact_text(text: str) -> str:
    return re.sub(r"(?i)(password|token|secret|key)(\W+)(\w{6,})", r"\1\2[REDACTED:secret:0000]", text)
