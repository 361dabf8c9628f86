"""Wrong: a line is lent a secret if it begins with the words of a rule, whatever follows."""

from leeward.security.kinds import Kind


def lent_to(action, policy):
    text = action.of_kind(Kind.COMMAND)[0].raw
    return tuple((one, rule) for one in policy.secrets for rule in one.programs if text.startswith(rule))
