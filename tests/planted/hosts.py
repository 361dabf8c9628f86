"""Wrong: refused hosts are a list of spellings."""

from leeward.security.call import Action
from leeward.security.kinds import Kind
from leeward.security.session import Session
from leeward.security.verdict import Allow, Deny, Verdict

REFUSED = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]", "169.254.169.254")


def hosts(action: Action, session: Session) -> Verdict:
    for atom in action.of_kind(Kind.URL):
        host = atom.raw.split("/")[2].split(":")[0]
        if host in REFUSED or host.startswith(("10.", "192.168.")):
            return Deny("refused_host", "fetch rejected: the host is not on the public internet")
        if not atom.raw.startswith("https://"):
            return Deny("https_only", "fetch rejected: only https is allowed")
    return Allow()
