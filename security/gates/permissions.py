"""Apply the person's ask and deny rules, the limits of skills and sub-agents, the autonomy, the defaults.

Allow rules have no place here: they are the person's answers in advance. The pipeline applies them to the
questions of all gates, once every gate has answered.
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
    """Deny what a rule or `readonly` forbids; ask where a rule or the default requires a yes."""
    policy = session.policy
    for rule in policy.rules:
        if rule.action is RuleAction.DENY and matched(rule, action, policy) is not None:
            return Deny(_name_and_place(rule), "a permission rule forbids this")
    if (refusal := outside(action, session)) is not None:
        return refusal
    # Under `readonly` commands may run on trial; what they change is denied when it is to be kept.
    is_tried = action.may_be_tried and policy.sandbox.rung is not Runs.REAL
    only_opens = _only_opens_urls(action)
    if (
        policy.autonomy is Autonomy.READONLY
        and not is_tried
        and _changes(action, sends_freely=not only_opens)
    ):
        return Deny("readonly", "autonomy is readonly: nothing may be written, executed or sent")
    ask_rules = [rule for rule in policy.rules if rule.action is RuleAction.ASK]
    hits = [(rule, atoms) for rule in ask_rules if (atoms := matched(rule, action, policy)) is not None]
    # `grounding` judges destinations, but not when it is switched off.
    has_judged_destination = policy.url_grounding and bool(action.of_kind(Kind.DESTINATION))
    sends_freely = not only_opens and not has_judged_destination
    own_words = is_own_words(action, session)
    default = Allow("own words") if own_words else _default(action, session, sends_freely=sends_freely)
    return _ask_of_rules(hits, default) if hits else default


def _ask_of_rules(hits: list[tuple[Rule, tuple[Atom, ...]]], default: Verdict) -> Ask:
    """Combine the matching ask rules into one question, which covers all that the default asks about."""
    about = [atom for _, atoms in hits for atom in atoms]
    force = any(rule.force for rule, _ in hits)
    if isinstance(default, Ask):
        about, force = [*about, *default.about], force or default.force
    rule = _name_and_place(hits[0][0])
    return Ask(rule, "a permission rule asks about this", tuple(dict.fromkeys(about)), force, own_rule=True)


def _default(action: Action, session: Session, *, sends_freely: bool) -> Verdict:
    """Judge a call that no rule matches: reading is allowed, changing and free sending need a yes."""
    changes = _changes(action, sends_freely=sends_freely)
    changes_nothing = not action.effects & (Effect.CREATE | Effect.WRITE)
    if not changes or action.is_command or (action.of is not None and changes_nothing):
        # `commands` judges what command lines do, word by word, and `hosts` what they and second runs reach.
        return Allow()
    # No answer in advance covers a line that cannot be parsed, or changes made with a lent secret.
    is_unreadable = any(isinstance(atom.canonical, Unreadable) for atom in action.of_kind(Kind.COMMAND))
    what = f"this call may {' and '.join(changes)}" if action.of is None else "keep what it changed?"
    force = action.is_cut or is_unreadable or is_of_lent(action, session)
    return Ask("default", what, action.of_kind(*JUDGED), force)


def _changes(action: Action, *, sends_freely: bool) -> list[str]:
    """Return in words what a call does beyond reading.

    A call that does not send freely sends to URLs or destinations only, which the gates for these judge.
    """
    adding = {} if Effect.WRITE in action.effects else {Effect.CREATE: "add something"}
    words = {**adding, Effect.WRITE: "make changes", Effect.EXECUTE: "run a program"}
    if sends_freely or action.effects & (Effect.CREATE | Effect.WRITE | Effect.EXECUTE):
        words[Effect.SEND] = "send something out"
        if action.of_kind(Kind.UNDECLARED):
            # A string without a declared kind may be a URL that the tool opens.
            words[Effect.BRING_IN] = "bring something in"
    return [word for effect, word in words.items() if effect in action.effects]


def _only_opens_urls(action: Action) -> bool:
    """Whether a call sends to its declared URLs and nowhere else, which counts as reading."""
    return any(one.declared for one in action.of_kind(Kind.URL)) and not action.of_kind(Kind.DESTINATION)


def _name_and_place(rule: Rule) -> str:
    return f"{rule} at {rule.where}" if rule.where else str(rule)
