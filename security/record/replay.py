"""Rebuild the Action and the session of a recorded decision, so that it can be judged again without I/O.

What was looked up for the call is in its record, and the Action is built from that as it was from the
call. Where the record does not hold a value as it was, the gates that read it cannot be replayed, and
`gates_not_replayable` names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import reduce
from operator import or_
from typing import Any

from .. import command
from ..action import MAX_DEPTH, ActionBuilder, depth_of
from ..call import Action, Again, Asker, SchemaProblem, ToolCall, ToolSpec
from ..call import Checked as _Checked
from ..kinds import CommandFacts, Effect, HookAnswer, Kind
from ..outcome import Category
from ..paths import could_be_path, is_user_or_file
from ..policy import AgentFrame, Autonomy, Policy
from ..schema import Leaf
from ..session import ActionRecord, AtomRecord, Decided, Session
from ..trust import Origin, TrustLevel
from ..url import Provenance, Url, parse_url
from .redaction import CUT, is_below

__all__ = ["OF_THE_CALL", "action_from_record", "gates_not_replayable", "not_looked_up", "session_at"]

OF_THE_CALL = frozenset({"known", "arguments"})
"""The gates that judge a call alone, without session or policy: their answer never changes."""

_NOTHING: frozenset[Kind] = frozenset()
_PLACES = frozenset({Kind.URL, Kind.DESTINATION, Kind.UNDECLARED})
# Of which kinds of argument a gate reads the values; one that is not named here reads them all. A string
# nobody declared could be anything, so it is among them wherever values are read at all. Those of
# `OF_THE_CALL` read values, and need not be asked again.
_READS: Mapping[str, frozenset[Kind]] = {
    "known": _NOTHING,
    "arguments": _NOTHING,
    "anomaly": _NOTHING,
    "trust": _NOTHING,
    "budget": _NOTHING,
    "hooks": _NOTHING,
    "paths": frozenset({Kind.PATH, Kind.UNDECLARED}),
    "grounding": _PLACES,
    "hosts": _PLACES,
    "commands": frozenset({Kind.COMMAND, Kind.UNDECLARED}),
    "permissions": frozenset(Kind) - {Kind.TEXT, Kind.SECRET},
}


# When a gate that reads all values reads any: where something goes out, or others had a say.
_READ_WHEN: Mapping[str, Callable[[Decided, ActionRecord], bool]] = {
    "leaks": lambda _, reading: not {"send", "bring_in"}.isdisjoint(reading.effects),
    "flow": lambda decided, _: not {Origin.WEB, Origin.MCP, Origin.SECRET}.isdisjoint(decided.labels),
}


def action_from_record(decided: Decided, policy: Policy) -> Action | None:
    """Return the Action that a decision was about; None where an older record does not say enough.

    Its digest is the one on record, which a session compares with others on record.
    """
    reading = decided.reading
    if reading is None:
        return None
    asker = Asker(decided.asker or Asker.MODEL)
    through = tuple(AgentFrame(*one[:3], Autonomy(one[3])) for one in reading.through)
    call = ToolCall(decided.call, decided.tool, decided.arguments, asker, through=through)
    problems = tuple(SchemaProblem(where, what, Category(kind)) for where, what, kind in reading.problems)
    arguments = _arguments(decided)
    strings = _strings(arguments, reading.parts)
    lines = {
        leaf.text: command.parse_command(leaf.text) for leaf in strings if _has(reading, leaf, Kind.COMMAND)
    }
    spec = _spec(decided.tool, reading)
    draft = ActionBuilder(call, spec, reading.nearest or None, arguments, problems, strings, lines)
    places = _places(strings, reading.parts)
    action = draft.read(policy, places, _facts(reading), _named(strings, reading.parts))
    if _is_hidden(reading, Kind.COMMAND):
        # Effects of a line that were not complete when they were recorded.
        action = replace(action, effects=_effects(reading.effects))
    action = replace(action, digest=decided.digest, lasts=reading.lasts, is_cut=reading.is_cut)
    again = Again(*reading.again) if reading.again is not None else None
    action = replace(action, covered_by=reading.covered_by, again=again)
    hooked = tuple(HookAnswer(one[0], one[1], one[2], failed=one[3]) for one in reading.hooked)
    action = replace(action, usual=reading.usual, free=reading.free, hooked=hooked)
    if reading.wished:
        return replace(action, wished=reading.wished)
    return replace(action, of=_of(decided, arguments, asker, policy) if decided.of else None)


def _of(decided: Decided, arguments: Mapping[str, object], asker: Asker, policy: Policy) -> Action:
    """Return the Action whose trial run a decision is about, as far as this one's record tells of it."""
    line = arguments.get("command")
    lines = [line for line in (line if isinstance(line, list) else [line]) if isinstance(line, str)]
    is_line = frozenset({Kind.COMMAND})
    leaves = tuple(Leaf(f"/command/{index}", line, is_line) for index, line in enumerate(lines))
    parsed = {line: command.parse_command(line) for line in lines}
    call = ToolCall(decided.of, "", "{}", asker)
    facts = _facts(decided.reading) if decided.reading is not None else None
    return ActionBuilder(call, None, None, {}, (), leaves, parsed).read(policy, {}, facts)


def session_at(decided: Decided, session: Session) -> Session:
    """Return the session that a decision was made in, from the one right before it happened."""
    sandbox = replace(session.policy.sandbox, rung=decided.rung)
    policy = replace(session.policy, sandbox=sandbox)
    session = replace(session, policy=policy, now=decided.judged or decided.at)
    if not decided.hop:
        return session
    session = replace(session, pending=session.pending | {decided.call})
    url = parse_url(decided.led) if decided.led else None
    if isinstance(url, Url):
        return replace(session, ledger=session.ledger.with_urls([url], Provenance.REDIRECT))
    return session


