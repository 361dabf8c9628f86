"""Is every destination a public host that is spoken to over https?

Judged is the name or literal as written, before any DNS; what a name resolves to is judged at use
by the same `judge_address`. Whether the person gave the URL is left to `grounding`.
"""

from __future__ import annotations

from ..addresses import judge_host
from ..call import Action, Atom, Kind
from ..session import Session
from ..unreadable import Unreadable
from ..url import Url
from ..verdict import Allow, Deny, Verdict

__all__ = ["hosts"]


def hosts(action: Action, session: Session) -> Verdict:
    """Deny the first URL that cannot be read, leads off the public internet, or is not https."""
    for atom in action.of_kind(Kind.URL):
        denial = _judged(atom, session.policy.allow_networks)
        if denial is not None:
            return denial
    return Allow()


def _judged(atom: Atom, allow_networks: tuple[str, ...]) -> Deny | None:
    url = atom.canonical
    if not isinstance(url, Url):
        reason = url.reason if isinstance(url, Unreadable) else "it is not a URL"
        reason = f"fetch rejected: the URL cannot be read: {reason}"
        return Deny("unreadable", reason, facts=(("url", atom.raw),))
    facts = (("url", url.text), ("host", url.host))
    what = judge_host(url.host, allow_networks)
    if what is not None:
        reason = f"fetch rejected: the host is not on the public internet ({what})"
        return Deny("refused_host", reason, facts=facts)
    if url.scheme != "https":
        secure = "https" + url.text.removeprefix(url.scheme)
        return Deny("https_only", "fetch rejected: only https is spoken", suggestion=secure, facts=facts)
    return None
