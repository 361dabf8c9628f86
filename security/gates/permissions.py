"""Applies the person's ask and deny rules, the autonomy level and the defaults.

Allow rules are not read here: they are answers, which `permissions/answers.py` gives after every gate
was evaluated.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..kinds import Effect, Kind, Runs, Unreadable
from ..permissions import JUDGED, matched
from ..policy import Autonomy, Rule, RuleAction
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["permissions"]


def permissions(action: Action, session: Session) -> Verdict:
    """Deny what a rule or `readonly` forbids; ask where a rule or the default wants a yes."""
    policy = session.policy
    for rule in policy.rules:
        if rule.action is RuleAction.DENY and matched(rule, action, policy) is not None:
            return Deny(_cited(rule), "a permission rule forbids this")
    # What a trial run of a command changes is denied when it is to be kept.
    is_tried = action.may_be_tried and policy.sandbox.rung is Runs.TRIAL
    if policy.autonomy is Autonomy.READONLY and not is_tried and _changing(action, _opens(action)):
        return Deny("readonly", "nothing may be written, executed or sent at autonomy readonly")
    asking = [rule for rule in policy.rules if rule.action is RuleAction.ASK]
    hits = [(rule, about) for rule in asking if (about := matched(rule, action, policy)) is not None]
    # Without the ledger nobody else judges where a destination lies.
    judged = _opens(action) or (policy.url_grounding and bool(action.of_kind(Kind.DESTINATION)))
    default = _default(action, judged)
    return _asked(hits, default) if hits else default


def _asked(hits: list[tuple[Rule, tuple[Atom, ...]]], default: Verdict) -> Ask:
    """Put the rules' question so that it asks for no less than the default would have."""
    usual = (default.about, default.force) if isinstance(default, Ask) else ((), False)
    about = tuple(dict.fromkeys([*(atom for _, atoms in hits for atom in atoms), *usual[0]]))
    force = usual[1] or any(rule.force for rule, _ in hits)
    return Ask(_cited(hits[0][0]), "a permission rule asks about this", about, force, own_rule=True)


def _default(action: Action, judged: bool) -> Verdict:
    """Judge where no rule applies: reading needs no answer, changing and open sending need a yes."""
    changing = _changing(action, judged)
    if not changing or action.is_command:
        # What command lines do is weighed by `commands`, word by word.
        return Allow()
    about = action.of_kind(*JUDGED)
    what = f"this call may {' and '.join(changing)}" if action.of is None else "keep what it changed?"
    return Ask("default", what, about, force=action.is_cut or _is_unread(action))


def _changing(action: Action, judged: bool) -> list[str]:
    """Return what the call does beyond reading, in words; `judged`: URL gates judge where it sends."""
    words = {Effect.WRITE: "make changes", Effect.EXECUTE: "run a program"}
    if not judged or action.effects & (Effect.WRITE | Effect.EXECUTE):
        words[Effect.SEND] = "send something out"
        if action.of_kind(Kind.UNDECLARED):
            # Nobody said what the string is; it may well say what is to be opened.
            words[Effect.BRING_IN] = "bring something in"
    return [word for effect, word in words.items() if effect in action.effects]


def _opens(action: Action) -> bool:
    """Whether all that the call sends goes to declared URLs, which counts as reading."""
    declared = any(atom.declared for atom in action.of_kind(Kind.URL))
    return declared and not action.of_kind(Kind.DESTINATION)


def _is_unread(action: Action) -> bool:
    """Whether a command line is unreadable, so that no answer given in advance can cover it."""
    return any(isinstance(atom.canonical, Unreadable) for atom in action.of_kind(Kind.COMMAND))


def _cited(rule: Rule) -> str:
    return f"{rule} at {rule.where}" if rule.where else str(rule)
