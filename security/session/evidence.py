"""The evidence within a decision: what each gate answered and how the call was read, with its JSON form.

Texts in it are redacted and bounded (`record/redaction.py`), and hold all that is needed to explain the
decision and to make it again (`record/replay.py`). A field with its default value is left out of a
record, so what is added here leaves older records as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields, replace
from functools import cache, partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol, Self

from ..call import Action, Again, Atom
from ..kinds import CommandFacts, CommandLine, Effect, Json, Kind, Unreadable
from ..lazy import dataclass
from ..paths import ResolvedPath
from ..policy import Rule
from ..verdict import Allow, Ask, Deny, GateAnswer

__all__ = ["LONGEST_PART", "ActionRecord", "AtomRecord", "GateVerdict", "Redacted"]

LONGEST_PART = 4096
"""Characters that are kept of one part of a call."""

_MOST_PARTS = 200
_MOST_FACTS = 10
_MOST_PROBLEMS = 20
_LONGEST_LOOKED_UP = 32 * 1024
_AS_WRITTEN = frozenset({Kind.TEXT, Kind.SECRET, Kind.UNDECLARED})


class Redacted(Protocol):
    """What is kept of a call's arguments: evidence takes every text through it (`record/redaction.py`)."""

    @property
    def masked(self) -> tuple[str, ...]:
        """The pointers of what was masked."""
        ...

    @property
    def cut(self) -> tuple[str, ...]:
        """The pointers of what was cut."""
        ...

    def text(self, text: str, longest: int = ...) -> str:
        """Return any text about the call as it may be kept."""
        ...

    def text_at(self, pointer: str, text: str, longest: int = ...) -> str:
        """Return another spelling of the value at a pointer as it may be kept."""
        ...


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The word of one gate: `allow`, `ask` or `deny`.

    `reason` is the sentence of a Deny or the question of an Ask. `where` is the file and line of the
    permission rule that spoke. `force`, `own_rule`, `suggestion` and `facts` are as in the verdict.
    """

    gate: str
    word: str
    rule: str = ""
    reason: str = ""
    where: str = ""
    suggestion: str = ""
    force: bool = False
    own_rule: bool = False
    facts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: GateAnswer, kept: Redacted, rules: Iterable[Rule]) -> Self:
        """Return the answer of a gate, and the place of the rule if it is one of the person's `rules`."""
        rule = kept.text(given.verdict.rule)
        match given.verdict:
            case Allow():
                return cls(given.gate, "allow", rule)
            case Ask() as ask:
                answer = cls(given.gate, "ask", rule, ask.question, force=ask.force, own_rule=ask.own_rule)
            case Deny() as denial:
                answer = cls(given.gate, "deny", rule, denial.reason)
        verdict = given.verdict
        facts = tuple(
            (kept.text(name), kept.text(value)) for name, value in islice(verdict.facts, _MOST_FACTS)
        )
        suggestion = kept.text(verdict.suggestion) if verdict.suggestion is not None else ""
        return replace(answer, where=_where(verdict.rule, rules), suggestion=suggestion, facts=facts)

    def to_json(self) -> dict[str, Json]:
        """Return it in the form of a record."""
        return _fields_set(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any] | list[Any]) -> GateVerdict:
        """Return it from a record; an older one has gate, word and rule only, as a list."""
        if isinstance(body, list):
            return cls(*body)
        return cls(**{**body, "facts": _pairs(body.get("facts", ()))})


