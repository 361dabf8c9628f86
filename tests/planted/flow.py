"""Wrong: the destination alone decides; `full` is an answer; a text is judged by its words."""

from leeward.security.call import Action
from leeward.security.checks import foreign_in
from leeward.security.kinds import Kind
from leeward.security.policy import Autonomy
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Verdict


def by_destination(action: Action, session: Session) -> Verdict:
    places = [one for one in foreign_in(action, session).places if one.kind is Kind.DESTINATION]
    return Ask("flow", "send?", force=True) if session.is_untrusted and places else Allow()


def by_level(action: Action, session: Session) -> Verdict:
    if session.policy.autonomy is Autonomy.FULL:
        return Allow()
    return Ask("flow", "send?", force=True) if foreign_in(action, session) else Allow()


def by_text(action: Action, session: Session) -> Verdict:
    texts = [atom.raw.casefold() for atom in action.of_kind(Kind.TEXT)]
    return Ask("flow", "send?", force=True) if any("important" in text for text in texts) else Allow()
