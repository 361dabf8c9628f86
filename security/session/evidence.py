"""What stands in the record of a decision, so that it can be explained and made again? Values only.

They hold texts as they may be kept: redacted and bounded. How they come about stands in `record.py`,
how an Action is made of them again in `reread.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..kinds import Json

__all__ = ["Part", "Reading", "Said"]


@dataclass(frozen=True, slots=True)
class Said:
    """The word of one gate: `allow`, `ask` or `deny`.

    `reason` is the sentence of a Deny or the question of an Ask. `where` is the file and line of the
    permission rule that spoke. `force`, `own_rule`, `suggestion` and `facts` are as in the verdict.
    """

    gate: str
    word: str
    rule: str = ""
    reason: str = ""
    where: str = ""
    suggestion: str = ""
    force: bool = False
    own_rule: bool = False
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One string of a call as one reader took it: an atom, as it was shown.

    `pointer` is a JSON pointer into the arguments. Of a path, `real` is where it lies if that is
    elsewhere, and `mark` the keyed hash of what stood there when a change of it was shown. `unread`
    says why it could not be read; `text` is then as it came. `declared` is False for what an argument of
    no declared kind could be, too; `only_read` is as in the atom.
    """

    kind: str
    pointer: str
    text: str
    real: str = ""
    unread: str = ""
    declared: bool = True
    mark: str = ""
    only_read: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A call as it was read.

    `effects` are those of this call, `declared` those of its tool (None: there is no such tool), `level`
    and `source` what the tool declared. `looked_up` holds what the machine was asked about command
    lines. `problems` are (pointer, message, category). `hidden` are the pointers of the values that do
    not stand in the record as they were, "" for all; `nearest` is the tool that may have been meant.
    """

    effects: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None
    level: str = ""
    source: str = ""
    parts: tuple[Part, ...] = ()
    looked_up: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[tuple[str, str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    nearest: str = ""
