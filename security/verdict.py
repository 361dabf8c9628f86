"""The three answers of a gate, Allow, Ask and Deny, and how they combine.

The first Deny decides; else every Ask is gathered; else it is allowed. Deny beats Ask beats Allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from .call import Atom
from .kinds import Json, Runs
from .lazy import dataclass
from .outcome import Category
from .url import Provenance, Url

__all__ = ["Allow", "Ask", "Decision", "Deny", "GateAnswer", "Grounds", "Verdict"]


Grounds: TypeAlias = tuple[tuple[Url, Provenance], ...]
"""URLs of a call, each with how the entry it rests on became known."""


@dataclass(frozen=True, slots=True)
class Allow:
    """No objection, as long as command lines run in nothing weaker than `runs` says.

    `rule` is "off" when the person switched the gate off, else empty. `grounds` says how the URLs of the call
    became known, where the gate looked that up.
    """

    rule: str = ""
    grounds: Grounds = field(default=(), compare=False)
    runs: Runs = Runs.REAL


@dataclass(frozen=True, slots=True)
class Ask:
    """A person must say yes.

    `question` is in our words; the canonical values it is about are in `about` (empty: the tool
    as such), and an answer given in advance must cover all of them. `force` marks an Ask that only
    a person present can answer; `own_rule` one that the person's own `ask` rule put, which no allow
    rule outweighs; `by_name` one that only answers which name such files by their own words cover, and
    no autonomy. With `or_real` a person may also answer that command lines run plainly for real. `facts`
    are named values to show beside the question, `suggestion` what would pass
    without one, `grounds` and `runs` are as in `Allow`.
    """

    rule: str
    question: str
    about: tuple[Atom, ...] = ()
    force: bool = False
    own_rule: bool = False
    by_name: bool = False
    facts: tuple[tuple[str, str], ...] = ()
    suggestion: str | None = None
    grounds: Grounds = field(default=(), compare=False)
    runs: Runs = Runs.REAL
    or_real: bool = False


@dataclass(frozen=True, slots=True)
class Deny:
    """No, even to the person.

    `reason` is in our words and quotes nothing; values a model or a page wrote are in `facts`
    and are fenced or escaped wherever they are shown. `advice` is the reason for the person, with what
    to do, where `reason` is a fixed phrase of the contract. `suggestion` is a value that would pass.
    `detail` goes into the JSON error object as it is.
    """

    rule: str
    reason: str
    code: str = "PERMISSION_DENIED"
    category: Category = Category.POLICY_BLOCKED
    suggestion: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    detail: Mapping[str, Json] = field(default_factory=dict)
    advice: str = ""


Verdict: TypeAlias = Allow | Ask | Deny


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The answer of one gate."""

    gate: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Decision:
    """The answers of all gates, in the order of `GATES`, and what follows from them."""

    answers: tuple[GateAnswer, ...]

    @property
    def denial(self) -> tuple[str, Deny] | None:
        """The first gate that denied, and its answer."""
        for answer in self.answers:
            if isinstance(answer.verdict, Deny):
                return answer.gate, answer.verdict
        return None

    @property
    def asks(self) -> tuple[tuple[str, Ask], ...]:
        """Every question, in order; they matter only where nothing was denied."""
        return tuple(
            (answer.gate, answer.verdict) for answer in self.answers if isinstance(answer.verdict, Ask)
        )

    @property
    def grounds(self) -> Mapping[Url, Provenance]:
        """How each URL of an allowed call became known, so that its record need not look it up."""
        allowing = (answer.verdict for answer in self.answers if not isinstance(answer.verdict, Deny))
        return {url: how for verdict in allowing for url, how in verdict.grounds}

    @property
    def runs(self) -> Runs:
        """The strictest that any gate wants command lines to run in."""
        wanted = (answer.verdict.runs for answer in self.answers if not isinstance(answer.verdict, Deny))
        return max(wanted, key=lambda runs: runs.strictness, default=Runs.REAL)

    @property
    def verdict(self) -> Verdict:
        """The answer that decides: the first Deny, else the first Ask, else Allow."""
        if self.denial is not None:
            return self.denial[1]
        return self.asks[0][1] if self.asks else Allow()

    @property
    def gate(self) -> str | None:
        """The gate whose answer decides; None if no gate objected."""
        if self.denial is not None:
            return self.denial[0]
        return self.asks[0][0] if self.asks else None
