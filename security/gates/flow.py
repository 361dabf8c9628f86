"""Ask before a text that was read can lead to an action that others see, or that runs later.

Once this session has read text from the web or an MCP server, which may hold instructions:

1. A call that reaches others is asked about, unless every part of it is the person's (`checks/flowing.py`).
2. So is a change of a file that runs later, or that lies outside the workspace. Other changes are not.

Once it has read a confidential text, sending is asked about; once it has read both, anything that goes out.
An answer in advance counts only for sending after a confidential text alone.
"""

from __future__ import annotations

from ..call import Action, Asker
from ..checks import (
    ACTING,
    OUTWARD,
    carries_out,
    describe_private,
    describe_untrusted,
    foreign_in,
    risky_paths,
    suspicion_note,
)
from ..kinds import Effect, Kind
from ..permissions import JUDGED
from ..policy import FOREIGN, NOT_YOURS
from ..session import Session
from ..trust import Origin
from ..verdict import Allow, Ask, Verdict

__all__ = ["flow"]

_FILES = Effect.READ | Effect.CREATE | Effect.WRITE


def flow(action: Action, session: Session) -> Verdict:
    """Ask about a call that a text may have caused, unless every part of it comes from the person."""
    if action.call.asker is Asker.PERSON:
        return Allow()
    untrusted = session.is_untrusted
    if Origin.SECRET in session.labels and action.effects & OUTWARD and carries_out(action, session):
        return _after_confidential(action, session, untrusted=untrusted)
    if not untrusted or not action.effects & ACTING or action.is_command:
        return Allow()
    if not action.effects & ~_FILES and action.of_kind(Kind.PATH):
        return _of_files(action, session)
    foreign = foreign_in(action, session)
    if not foreign or action.of is not None:
        return Allow()
    facts = (*((str(atom.kind).replace("_", " "), atom.shown) for atom in foreign.places), *foreign.others)
    question = _QUESTION.format(describe_untrusted(session)) + suspicion_note(session)
    if not foreign.others:
        return Ask(FOREIGN, question, foreign.places, force=True, facts=facts)
    return Ask(NOT_YOURS, question, force=True, facts=facts)


_QUESTION = "Is this what you want? {} was read before, and not all of this comes from you."


def _of_files(action: Action, session: Session) -> Verdict:
    risky = risky_paths(action, session)
    if not risky:
        return Allow()
    question = (
        "Change a file that runs later, or lies outside the workspace?"
        f" {describe_untrusted(session)} was read before."
    )
    question += suspicion_note(session)
    return Ask("runs_later", question, risky, force=True, facts=tuple(("path", atom.shown) for atom in risky))


def _after_confidential(action: Action, session: Session, *, untrusted: bool) -> Verdict:
    """Ask before anything goes out after a confidential text was read."""
    source = describe_private(session)
    if untrusted:
        others = describe_untrusted(session)
        question = f"Send something out? Text that is confidential ({source}) was read, and {others}."
        question += suspicion_note(session)
        return Ask("confidential_and_untrusted", question, force=True)
    if Effect.SEND not in action.effects:
        return Allow()
    question = f"Send something out? Text that is confidential ({source}) was read before."
    return Ask("after_confidential", question, action.of_kind(*JUDGED))