@dataclass(frozen=True, slots=True)
class AtomRecord:
    """One string of a call as one reader took it: an atom, as it was shown.

    `pointer` is a JSON pointer into the arguments. Of a path, `real` is where it lies if that is
    elsewhere, and `mark` the keyed hash of its content when a change of it was shown. `unread`
    says why it could not be read; `text` is then as it came. `declared` is False for what an argument of
    no declared kind could be, too; `only_read` is as in the atom.
    """

    kind: str
    pointer: str
    text: str
    real: str = ""
    unread: str = ""
    declared: bool = True
    mark: str = ""
    only_read: bool = False

    @classmethod
    def of(cls, atom: Atom, kept: Redacted, keyed: Callable[[str], str]) -> Self:
        """Return an atom as it is kept; of what was masked, no other spelling. `keyed` hashes a mark."""
        part = cls(
            str(atom.kind), kept.text(atom.pointer), "", declared=atom.declared, only_read=atom.only_read
        )
        if atom.kind in _AS_WRITTEN:
            return part
        text_at = partial(kept.text_at, atom.pointer, longest=LONGEST_PART)
        match atom.canonical:
            case Unreadable(reason=reason):
                return replace(part, text=text_at(atom.raw), unread=reason)
            case ResolvedPath(text=text, real=real, state=state):
                mark = keyed(state.mark) if state is not None and state.mark else ""
                return replace(
                    part, text=text_at(text), real=text_at(real) if real != text else "", mark=mark
                )
            case other:
                return replace(part, text=text_at(str(other)))

    @property
    def is_altered(self) -> bool:
        """Whether a text is not there as it was; that of a file's place is needed so, to be judged again."""
        return any(len(text) > LONGEST_PART or "[redacted" in text.lower() for text in (self.text, self.real))

    def to_json(self) -> dict[str, Json]:
        """Return it in the form of a record."""
        return _fields_set(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> AtomRecord:
        """Return it from a record."""
        return cls(**body)


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """A call as it was read.

    `effects` are those of this call, `declared` those of its tool (None: there is no such tool), `level`
    and `source` what the tool declared, and `definition` and `version` what another program did.
    `looked_up` holds what the machine was asked about command lines. `problems` are (pointer, message,
    category). `hidden` are the pointers of the values that are not recorded unchanged, ""
    for all; `nearest` is the tool that may have been meant, `lasts`, `is_cut`, `wished`, `covered_by`,
    `usual` and `free` are as in the Action, `again` is what its `again` holds, and `hooked` are its hooks'
    answers: name, word, reason, and whether it failed. `through` are the sub-agents it came through: name,
    call, tools and autonomy of each.
    """

    effects: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None
    level: str = ""
    source: str = ""
    parts: tuple[AtomRecord, ...] = ()
    looked_up: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[tuple[str, str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    nearest: str = ""
    lasts: bool = False
    is_cut: bool = False
    covered_by: str = ""
    again: tuple[str, int, str] | None = None
    wished: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    definition: str = ""
    version: str = ""
    hooked: tuple[tuple[str, str, str, bool], ...] = ()
    through: tuple[tuple[str, str, tuple[str, ...], str], ...] = ()

    @classmethod
    def of(cls, action: Action, kept: Redacted, keyed: Callable[[str], str]) -> Self:
        """Return what a call was read as, so that it can be judged again without looking anything up."""
        spec, atoms = action.spec, action.atoms
        parts = tuple(AtomRecord.of(atom, kept, keyed) for atom in atoms[:_MOST_PARTS])
        looked_up, lost = _looked_up(action, kept)
        lost += [part.pointer for part in parts if part.kind == Kind.PATH and part.is_altered]
        is_whole = [part.pointer for part in parts] == [atom.pointer for atom in atoms]
        everything = [] if is_whole else [""]
        problems = (
            (kept.text(problem.pointer), kept.text(problem.message), str(problem.category))
            for problem in action.problems[:_MOST_PROBLEMS]
        )
        return cls(
            effects=_names(action.effects),
            declared=_names(spec.effects) if spec is not None else None,
            level=spec.level.name.lower() if spec is not None else "",
            source=kept.text(spec.source) if spec is not None else "",
            definition=spec.definition if spec is not None else "",
            version=kept.text(spec.version) if spec is not None else "",
            parts=parts,
            looked_up=looked_up,
            problems=tuple(problems),
            hidden=tuple(dict.fromkeys((*kept.masked, *kept.cut, *lost, *everything))),
            nearest=action.nearest or "",
            lasts=action.lasts,
            is_cut=action.is_cut,
            covered_by=kept.text(action.covered_by),
            again=None if action.again is None else _again(action.again, kept),
            wished=tuple(kept.text(path) for path in action.wished[:_MOST_PARTS]),
            usual=action.usual[:_MOST_PARTS],
            free=tuple(kept.text(name) for name in action.free[:_MOST_PARTS]),
            through=tuple((one.name, one.call, one.tools, str(one.autonomy)) for one in action.call.through),
            hooked=tuple((one.hook, one.word, kept.text(one.reason), one.failed) for one in action.hooked),
        )

    def to_json(self) -> dict[str, Json]:
        """Return it in the form of a record."""
        body = _fields_set(self)
        return {**body, "parts": [part.to_json() for part in self.parts]} if self.parts else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any] | None) -> ActionRecord | None:
        """Return it from a record; an older one does not say."""
        if body is None:
            return None
        declared = body.get("declared")
        restored = {
            "effects": tuple(body.get("effects", ())),
            "declared": None if declared is None else tuple(declared),
            "parts": tuple(map(AtomRecord.from_json, body.get("parts", ()))),
            "problems": _pairs(body.get("problems", ())),
            "hidden": tuple(body.get("hidden", ())),
            "hooked": tuple(map(tuple, body.get("hooked", ()))),
            "through": tuple(
                (name, call, tuple(tools), level) for name, call, tools, level in body.get("through", ())
            ),
            "again": tuple(body["again"]) if body.get("again") else None,
            **{name: tuple(body.get(name, ())) for name in ("wished", "usual", "free")},
        }
        return cls(**{**body, **restored})


def _again(again: Again, kept: Redacted) -> tuple[str, int, str]:
    return kept.text(again.reason), again.disk, kept.text(again.covers)


def _fields_set(value: GateVerdict | AtomRecord | ActionRecord) -> dict[str, Any]:
    """Return the fields of a value without those that are as they are by default."""
    found = ((name, getattr(value, name), default) for name, default in _defaults()[type(value)])
    return {name: content for name, content, default in found if default is MISSING or content != default}


@cache
def _defaults() -> Mapping[type[object], tuple[tuple[str, object], ...]]:
    """Return the fields of each kind of record, with their defaults."""
    return {
        kind: tuple(
            (one.name, one.default if one.default_factory is MISSING else one.default_factory())
            for one in fields(kind)
        )
        for kind in (GateVerdict, AtomRecord, ActionRecord)
    }


def _where(cited: str, rules: Iterable[Rule]) -> str:
    return next((rule.where for rule in rules if rule.where and cited.endswith(f" at {rule.where}")), "")


@cache
def _names(effects: Effect) -> tuple[str, ...]:
    return tuple(str(effect.name).lower() for effect in effects)


def _looked_up(action: Action, kept: Redacted) -> tuple[Mapping[str, Json], list[str]]:
    """Return what the machine was asked about the command lines; if it is too much, their pointers."""
    commands = action.of_kind(Kind.COMMAND)
    facts = next(filter(None, map(_facts_of, commands)), None)
    if action.of is not None:
        # Of what ran before, only this is judged by.
        facts = CommandFacts(code=action.bound.code, changed=action.bound.changed)
    if facts is None:
        return {}, []
    tables = ((one.name, _plain(getattr(facts, one.name))) for one in fields(facts))
    known = {name: table for name, table in tables if table}
    text = json.dumps(known, ensure_ascii=False)
    if len(text) > _LONGEST_LOOKED_UP or kept.text(text, _LONGEST_LOOKED_UP) != text:
        return {}, [atom.pointer for atom in commands] or ["/command"]
    return known, []


def _facts_of(atom: Atom) -> CommandFacts | None:
    return atom.canonical.facts if isinstance(atom.canonical, CommandLine) else None


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table in the form of a record, where a tuple is a list."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}


def _pairs(rows: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in rows)
