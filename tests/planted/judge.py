"""Wrong: the last word decides, a gate that raises has said nothing, and Asks end the round."""

from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Decision, GateAnswer


def judge(action: Action, session: Session, gates) -> Decision:
    answers: list[GateAnswer] = []
    for gate in gates:
        try:
            answers.append(GateAnswer(gate.__name__, gate(action, session)))
        except Exception:
            answers.append(GateAnswer(gate.__name__, Allow()))
        if isinstance(answers[-1].verdict, Ask):
            break
    return Decision(tuple(answers))
