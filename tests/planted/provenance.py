"""Wrong: parts of tokens do, a result vouches for its call, a full index for all, a no ends at its line."""

from dataclasses import replace

from leeward.security.provenance import TokenIndex, Values
from leeward.security.provenance import values as right


def given_by_substring(text: str, value: str) -> bool:
    return value.casefold() in text.casefold()


def text_marks(text: str, key: bytes, echoes: str = "") -> str:
    return right.text_marks(text, key)


class Generous(TokenIndex):
    def find(self, run):
        found = super().find(run)
        return found or (next(self.sightings(), None) if self.is_full else None)


def full(values: Values) -> Values:
    return replace(values, seen=Generous(values.seen._log, values.seen._length, len(values.seen)))


def affirmed_by_line(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "not" not in line and "never" not in line)
