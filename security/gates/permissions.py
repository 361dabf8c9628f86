"""Apply the person's ask and deny rules, what narrows the call, the autonomy level and the defaults.

Allow rules are not read here: they are answers, given once every gate has spoken.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..checks import is_own_words
from ..kinds import Effect, Kind, Runs, Unreadable
from ..permissions import JUDGED, is_of_lent, matched, outside
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
    if (refusal := outside(action, session)) is not None:
        return refusal
    # What a command changes in a trial run is denied when it is to be kept; read-only it changes nothing.
    is_tried = action.may_be_tried and policy.sandbox.rung is not Runs.REAL
    if policy.autonomy is Autonomy.READONLY and not is_tried and _changing(action, _opens(action)):
        return Deny("readonly", "autonomy is readonly: nothing may be written, executed or sent")
    asking = [rule for rule in policy.rules if rule.action is RuleAction.ASK]
    hits = [(rule, about) for rule in asking if (about := matched(rule, action, policy)) is not None]
    # Without the ledger nobody else judges where a destination lies.
    judged = _opens(action) or (policy.url_grounding and bool(action.of_kind(Kind.DESTINATION)))
    default = _default(action, judged, session) if not is_own_words(action, session) else Allow("own words")
    return _asked(hits, default) if hits else default


def _asked(hits: list[tuple[Rule, tuple[Atom, ...]]], default: Verdict) -> Ask:
    """Put the rules' question so that it asks for no less than the default would have."""
    usual = (default.about, default.force) if isinstance(default, Ask) else ((), False)
    about = tuple(dict.fromkeys([*(atom for _, atoms in hits for atom in atoms), *usual[0]]))
    force = usual[1] or any(rule.force for rule, _ in hits)
    return Ask(_cited(hits[0][0]), "a permission rule asks about this", about, force, own_rule=True)


def _default(action: Action, judged: bool, session: Session) -> Verdict:
    """Judge where no rule applies: reading needs no answer, changing and open sending need a yes."""
    changing = _changing(action, judged)
    changes_nothing = not action.effects & (Effect.CREATE | Effect.WRITE)
    if not changing or action.is_command or (action.of is not None and changes_nothing):
        # What command lines do is weighed by `commands`, word by word, and what they reach by `hosts`.
        return Allow()
    # No answer given in advance covers a line that is unreadable, or what was written with a lent secret.
    is_unread = any(isinstance(atom.canonical, Unreadable) for atom in action.of_kind(Kind.COMMAND))
    what = f"this call may {' and '.join(changing)}" if action.of is None else "keep what it changed?"
    force = action.is_cut or is_unread or is_of_lent(action, session)
    return Ask("default", what, action.of_kind(*JUDGED), force)


def _changing(action: Action, judged: bool) -> list[str]:
    """Return what the call does beyond reading, in words; `judged`: URL gates judge where it sends."""
    adding = {} if Effect.WRITE in action.effects else {Effect.CREATE: "add something"}
    words = {**adding, Effect.WRITE: "make changes", Effect.EXECUTE: "run a program"}
    if not judged or action.effects & (Effect.CREATE | Effect.WRITE | Effect.EXECUTE):
        words[Effect.SEND] = "send something out"
        if action.of_kind(Kind.UNDECLARED):
            # The string has no declared kind; it may well be a URL to be opened.
            words[Effect.BRING_IN] = "bring something in"
    return [word for effect, word in words.items() if effect in action.effects]


def _opens(action: Action) -> bool:
    """Whether all that the call sends goes to declared URLs, which counts as reading."""
    return any(one.declared for one in action.of_kind(Kind.URL)) and not action.of_kind(Kind.DESTINATION)


def _cited(rule: Rule) -> str:
    return f"{rule} at {rule.where}" if rule.where else str(rule)
