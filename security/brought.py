"""What does an executor bring back? A noun of `call.py`, apart from it so that a failure can carry it."""

from __future__ import annotations

from dataclasses import dataclass

from .trust import Origin

__all__ = ["Output"]


@dataclass(frozen=True, slots=True)
class Output:
    """What an executor brings back, as it is; the pipeline screens it.

    `origin` is derived from the tool's effects where it is None. `exit_code` is a program's own; not
    0 is a result, not an error. `notices` are sentences of ours about the text, and `facts` are
    values beside it that somebody else chose (a final URL), each with a name of ours. `links` are
    the canonical URLs that an opened page refers to; only a trusted tool's become known by that.

    `emitted` tells that the text is what was handed to `Cleared.emit`, all of it; `text` is not looked
    at then. So however much it was, nobody needs to hold it. `goes_on` tells that the call is over and what
    it began is not; who began it tells of the end.
    """

    text: str
    origin: Origin | None = None
    exit_code: int | None = None
    notices: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    links: tuple[str, ...] = ()
    emitted: bool = False
    goes_on: bool = False
