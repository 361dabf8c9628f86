"""What of a judgement is written down: from decisions and results to events.

Every text passes `redaction.py` on its way: secrets are masked and what is long is cut before anything is
hashed or written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache, partial
from itertools import islice

from ..action import MAX_NAME, thaw
from ..call import Action, Asker, Atom, Status, ToolResult
from ..command import CommandFacts, CommandLine
from ..kinds import Effect, Json, Kind, Unreadable
from ..outcome import Category
from ..paths import ResolvedPath
from ..permissions import APPROVAL, Always, Asks, granted_by, grants_behind, proposed_grants
from ..session import ActionRecord, Asked, AtomRecord, Decided, Finished, GateVerdict, Session
from ..trust import TrustLevel
from ..verdict import Allow, Ask, Decision, Deny, GateWord
from .redaction import MASKED, RedactedArguments, redact_arguments

__all__ = ["asked_event", "decided_event", "declined_event", "finished_event", "words_of"]

_MOST_PARTS = 200
_MOST_FACTS = 10
_MOST_PROBLEMS = 20
_LONGEST_PART = 4096
_LONGEST_LOOKED_UP = 32 * 1024
_AS_WRITTEN = frozenset({Kind.TEXT, Kind.SECRET, Kind.UNDECLARED})


def asked_event(session: Session, action: Action, asks: Asks) -> Asked:
    """Return the event of a call that waits for a person."""
    questions = tuple((gate, ask.question) for gate, ask in asks)
    return Asked(session.now, action.call.id, _tool(action), session.keyed(action.digest), questions)


def decided_event(
    session: Session, action: Action, decision: Decision, approver: str, waited: float = 0.0
) -> Decided:
    """Return the event of a decision: allowed if nothing was denied, whoever answered the Asks.

    Who said yes to what changed meanwhile is named, too: it is no refusal of what the tool or model did.
    """
    judged = replace(_judged(session, action, decision), waited=round(waited, 3))
    if decision.denial is None:
        grants = grants_behind(decision.asks, action, session)
        return replace(judged, allowed=True, approver=approver, grants=grants)
    gate, denial = decision.denial
    return replace(
        judged,
        gate=gate,
        rule=denial.rule,
        code=denial.code,
        reason=denial.reason,
        category=denial.category,
        approver=approver if gate == APPROVAL else "",
    )


def declined_event(
    session: Session, action: Action, decision: Decision, left: Asks, who: str, at: float | None = None
) -> Decided:
    """Return the event of a call whose open questions, `left`, found no yes; `who` may be "nobody".

    `session` is the one that was judged by, `at` when the answer came, or when it was clear that none would.
    """
    gate, ask = left[0]
    ended = session.now if at is None else at
    return replace(
        _judged(session, action, decision),
        at=ended,
        waited=round(ended - session.now, 3),
        gate=gate,
        rule=ask.rule,
        code="INPUT_REQUIRED",
        reason=ask.question,
        category=Category.CONFIRMATION_REQUIRED,
        approver=who,
    )


def _judged(session: Session, action: Action, decision: Decision) -> Decided:
    """Return what every decision has in common, as one that allows nothing."""
    kept = redact_arguments(action, session)
    trust, trust_from = _trust(action, session)
    asker = action.call.asker
    return Decided(
        at=session.now,
        call=action.call.id,
        tool=_tool(action),
        digest=session.keyed(action.digest),
        allowed=False,
        arguments=kept.arguments,
        words=tuple(_said(word, session, kept) for word in decision.words),
        judged=session.now,
        asker=asker.value,
        model=session.model if asker is Asker.MODEL else "",
        labels=tuple(sorted(session.labels)),
        trust=trust,
        trust_from=kept.text(trust_from),
        always=_always(decision, action, session, kept),
        reading=_reading(action, kept, session),
    )


def words_of(decision: Decision, action: Action, session: Session) -> tuple[GateVerdict, ...]:
    """Return what every gate said, as it goes on record."""
    kept = redact_arguments(action, session)
    return tuple(_said(word, session, kept) for word in decision.words)


def _trust(action: Action, session: Session) -> tuple[str, str]:
    """Return how far a tool was trusted, and by whose word."""
    if action.spec is None:
        return "", ""
    said = session.level_of(action.spec.name) if action.spec.name not in session.capped else None
    level = TrustLevel(session.trust_in(action.spec)).name.lower()
    if said is not None:
        return level, said[1]
    configured = {action.spec.name, action.spec.source} & session.policy.levels.keys()
    return level, "the configuration" if configured else action.spec.source


def _always(
    decision: Decision, action: Action, session: Session, kept: RedactedArguments
) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the rules that would have answered every question; none where no rule can, or it is refused."""

    def short(text: str | None) -> str | None:
        return None if text is None else kept.text(text, _LONGEST_PART)

    if decision.denial is not None or not decision.asks:
        return ()
    rules = proposed_grants(decision.asks, action, session) or ()
    granted = granted_by(Always(rules), decision.asks, session.policy)
    return tuple((one.tool, short(one.match), short(one.folder)) for one in granted)


