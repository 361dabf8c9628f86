"""Deny what a hook of the person denied, failed at or was not asked about; ask where one wants that.

A hook is run before this gate speaks for good (`judge.py`); what it answered is a fact in the Action. No
answer allows: with a hook, a call can only be judged more strictly than without.
"""

from __future__ import annotations

from ..call import Action
from ..policy import NOT_HEARD
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["hooks"]

_SAYS = "the hook says"


def hooks(action: Action, session: Session) -> Verdict:
    """Deny unless each hook on this call answered it without a no; ask, in any case, where one wants that."""
    wanted = session.policy.hooks_on(action.call.tool)
    answers = {answer.hook: answer for answer in action.hooked}
    if any(name not in answers for name in wanted):
        return Deny(NOT_HEARD, "a hook has to be asked before this call, and gave no answer")
    asking = []
    for answer in (answers[name] for name in wanted):
        facts_of = ((_SAYS, answer.reason),) if answer.reason else ()
        if answer.failed:
            why = (("what went wrong", answer.reason),)
            return Deny("failed", f"the hook {answer.hook} gave no answer that counts", facts=why)
        if answer.word == "ask":
            asking.append((answer.hook, facts_of))
        elif answer.word:
            return Deny("denied", f"the hook {answer.hook} refused this call", facts=facts_of)
    if not asking:
        return Allow()
    names = ", ".join(name for name, _ in asking)
    facts = tuple(fact for _, facts_of in asking for fact in facts_of)
    return Ask("asked", f"the hook {names} wants you to be asked about this", force=True, facts=facts)
