"""Wrong: each piece is looked at by itself, and known values only as they are."""

import re

from leeward.security.filters import Screened, Source

PIECE = 16


def redact(screened: Screened, source: Source) -> Screened:
    out = []
    for start in range(0, len(screened.text), PIECE):
        piece = screened.text[start : start + PIECE]
        for secret in source.secrets:
            piece = piece.replace(secret, "[REDACTED:known-secret:0000]")
        out.append(re.sub(r"(sk-|ghp_|AKIA)\w+", "[REDACTED:key:0000]", piece))
    return Screened("".join(out), screened.notices)
