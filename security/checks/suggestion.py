"""Choose what to suggest instead of a refused call; a suggestion that would itself be refused is dropped.

Each candidate is checked against the person's deny rules, autonomy, trust, the host lists and the
ledger of known URLs; command lines are judged by `command/judge/suggest.py`. A suggestion may still
lead to a question, since a question is not a denial. What a read-only run wanted to change makes one, too.
"""

from __future__ import annotations

from dataclasses import replace

from .. import command
from ..action import effects_at_most
from ..call import Action, Atom, Checked, ToolSpec
from ..kinds import CommandLine, Effect, Kind
from ..permissions import matched
from ..policy import Autonomy, RuleAction
from ..session import Session
from ..url import Url, in_domains, judge_host, listed_problem, parse_url
from ..verdict import Ask

__all__ = ["acceptable_url", "asked_to_write", "instead_of"]

_MOST_WISHES = 20
_WRITES = "Run it again, so that it can write? It ran read-only, and wanted to change something"


def instead_of(atom: Atom, action: Action, session: Session) -> str | None:
    """Return what could be done instead of a command line and would not be refused itself, or None."""
    policy = session.policy
    if not isinstance(atom.canonical, CommandLine):
        return None
    suggested = command.suggestion_for(atom.canonical, policy, policy.shell_rules)
    if suggested is None:
        return None
    found, line = suggested
    if line is None:
        passes = acceptable_url(found.value, found.tool, action, session) is not None
    else:
        passes = not _refuses_line(line, found.value, action, atom, session)
    return str(found) if passes else None


def acceptable_url(text: str, tool: str, action: Action, session: Session) -> str | None:
    """Return a URL, in canonical form, that a tool would be let open in the place of an action, else None."""
    url, policy = parse_url(text), session.policy
    if not isinstance(url, Url) or judge_host(url.host, policy.allow_networks) is not None:
        return None
    is_open = url.scheme != "https" and not in_domains(url.host, policy.allow_http)
    is_unknown = policy.url_grounding and session.ledger.lookup(url).source is None
    if is_open or is_unknown or _is_unlisted(url.host, session):
        return None
    atom = Atom(Kind.URL, "/url", url.text, url)
    if tool == action.call.tool:
        opening = replace(action, atoms=(atom,))
    else:
        # Another tool is suggested only by us, and is one of ours.
        spec = ToolSpec(tool, "", {}, Checked, Effect.SEND | Effect.BRING_IN)
        call = replace(action.call, tool=tool)
        opening = replace(action, call=call, spec=spec, effects=spec.effects, atoms=(atom,))
    return None if _is_forbidden(opening, session) else url.text


def _refuses_line(line: CommandLine, text: str, action: Action, atom: Atom, session: Session) -> bool:
    """Whether a command line would not be let run in the place of one that an action holds."""
    policy = session.policy
    instead = replace(action, atoms=(replace(atom, raw=text, canonical=line),))
    declared = action.spec.effects if action.spec is not None else Effect.ALL
    instead = replace(instead, effects=declared & effects_at_most(instead, policy))
    if policy.autonomy is Autonomy.READONLY and instead.effects & ~Effect.READ:
        return True
    reached = command.reach_of(line, session.ledger, policy.allow_networks)
    if reached.say == command.Say.DENY or any(_is_unlisted(host, session) for host in command.hosts_of(line)):
        return True
    return _is_forbidden(instead, session)


def _is_unlisted(host: str, session: Session) -> bool:
    policy = session.policy
    return listed_problem(host, policy.domain_allowlist, policy.domain_denylist) is not None


def _is_forbidden(action: Action, session: Session) -> bool:
    """Whether a deny rule speaks of an action, or its tool is not trusted to do more than read."""
    policy = session.policy
    if action.spec is not None and not session.trusts(action.spec, action.effects):
        return True
    denying = (rule for rule in policy.rules if rule.action is RuleAction.DENY)
    return any(matched(rule, action, policy) is not None for rule in denying)


def asked_to_write(action: Action, facts: tuple[tuple[str, str], ...], *, force: bool) -> Ask:
    """Return the question about a line that ran read-only; `facts` are further values to show.

    The yes is to the line, as where it is asked about before it runs, and not to the named paths alone.
    """
    wished = tuple(("wanted to change", path) for path in action.wished[:_MOST_WISHES])
    left = len(action.wished) - _MOST_WISHES
    more = (("more paths", str(left)),) if left > 0 else ()
    about = action.of_kind(Kind.COMMAND)
    return Ask("wished", _WRITES, about=about, force=force, facts=(*wished, *more, *facts))
