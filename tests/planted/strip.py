"""Wrong: only the colours are taken out."""

import re

from leeward.security.filters import Screened, Source


def strip(screened: Screened, source: Source) -> Screened:
    return Screened(re.sub(r"\x1b\[[0-9;]*m", "", screened.text), screened.notices)
