"""Build the audit events of decisions and results.

Every text passes `redaction.py` on its way: secrets are masked and what is long is cut before anything is
hashed or written.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from ..action import MAX_NAME, texts_of
from ..call import AGAIN, Action, Asker, Status, ToolResult
from ..checks import OUTWARD, let_out, sent_to
from ..kinds import Effect, Kind, Runs
from ..outcome import Category
from ..paths import ResolvedPath
from ..permissions import (
    APPROVAL,
    Always,
    Asks,
    granted_by,
    grants_behind,
    lent_names,
    lent_to,
    narrowed,
    open_hosts,
    proposed_grants,
)
from ..provenance import path_marks, used_marks
from ..session import LONGEST_PART, ActionRecord, Asked, Decided, Finished, GateVerdict, Session, Use
from ..trust import TrustLevel
from ..verdict import Decision
from .redaction import RedactedArguments, redact_arguments

__all__ = ["asked_event", "decided_event", "declined_event", "finished_event", "words_of"]


def asked_event(session: Session, action: Action, asks: Asks) -> Asked:
    """Return the event of a call that waits for a person."""
    questions = tuple((gate, ask.question) for gate, ask in asks)
    return Asked(
        session.now, action.call.id, _tool(action), session.keyed(action.digest), questions, _of(action)
    )


def decided_event(
    session: Session,
    action: Action,
    decision: Decision,
    approver: str,
    waited: float = 0.0,
    *,
    runs: Runs = Runs.REAL,
    covers: str = "",
) -> Decided:
    """Return the event of a decision: allowed if nothing was denied and every Ask was answered with yes.

    `runs` and `covers` are as in `Judgement`; only what runs for real is covered.

    If a yes lapsed meanwhile, its author is named, too: it is no refusal of what the tool or model did.
    """
    judged = replace(_judged(session, action, decision), waited=round(waited, 3))
    if decision.denial is None:
        session = narrowed(session, action)
        grants = grants_behind(decision, action, session)
        lent = lent_to(action, session.policy) if runs is Runs.REAL else ()
        use, overlay = _use_of(action, runs, session), runs is Runs.REAL and bool(covers or lent)
        hosts = lent[0][0].hosts if lent else _hosts_of(action, decision, session)
        allowed = replace(
            judged, allowed=True, approver=approver, grants=grants, lends=lent_names(lent, action)
        )
        return replace(allowed, runs=runs, overlay=overlay, hosts=hosts, use=use)
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


def _hosts_of(action: Action, decision: Decision, session: Session) -> tuple[str, ...]:
    """Return the rules for what a call reaches; another program has its own, and none that commands have."""
    if action.spec is not None and action.spec.definition:
        return action.spec.hosts
    return open_hosts(decision.asks, session) if action.effects & Effect.EXECUTE else ()


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
        words=_words(decision, session, kept),
        judged=session.now,
        asker=asker.value,
        model=session.model if asker is Asker.MODEL else "",
        labels=tuple(sorted(session.labels)),
        trust=trust,
        trust_from=kept.text(trust_from),
        always=_always(decision, action, session, kept),
        reading=ActionRecord.of(action, kept, session.keyed),
        of=_of(action),
        rung=session.policy.sandbox.rung if action.may_be_tried or action.wished else Runs.REAL,
    )


def _use_of(action: Action, runs: Runs, session: Session) -> Use | None:
    """Return what a call that may run uses, writes and runs, None if it does nothing of that."""
    declared = action.spec.effects if action.spec is not None else Effect.ALL
    executes = Effect.EXECUTE in declared or bool(action.of_kind(Kind.COMMAND))
    if action.call.asker is Asker.PERSON:
        return Use(executes=True) if executes else None
    written: list[str] = []
    if action.effects & (Effect.WRITE | Effect.CREATE):
        places = (atom.canonical for atom in action.of_kind(Kind.PATH) if not atom.only_read)
        written = [place.real for place in places if isinstance(place, ResolvedPath)]
    if Effect.EXECUTE in action.effects and runs is Runs.REAL:
        written.append(session.policy.workspace)
    key = session.values_key
    values = used_marks(texts_of(action), session.values, key)
    out = let_out(action, session) if action.effects & OUTWARD else ()
    sent = sent_to(action, session)
    use = Use(values, *path_marks(written, key), executes, out, sent)
    return use if values or written or executes or out or sent else None


def words_of(decision: Decision, action: Action, session: Session) -> tuple[GateVerdict, ...]:
    """Return the answer of every gate, as it goes on record."""
    kept = redact_arguments(action, session)
    return _words(decision, session, kept)


def _words(decision: Decision, session: Session, kept: RedactedArguments) -> tuple[GateVerdict, ...]:
    return tuple(GateVerdict.of(answer, kept, session.policy.rules) for answer in decision.answers)


def _trust(action: Action, session: Session) -> tuple[str, str]:
    """Return how far a tool was trusted, and by whose word."""
    if action.spec is None:
        return "", ""
    word = session.word_on(action.spec)
    level = TrustLevel(session.trust_in(action.spec)).name.lower()
    if word is not None:
        return level, word[1]
    configured = {action.spec.name, action.spec.source} & session.policy.levels.keys()
    return level, "the configuration" if configured else action.spec.source


def _always(
    decision: Decision, action: Action, session: Session, kept: RedactedArguments
) -> tuple[tuple[str, str | None, str | None, str | None], ...]:
    """Return the rules that would have answered every question; none where no rule can, or it is refused."""

    def short(text: str | None) -> str | None:
        return None if text is None else kept.text(text, LONGEST_PART)

    if decision.denial is not None or not decision.asks:
        return ()
    rules = proposed_grants(decision.asks, action, session) or ()
    granted = granted_by(Always(rules), decision.asks, action, session.policy)
    return tuple((one.tool, short(one.match), short(one.folder), short(one.command)) for one in granted)


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
        caches=result.caches,
        chars_in=result.sizes[0],
        chars_out=result.sizes[1],
    )


def _of(action: Action) -> str:
    """Return the id of the call whose trial or read-only run an action follows from."""
    if action.wished:
        return action.call.id.removesuffix(AGAIN)
    return "" if action.of is None else action.of.call.id


def _tool(action: Action) -> str:
    """The tool's name; of one that no tool can have, as much as identifies the attempt."""
    return action.call.tool[:MAX_NAME].encode("utf-8", "replace").decode()