def _said(word: GateWord, session: Session, kept: RedactedArguments) -> GateVerdict:
    """Return the word of a gate, and where the rule stands if it is one of the person's."""
    rule = kept.text(word.verdict.rule)
    match word.verdict:
        case Allow():
            return GateVerdict(word.gate, "allow", rule)
        case Ask() as ask:
            said = GateVerdict(word.gate, "ask", rule, ask.question, force=ask.force, own_rule=ask.own_rule)
        case Deny() as denial:
            said = GateVerdict(word.gate, "deny", rule, denial.reason)
    told = word.verdict
    facts = tuple((kept.text(name), kept.text(value)) for name, value in islice(told.facts, _MOST_FACTS))
    suggestion = kept.text(told.suggestion) if told.suggestion is not None else ""
    return replace(said, where=_where(told.rule, session), suggestion=suggestion, facts=facts)


def _where(cited: str, session: Session) -> str:
    rules = (rule.where for rule in session.policy.rules if rule.where)
    return next((where for where in rules if cited.endswith(f" at {where}")), "")


def _reading(action: Action, kept: RedactedArguments, session: Session) -> ActionRecord:
    """Return what a call was read as, so that it can be judged again without looking anything up."""
    spec, atoms = action.spec, action.atoms
    parts = tuple(_part(atom, kept, session) for atom in atoms[:_MOST_PARTS])
    looked_up, lost = _looked_up(action, kept)
    lost += [part.pointer for part in parts if part.kind == Kind.PATH and _is_altered(part)]
    is_whole = [part.pointer for part in parts] == [atom.pointer for atom in atoms]
    everything = [] if is_whole else [""]
    problems = (
        (kept.text(problem.pointer), kept.text(problem.message), str(problem.category))
        for problem in action.problems[:_MOST_PROBLEMS]
    )
    return ActionRecord(
        effects=_names(action.effects),
        declared=_names(spec.effects) if spec is not None else None,
        level=spec.level.name.lower() if spec is not None else "",
        source=kept.text(spec.source) if spec is not None else "",
        parts=parts,
        looked_up=looked_up,
        problems=tuple(problems),
        hidden=tuple(dict.fromkeys((*kept.masked, *kept.cut, *lost, *everything))),
        nearest=action.nearest or "",
    )


@cache
def _names(effects: Effect) -> tuple[str, ...]:
    return tuple(str(effect.name).lower() for effect in effects)


def _part(atom: Atom, kept: RedactedArguments, session: Session) -> AtomRecord:
    """Return an atom as it is kept; of what was masked, no other spelling."""
    pointer = kept.text(atom.pointer)
    part = AtomRecord(str(atom.kind), pointer, "", declared=atom.declared, only_read=atom.only_read)
    if atom.kind in _AS_WRITTEN:
        return part
    said = partial(_said_of, kept, is_masked=kept.is_masked(atom.pointer))
    match atom.canonical:
        case Unreadable(reason=reason):
            return replace(part, text=said(atom.raw), unread=reason)
        case ResolvedPath(text=text, real=real, state=state):
            mark = session.keyed(state.mark) if state is not None and state.mark else ""
            return replace(part, text=said(text), real=said(real) if real != text else "", mark=mark)
        case other:
            return replace(part, text=said(str(other)))


def _said_of(kept: RedactedArguments, text: str, *, is_masked: bool) -> str:
    return MASKED if is_masked else kept.text(text, _LONGEST_PART)


def _is_altered(part: AtomRecord) -> bool:
    """Whether the place of a file is not there as it was: it is needed as it was, to be judged again."""
    return any(len(text) > _LONGEST_PART or "[redacted" in text for text in (part.text, part.real))


def _looked_up(action: Action, kept: RedactedArguments) -> tuple[Mapping[str, Json], list[str]]:
    """Return what the machine was asked about the command lines; if it is too much, their pointers."""
    commands = action.of_kind(Kind.COMMAND)
    facts = next(filter(None, map(_facts_of, commands)), None)
    if facts is None:
        return {}, []
    tables = ((field.name, thaw(getattr(facts, field.name))) for field in fields(facts))
    known = {name: table for name, table in tables if table}
    text = json.dumps(known, ensure_ascii=False)
    if len(text) > _LONGEST_LOOKED_UP or kept.text(text, _LONGEST_LOOKED_UP) != text:
        return {}, [atom.pointer for atom in commands]
    return known, []


def _facts_of(atom: Atom) -> CommandFacts | None:
    return atom.canonical.facts if isinstance(atom.canonical, CommandLine) else None


def finished_event(
    session: Session, action: Action, result: ToolResult, seconds: float, detail: str = ""
) -> Finished:
    """Return the event of a call that came to its end."""
    shown = result.shown.encode("utf-8", "replace")
    return Finished(
        at=session.now,
        call=action.call.id,
        tool=_tool(action),
        digest=session.keyed(action.digest),
        status=Status.STARTED if result.goes_on else result.outcome.status,
        category=result.outcome.category,
        exit_code=result.outcome.exit_code,
        result=session.keyed(hashlib.sha256(shown).hexdigest()),
        size=len(shown),
        overflow=result.overflow_id,
        seconds=round(seconds, 6),
        detail=detail,
        truncated=result.truncated,
    )


def _tool(action: Action) -> str:
    """The tool's name; of one that no tool can have, as much as identifies the attempt."""
    return action.call.tool[:MAX_NAME].encode("utf-8", "replace").decode()
