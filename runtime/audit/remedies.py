"""What would have allowed a call that was refused, or that nobody said yes to? In words, for `why`.

Pure, and no promise: a call is judged anew each time. Nothing here suggests to take a protection away
where something narrower would do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network

from leeward.security.paths import NAMED_SECRET, NOT_TO_BE_READ
from leeward.security.session import Decided, Said
from leeward.security.text import visible
from leeward.security.url import judge_host, parse_destination

__all__ = ["remedies"]

# By gate and rule, else by gate: what helps, and the configuration key that has to do with it.
_REMEDIES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("known", "unknown_tool"): ("the name of a tool there is (leeward tools)", ""),
    ("known", "schema"): ("arguments that fit the tool's schema", ""),
    ("arguments", ""): ("the value without that pattern", ""),
    ("permissions", "readonly"): ("another autonomy than readonly", "permissions.autonomy"),
    ("permissions", ""): ("that rule being narrowed or taken out; no answer outweighs a deny rule", ""),
    ("anomaly", "blocked"): ("/trust TOOL LEVEL, which lifts the block", ""),
    ("trust", ""): ("/trust TOOL LEVEL; a level in the configuration can only weaken it", "security.trust"),
    ("paths", "secret"): ("nothing: no tool reads what is secret", ""),
    ("paths", "protected"): ("nothing: no tool changes this file; you can", ""),
    ("paths", "unreadable"): ("a path that can be read", ""),
    ("grounding", "not_provided"): ("your naming it: write it in a message, or /browse URL", ""),
    ("grounding", "unreadable"): ("a URL that can be read", ""),
    ("hosts", "unreadable"): ("a URL that can be read", ""),
    ("hosts", "https_only"): ("https, or the host in the list", "tools.fetch.allow_http"),
    ("hosts", "refused_host"): ("its network in the list", "tools.fetch.allow_networks"),
    ("hosts", "domain_denylist"): ("the host taken out of the list", "tools.fetch.domain_denylist"),
    ("hosts", "domain_allowlist"): ("the host in the list", "tools.fetch.domain_allowlist"),
    ("commands", "blocked"): ("the entry taken out of the list", "tools.shell.blocked_commands"),
    ("commands", ""): ("nothing: no rule, grant or answer lets this command run", ""),
    ("budget", "calls_per_session"): ("/new, or a higher limit", "agent.max_tool_calls_per_session"),
    ("budget", "calls_per_turn"): ("another message, or a higher limit", "agent.max_tool_calls_per_turn"),
    ("budget", "repeated"): ("another call: this one brings nothing new", ""),
    ("approval", ""): ("asking again: it was no longer what had been asked about", ""),
    ("follow", ""): ("asking for the last address itself", ""),
}  # fmt: skip
_BY_AUTONOMY = frozenset({"permissions", "trust", "commands"})


def remedies(decided: Decided, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return what would have allowed a call, one sentence each; none where it was allowed.

    `sources` tells where keys of the configuration were set then.
    """
    if decided.allowed:
        return ()
    denials = [said for said in decided.words if said.word == "deny"]
    if decided.gate is not None and decided.gate not in {said.gate for said in decided.words}:
        denials.append(Said(decided.gate, "deny", decided.rule))
    found = [line for said in denials for line in _of_denial(said, sources)]
    if not denials:
        found = list(_of_questions(decided, sources))
    return tuple(dict.fromkeys(map(visible, found)))


def _of_denial(said: Said, sources: Mapping[str, str]) -> Iterator[str]:
    nothing = ("nothing: a refusal is answered by nobody in advance", "")
    table = _REMEDIES.get((said.gate, said.rule)) or _REMEDIES.get((said.gate, ""))
    text, key = _of_name(said) or _of_address(said) or table or nothing
    yield f"{said.gate}: {text}{_told(key, sources)}"
    if said.suggestion:
        yield f"{said.gate} suggests: {said.suggestion}"


def _of_name(said: Said) -> tuple[str, str] | None:
    """Return what lifts the refusal of a file for which the configuration can speak; no place is lifted."""
    if said.reason.endswith(NAMED_SECRET):
        return "the file in the list", "tools.file.allow_read"
    if said.reason.endswith(NOT_TO_BE_READ):
        return "the pattern taken out of the list", "tools.file.deny_read"
    return None


def _of_address(said: Said) -> tuple[str, str] | None:
    """Return what lifts the refusal of an address, or of a name for which no network speaks."""
    if said.gate != "hosts" or said.rule not in {"refused_host", "domain_allowlist"}:
        return None
    try:
        address = ip_address(_host_of(said).strip("[]"))
    except ValueError:
        nothing = "nothing: no network speaks for such a name"
        return (nothing, "") if said.rule == "refused_host" else None
    if said.rule == "domain_allowlist":
        return "no list: while there is one, addresses are refused", "tools.fetch.domain_allowlist"
    if judge_host(str(address), (str(ip_network(address)),)) is not None:
        return "nothing: no network lets this address be reached", ""
    return "its network in the list", "tools.fetch.allow_networks"


def _host_of(said: Said) -> str:
    """Return the host that a refusal is about."""
    facts = dict(said.facts)
    place = parse_destination(facts.get("destination", ""))
    return facts.get("host") or (place.host if place is not None else "")


def _told(key: str, sources: Mapping[str, str]) -> str:
    if not key:
        return ""
    set_at = sorted({place for name, place in sources.items() if name == key or name.startswith(f"{key}.")})
    return f" ({key}, {'set at ' + ', '.join(set_at) if set_at else 'not set'})"


def _of_questions(decided: Decided, sources: Mapping[str, str]) -> Iterator[str]:
    """Say who could have answered: somebody present always, an answer in advance where it may."""
    asks = [said for said in decided.words if said.word == "ask"]
    yield "your yes, when it was asked"
    forced = [said.gate for said in asks if said.force]
    if forced:
        yield f"nothing in advance: what {' and '.join(forced)} asked is for somebody present to answer"
        return
    own = [said.where or said.rule for said in asks if said.own_rule]
    for tool, match, folder in decided.always:
        if folder is None:
            yield f"for this session: /permissions allow {tool}{f' {match}' if match is not None else ''}"
        if not own:
            keys = {"tool": tool, "match": match, "folder": folder, "action": "allow"}
            told = (
                f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items() if value
            )
            rule = f"{{ {', '.join(told)} }}"
            yield f"for good: an allow rule{_told('permissions.rules', sources)}: {rule}"
    if own:
        yield f"no allow rule: your own ask rule ({', '.join(own)}) outweighs it"
    if asks and all(said.gate in _BY_AUTONOMY for said in asks):
        yield f"autonomy full{_told('permissions.autonomy', sources)}"
    for said in asks:
        if said.suggestion:
            yield f"{said.gate} suggests, without a question: {said.suggestion}"
