"""Wrong: the last word decides, a gate that raises has said nothing, and Asks end the round."""

from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Decision, GateWord


def judge(action: Action, session: Session, gates) -> Decision:
    words: list[GateWord] = []
    for gate in gates:
        try:
            words.append(GateWord(gate.__name__, gate(action, session)))
        except Exception:
            words.append(GateWord(gate.__name__, Allow()))
        if isinstance(words[-1].verdict, Ask):
            break
    return Decision(tuple(words))