def gates_not_replayable(gate: str, decided: Decided) -> tuple[str, ...]:
    """Return the pointers a gate reads and the record lacks; its answer is unknown then."""
    reading = decided.reading
    if reading is None:
        return ()
    if gate in _READ_WHEN and not _READ_WHEN[gate](decided, reading):
        return ()
    wanted = _READS.get(gate)
    return tuple(
        pointer
        for pointer in reading.hidden
        if wanted is None or (wanted and (not pointer or _kinds_below(pointer, reading.parts) & wanted))
    )


def not_looked_up(decided: Decided, action: Action, policy: Policy) -> bool:
    """Whether judging an action's command lines under a policy asks for what nobody looked up then."""
    reading, lines = decided.reading, {atom.raw: atom.canonical for atom in action.of_kind(Kind.COMMAND)}
    if reading is None or not lines:
        return False
    parsed = {text: command.parse_command(text) for text in lines}
    wanted = ActionBuilder(action.call, action.spec, None, action.arguments, (), (), parsed).wanted(policy)
    known = reading.looked_up
    return any({*getattr(wanted, name)} - {*_table(known, name)} for name in _ALWAYS_ANSWERED)


# The surveyor leaves out where a path leads if it leads nowhere; to all else there is an answer.
_ALWAYS_ANSWERED = ("programs", "matches")


def _table(known: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = known.get(name)
    return found if isinstance(found, Mapping) else {}


def _kinds_below(pointer: str, parts: Iterable[AtomRecord]) -> frozenset[Kind]:
    """Return the kinds of everything at or below a pointer; all of them where no string is known there."""
    found = frozenset(Kind(part.kind) for part in parts if is_below(part.pointer, pointer))
    return found or frozenset(Kind)


def _arguments(decided: Decided) -> Mapping[str, object]:
    text = decided.arguments or "{}"
    if depth_of(text) > MAX_DEPTH:
        # Nobody read these when it was decided, either.
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _strings(arguments: Mapping[str, object], parts: Iterable[AtomRecord]) -> tuple[Leaf, ...]:
    """Return every string of the arguments in the order in which it was read, with its declared kinds."""
    kinds: dict[str, set[Kind]] = {}
    for part in parts:
        declared = {Kind(part.kind)} if part.declared else set()
        kinds.setdefault(part.pointer, set()).update(declared)
    only_read = {part.pointer for part in parts if part.only_read}
    return tuple(
        Leaf(pointer, _string_at(arguments, pointer), frozenset(found), pointer in only_read)
        for pointer, found in kinds.items()
    )


def _string_at(arguments: Mapping[str, object], pointer: str) -> str:
    """Return the string at a pointer, or the key where it ends in `#`; "" where it is not on record."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.removesuffix("#").split("/")[1:]]
    if pointer.endswith("#") and steps:
        return steps[-1]
    found: object = arguments
    for step in steps:
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return ""
    return found if isinstance(found, str) else ""


def _has(reading: ActionRecord, leaf: Leaf, kind: Kind) -> bool:
    return any(part.pointer == leaf.pointer and part.kind == kind for part in reading.parts)


def _is_hidden(reading: ActionRecord, kind: Kind) -> bool:
    parts = [part.pointer for part in reading.parts if part.kind == kind]
    return any(not hidden or is_below(pointer, hidden) for hidden in reading.hidden for pointer in parts)


def _effects(names: Iterable[str]) -> Effect:
    return reduce(or_, (Effect[name.upper()] for name in names), Effect(0))


def _spec(tool: str, reading: ActionRecord) -> ToolSpec | None:
    """Return as much of the tool's declaration as gates read; nothing is checked or run by it."""
    if reading.declared is None:
        return None
    level = TrustLevel[reading.level.upper()] if reading.level else TrustLevel.BLOCKED
    effects, definition = _effects(reading.declared), (reading.definition, reading.version)
    spec = ToolSpec(tool, "", {}, _Checked, effects, level, reading.source)
    return replace(spec, definition=definition[0], version=definition[1])


def _places(strings: Iterable[Leaf], parts: Iterable[AtomRecord]) -> dict[str, str]:
    """Return where paths led to, as the surveyor had found it."""
    raw = {leaf.pointer: leaf.text for leaf in strings}
    found: dict[str, str] = {}
    for part in parts:
        if part.kind != Kind.PATH or part.unread or part.text.endswith(CUT):
            continue
        found[part.text] = part.real or part.text
        text = raw.get(part.pointer, "")
        if is_user_or_file(text):
            found[text] = text
    return found


def _named(strings: Iterable[Leaf], parts: Iterable[AtomRecord]) -> dict[str, tuple[str, ...]]:
    """Return the paths that strings nobody declared turned out to name, beside the one each looks like."""
    found: dict[str, list[str]] = {}
    for part in parts:
        if part.kind == Kind.PATH and not part.declared:
            found.setdefault(part.pointer, []).append(part.text)
    texts = {leaf.pointer: leaf.text for leaf in strings if leaf.pointer in found}
    return {text: tuple(found[at][1 if could_be_path(text) else 0 :]) for at, text in texts.items()}


def _facts(reading: ActionRecord) -> CommandFacts | None:
    """Return what was looked up for the command lines; None where nothing was."""
    if not reading.looked_up:
        return CommandFacts() if any(part.kind == Kind.COMMAND for part in reading.parts) else None
    names = {field.name for field in fields(CommandFacts)}
    return CommandFacts(
        **{name: _frozen(table) for name, table in reading.looked_up.items() if name in names}
    )


def _frozen(table: Any) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
