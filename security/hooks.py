"""Say what the person's hooks are shown of a call, before it runs and once it is over, and what they note.

Both are JSON objects made from the frozen Action. Arguments that a tool declared secret are masked; the rest
is whole, for a hook that judged a part of a call would have judged another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from .action import shown_arguments, thaw
from .call import Action, Atom, ToolResult
from .filters import Source
from .kinds import HookAnswer, Json, Kind
from .paths import ResolvedPath
from .policy import NOT_HEARD
from .ports import Observer
from .record import tell
from .refusal import caught
from .session import Session
from .text import visible
from .trust import Origin
from .verdict import Decision

__all__ = [
    "AFTER_CALL",
    "BEFORE_CALL",
    "HOOK_SCHEMA",
    "call_report",
    "has_unheard",
    "hook_question",
    "with_notices",
]

HOOK_SCHEMA = 1
"""The version of what hooks are shown."""

BEFORE_CALL, AFTER_CALL = "before_call", "after_call"
"""The events of a call."""

_LONGEST_RESULT = 64 * 1024


def has_unheard(decision: Decision) -> bool:
    """Whether all that speaks against a call is that a hook was not asked about it yet."""
    return decision.denial is not None and decision.denial[1].rule == NOT_HEARD


def hook_question(action: Action, decision: Decision, session: Session) -> Mapping[str, Json]:
    """Return what hooks are asked about a call that the other gates allow or ask about."""
    return {
        **_call(action, session, BEFORE_CALL),
        "decision": "ask" if decision.asks else "allow",
        "questions": [{"gate": gate, "question": ask.question} for gate, ask in decision.asks],
        "labels": sorted(session.labels),
    }


def call_report(action: Action, result: ToolResult, seconds: float, session: Session) -> Mapping[str, Json]:
    """Return what hooks are shown of a call that is over; of its result, so much as the person may see."""
    outcome = result.outcome
    return {
        **_call(action, session, AFTER_CALL),
        "status": outcome.status.value,
        "category": outcome.category.value if outcome.category is not None else None,
        "gate": outcome.gate,
        "exit_code": outcome.exit_code,
        "seconds": round(seconds, 3),
        "result": result.shown[:_LONGEST_RESULT],
        "is_whole": len(result.shown) <= _LONGEST_RESULT,
    }


async def with_notices(
    result: ToolResult,
    answers: Iterable[HookAnswer],
    admit: Callable[[str, Source], Awaitable[str]],
    observer: Observer,
) -> ToolResult:
    """Return a result with what hooks noted on its call, fenced: a hook may quote what it was shown."""
    for answer in answers:
        if answer.notice:
            source = Source("hook", Origin.WORKSPACE, answer.hook)
            admitted = await caught(admit(answer.notice, source), lambda _: "a notice of a hook is withheld")
            tell(partial(observer.alert, f"hook {answer.hook}: {visible(answer.notice)}"))
            result = replace(result, text=f"{result.text}\n{admitted}")
    return result


def _call(action: Action, session: Session, event: str) -> Mapping[str, Json]:
    return {
        "schema": HOOK_SCHEMA,
        "event": event,
        "session": session.id,
        "workspace": session.policy.workspace,
        "call": action.call.id,
        "tool": action.call.tool,
        "asker": action.call.asker.value,
        "arguments": thaw(shown_arguments(action)),
        "effects": [str(effect.name).lower() for effect in action.effects],
        "acts": [_act(atom) for atom in action.atoms if atom.kind not in _WORDS],
        "of": action.of.call.id if action.of is not None else None,
    }


_WORDS = frozenset({Kind.TEXT, Kind.SECRET, Kind.UNDECLARED})


def _act(atom: Atom) -> Mapping[str, Json]:
    """Return what a call does with one of its arguments, in canonical form; of a path, where it lies."""
    place = atom.canonical
    real = {"real": place.real} if isinstance(place, ResolvedPath) else {}
    return {"kind": str(atom.kind), "at": atom.pointer, "is": atom.shown, **real}
