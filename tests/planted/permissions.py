"""Wrong: allow rules are read in the gate and come first; a deny must match the whole call; no defaults."""

from leeward.security.call import Action
from leeward.security.kinds import Effect
from leeward.security.permissions import matched
from leeward.security.permissions.matching import covers
from leeward.security.policy import RuleAction
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Deny, Verdict


def permissions(action: Action, session: Session) -> Verdict:
    policy = session.policy
    allowing = tuple(rule for rule in policy.rules if rule.action is RuleAction.ALLOW)
    if any(matched(rule, action, policy) is not None for rule in allowing):
        return Allow()
    for rule in policy.rules:
        if rule.action is RuleAction.DENY and all(
            covers((rule,), action.call.tool, atom, policy) for atom in action.atoms
        ):
            return Deny(str(rule), "a permission rule forbids this")
        if rule.action is RuleAction.ASK and matched(rule, action, policy) is not None:
            return Ask(str(rule), "a permission rule asks about this", action.atoms)
    return Ask("default", "may it?") if action.effects & (Effect.WRITE | Effect.EXECUTE) else Allow()
