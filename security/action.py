"""Turn a tool call into a frozen Action, once: parse it, validate it, and classify each of its strings.

    draft = ActionBuilder.of(call, specs)         limits, JSON, schema, command lines: no I/O
    resolved = await surveyor.resolve(draft.paths(policy))
    facts = await surveyor.look_up(draft.wanted(policy), policy)
    action = draft.read(policy, resolved, facts)  atoms, effects, digest, frozen

Whether it may run is for the gates to say. JSON is read strictly: with a duplicate key, NaN or a lone
surrogate two readers could see two calls, so each is a problem and not a guess. Arguments a tool declared
secret are known here, so that a call is shown and kept without them.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from . import command
from .call import Action, Asker, Atom, SchemaProblem, ToolCall, ToolSpec, pointer_step
from .kinds import (
    KIND_KEY,
    LASTS_KEY,
    CommandFacts,
    CommandLine,
    Effect,
    Json,
    Kind,
    Once,
    Unreadable,
    Wanted,
)
from .lazy import dataclass, regex
from .outcome import Category
from .paths import ResolvedPath, could_be_path, is_user_or_file, locate
from .policy import Policy
from .schema import Leaf, changes, leaves
from .text import mask_of, without_margins
from .trust import TrustLevel
from .undeclared import named_paths, wanted_names
from .url import Url, destinations_in, parse_url, suspects_in

__all__ = [
    "MAX_ARGUMENT_BYTES",
    "MAX_DEPTH",
    "MAX_LEAVES",
    "MAX_NAME",
    "NAME_RULE",
    "ActionBuilder",
    "canonical_json",
    "depth_of",
    "digest_of",
    "effects_at_most",
    "following_action",
    "is_tool_name",
    "secrets_in",
    "shown_arguments",
    "takes_secret",
    "texts_of",
    "thaw",
    "without_secrets",
]


MAX_ARGUMENT_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_LEAVES = 1_000
MAX_NAME = 64
NAME_RULE = "a tool's name has 1 to 64 characters of a-z, 0-9 and _"
"""What `is_tool_name` asks for, in words."""

_NAME = regex(r"[a-z0-9_]{1,64}")
# True of a string that never ends as well: it is walked once, whatever it holds.
_JSON_STRING = regex(r'"[^"\\]*+(?:\\.?[^"\\]*+)*(?:"|\Z)', re.DOTALL)


class _NotJson(ValueError):
    """The text is not the one JSON object a call must be."""


@dataclass(frozen=True, slots=True)
class ActionBuilder:
    """A call that was parsed and checked, whose paths have not been looked up yet."""

    call: ToolCall
    spec: ToolSpec | None
    nearest: str | None
    arguments: Mapping[str, Any]
    problems: tuple[SchemaProblem, ...]
    strings: tuple[Leaf, ...] = ()
    lines: Mapping[str, CommandLine | Unreadable] = field(default_factory=dict)
    typed: object = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, call: ToolCall, specs: Mapping[str, ToolSpec]) -> ActionBuilder:
        """Parse a call's text and check it against its tool's schema; never raises for what it says."""
        if not is_tool_name(call.tool):
            problem = SchemaProblem("", NAME_RULE, Category.TOOL_NOT_FOUND)
            return cls(call, None, _nearest(call.tool, specs), {}, (problem,))
        spec = specs.get(call.tool)
        if spec is None:
            return cls(call, None, _nearest(call.tool, specs), {}, ())
        try:
            given = _parse(_as_meant(call), call.once)
        except _NotJson as error:
            return cls(call, spec, None, {}, (SchemaProblem("", str(error)),))
        # A tool checks a copy, for what was parsed is read again when the call is shown or judged anew.
        checked = spec.check(thaw(given))
        if checked.problems:
            return cls(call, spec, None, given, checked.problems)
        changed = tuple(
            SchemaProblem(pointer, "checking would change this value", Category.TYPE_MISMATCH)
            for pointer in changes(given, checked.arguments)
        )
        found = () if changed else tuple(leaves(checked.arguments, spec.schema))
        lines = {
            leaf.text: command.parse_command(leaf.text) for leaf in found if _is_line(leaf, spec.effects)
        }
        return cls(call, spec, None, checked.arguments, changed, found, lines, checked.typed)

    def paths(self, policy: Policy) -> tuple[str, ...]:
        """Return what must be looked up before this call can be judged: absolute paths, and each `~name`."""
        texts = [leaf.text for leaf in self.strings if _is_path(leaf)]
        users = [text for text in texts if is_user_or_file(text)]
        located = (locate(text, policy) for text in (*texts, *map(_as_file, users)))
        paths = [place.text for place in located if isinstance(place, ResolvedPath)]
        return tuple(dict.fromkeys((*paths, *users)))

    def wanted(self, policy: Policy) -> Wanted:
        """Return what must be looked up for the command lines in this call, and for what may be a name."""
        lines = (line for line in self.lines.values() if isinstance(line, CommandLine))
        names = wanted_names(self.strings, self._effects, policy)
        return Wanted.together((*(command.wanted(line, policy, policy.shell_rules) for line in lines), names))

    @property
    def _effects(self) -> Effect:
        return self.spec.effects if self.spec is not None else Effect.ALL

    @property
    def _declared(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.spec.schema.get("properties", {}) if self.spec is not None else {}
        return found

    def _is_usual(self, name: str, value: object) -> bool:
        """Whether an argument is the declared default; 1 is not True, and 0 not False."""
        schema = self._declared.get(name)
        usual = schema.get("default", ...) if isinstance(schema, Mapping) else ...
        return type(usual) is type(value) and usual == value

    @property
    def _lasts(self) -> bool:
        switches = (key for key, schema in self._declared.items() if schema.get(LASTS_KEY))
        return any(self.arguments.get(key) for key in switches)

    def read(
        self,
        policy: Policy,
        resolved: Mapping[str, str],
        facts: CommandFacts | None = None,
        named: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Action:
        """Return the frozen Action.

        `resolved` maps each of `paths()` to the path with links followed; `facts` are what was found of
        `wanted()`. Without facts no command line counts as one that only reads. `named` are the paths that
        strings nobody declared name, where these are known otherwise than by the facts.
        """
        known = CommandFacts() if facts is None else facts
        if named is None:
            named = named_paths(self.strings, self._effects, policy, known)
        resolved = {**known.real, **resolved}
        lines = {text: _looked_up(line, known, policy) for text, line in self.lines.items()}
        action = Action(
            call=self.call,
            spec=self.spec,
            arguments=_freeze(self.arguments),
            digest=digest_of(self.call.tool, self.arguments),
            problems=self.problems,
            atoms=tuple(_atoms(self.strings, policy, resolved, lines, named)),
            effects=self._effects,
            nearest=self.nearest,
            typed=self.typed,
            lasts=self._lasts,
            usual=tuple(name for name, value in self.arguments.items() if self._is_usual(name, value)),
            free=tuple(name for name in self.arguments if name not in self._declared),
        )
        return replace(action, effects=action.effects & effects_at_most(action, policy))


def _looked_up(
    line: CommandLine | Unreadable, facts: CommandFacts, policy: Policy
) -> CommandLine | Unreadable:
    return line if isinstance(line, Unreadable) else command.surveyed(line, facts, policy)


def effects_at_most(action: Action, policy: Policy) -> Effect:
    """Return what a call can do at most: where it says command lines and nothing else, what they can.

    That holds for a trusted tool: another may do more with a line than run it.
    """
    if not action.is_command or action.spec is None or action.spec.level is not TrustLevel.TRUSTED:
        return Effect.ALL
    done = Effect.READ
    for atom in action.atoms:
        done |= command.effects_of(atom.canonical, atom.raw, policy, policy.shell_rules)  # type: ignore[arg-type]
    return done


def is_tool_name(name: str) -> bool:
    """Whether a tool can have this name: every model accepts it."""
    return _NAME.fullmatch(name) is not None


def _nearest(name: str, specs: Mapping[str, ToolSpec]) -> str | None:
    """Return the tool whose name is most like one that no tool has, however that is written."""
    written = re.sub(r"[^a-z0-9]+", "_", name[:MAX_NAME].lower())
    near = difflib.get_close_matches(written, specs, n=1)
    return near[0] if near else None


def _is_path(leaf: Leaf) -> bool:
    return Kind.PATH in leaf.kinds or (Kind.UNDECLARED in leaf.kinds and could_be_path(leaf.text))


def _is_line(leaf: Leaf, effects: Effect) -> bool:
    """Whether a string is a command line, or could be one."""
    return Kind.COMMAND in leaf.kinds or (Kind.UNDECLARED in leaf.kinds and Effect.EXECUTE in effects)


def _atoms(
    found: Iterable[Leaf],
    policy: Policy,
    resolved: Mapping[str, str],
    lines: Mapping[str, CommandLine | Unreadable],
    named: Mapping[str, tuple[str, ...]],
) -> Iterator[Atom]:
    for leaf in found:
        for kind in sorted(leaf.kinds):
            match kind:
                case Kind.PATH:
                    place = _place(leaf.text, policy, resolved)
                    yield Atom(kind, leaf.pointer, leaf.text, place, only_read=leaf.only_read)
                case Kind.URL:
                    yield Atom(kind, leaf.pointer, leaf.text, _url(leaf.text))
                case Kind.COMMAND:
                    yield Atom(kind, leaf.pointer, leaf.text, lines[leaf.text])
                case Kind.DESTINATION:
                    yield from _destinations(leaf)
                case _:
                    yield Atom(kind, leaf.pointer, leaf.text, leaf.text)
        if leaf.kinds & {Kind.UNDECLARED, Kind.DESTINATION}:
            yield from _readings(leaf, policy, resolved, lines, named)


def _readings(
    leaf: Leaf,
    policy: Policy,
    resolved: Mapping[str, str],
    lines: Mapping[str, CommandLine | Unreadable],
    named: Mapping[str, tuple[str, ...]],
) -> Iterator[Atom]:
    """Yield everything a string nobody declared could be: URLs, a path, a command line."""
    for suspect in suspects_in(leaf.text):
        yield Atom(Kind.URL, leaf.pointer, suspect, parse_url(suspect), declared=False)
    if Kind.UNDECLARED not in leaf.kinds:
        return
    if could_be_path(leaf.text):
        yield Atom(Kind.PATH, leaf.pointer, leaf.text, _place(leaf.text, policy, resolved), declared=False)
    for path in named.get(leaf.text, ()):
        yield Atom(Kind.PATH, leaf.pointer, leaf.text, _place(path, policy, resolved), declared=False)
    if leaf.text in lines:
        yield Atom(Kind.COMMAND, leaf.pointer, leaf.text, lines[leaf.text], declared=False)


def _url(text: str) -> Url | Unreadable:
    """Read what is declared a URL; `www.` begins one as it does for everybody, which is then an https one."""
    return parse_url(f"https://{text}" if text[:4].lower() == "www." else text)


def _destinations(leaf: Leaf) -> Iterator[Atom]:
    for raw, place in destinations_in(leaf.text):
        yield Atom(Kind.DESTINATION, leaf.pointer, raw, place if place is not None else raw)


def _as_file(name: str) -> str:
    return f"./{name}"


def _place(raw: str, policy: Policy, resolved: Mapping[str, str]) -> ResolvedPath | Unreadable:
    is_no_user = is_user_or_file(raw) and resolved.get(raw) == raw
    located = locate(_as_file(raw) if is_no_user else raw, policy)
    if isinstance(located, Unreadable):
        return located
    real = resolved.get(located.text)
    if real is None:
        return Unreadable("the path cannot be followed, or was not looked up")
    return ResolvedPath(located.text, real, located.escaped)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a text is as JSON, None where it is none.

    `problem` is what a strict reader holds against it, "" for nothing.
    """

    value: Any
    problem: str = ""


def _load(text: str) -> _Loaded:
    """Parse JSON; if a key occurs twice, the last value counts and it is a problem, as NaN is."""
    problems: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            problems.append("the arguments name the same key twice")
        return found

    def constant(name: str) -> float:
        problems.append("NaN and Infinity are not JSON")
        return float(name)

    value = None
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        problems.append(_not_valid(error))
    return _Loaded(value, next(iter(problems), ""))


def _as_meant(call: ToolCall) -> str:
    """Return a call's arguments as they came, without the margins a model copied from what it was shown."""
    return without_margins(call.arguments) if call.asker is Asker.MODEL else call.arguments


def _parse(text: str, once: Once) -> dict[str, Any]:
    """Return the arguments object, parsed once; no text at all means no arguments."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _NotJson("the arguments contain a lone surrogate") from None
    if size > MAX_ARGUMENT_BYTES:
        raise _NotJson(f"the arguments are longer than {MAX_ARGUMENT_BYTES} bytes")
    if not text.strip():
        return {}
    if depth_of(text) > MAX_DEPTH:
        raise _NotJson(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    loaded = once.of(_load, text)
    if loaded.problem:
        raise _NotJson(loaded.problem)
    value = loaded.value
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise _NotJson("the arguments contain a lone surrogate") from None
    except (ValueError, RecursionError) as error:
        raise _NotJson(_not_valid(error)) from None
    if not isinstance(value, dict):
        raise _NotJson("the arguments must be one JSON object")
    if _count(value) > MAX_LEAVES:
        raise _NotJson(f"the arguments have more than {MAX_LEAVES} values")
    return value


def depth_of(text: str) -> int:
    """Return how deep the brackets nest; counted before parsing, which would recurse."""
    deepest = depth = 0
    for char in _JSON_STRING.sub("", text):
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _not_valid(error: Exception) -> str:
    """Say where JSON broke, in our words: the parser's own message may quote the text."""
    where = "a number or a nesting is too large"
    if isinstance(error, json.JSONDecodeError):
        where = f"line {error.lineno}, column {error.colno}"
    return f"the arguments are not valid JSON: {where}"


def _count(value: object) -> int:
    """Count leaves; an empty container is one, so that nothing grows for free."""
    if isinstance(value, (dict, list)):
        return max(1, sum(map(_count, value.values() if isinstance(value, dict) else value)))
    return 1


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: keys sorted, no blanks."""
    return json.dumps(thaw(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def thaw(value: object) -> Any:
    """Return plain dicts and lists for a frozen tree."""
    if isinstance(value, Mapping):
        return {key: thaw(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(child) for child in value]
    return value


def _freeze(value: object) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({key: _freeze(child) for key, child in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(child) for child in value)
    return value


def digest_of(tool: str, arguments: Mapping[str, Json]) -> str:
    """Return the digest of a call: the SHA-256 (hex) of the tool's name and the canonical arguments.

    An approval holds for the digest that was approved, so every Action has its digest from here.
    """
    text = f"{tool}\0{canonical_json(arguments)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def following_action(
    of: Action, call_id: str, spec: ToolSpec, arguments: Mapping[str, Json], atoms: Iterable[Atom]
) -> Action:
    """Return the Action of a call that follows from running another, `of`.

    Nobody wrote such a call, so there is nothing to read: its arguments are the command lines of `of` and the
    given `arguments`, and it comes from whom `of` comes from. Its text and its digest are those it would have
    if a model had written it.
    """
    lines = [atom.shown for atom in of.of_kind(Kind.COMMAND)]
    whole: dict[str, Json] = {"command": lines[0] if len(lines) == 1 else lines, **arguments}
    first = of.call
    text = canonical_json(whole)
    return Action(
        call=ToolCall(call_id, spec.name, text, first.asker, first.model_id, first.through),
        spec=spec,
        arguments=MappingProxyType(whole),
        digest=digest_of(spec.name, whole),
        problems=(),
        atoms=tuple(atoms),
        effects=spec.effects,
        of=of,
    )


def secrets_in(action: Action) -> frozenset[str]:
    """Return the values that were declared secret, also where the rest of the call does not fit its tool."""
    return frozenset(leaf.text for leaf in _secret_leaves(action) if leaf.text)


def shown_arguments(action: Action) -> Mapping[str, Json]:
    """Return an action's arguments without the values that were declared secret; they alone, if none was."""
    return _replaced_secrets(action, _mask)


def without_secrets(arguments: str, spec: ToolSpec | None, once: Once | None = None) -> str:
    """Return the arguments of a call as they may be shown and kept; what cannot be read is hidden whole.

    `once` is the call's: its arguments are parsed for all who read them.
    """
    if spec is None or not arguments.strip() or not takes_secret(spec.schema):
        return arguments
    given = (once or Once()).of(_load, arguments).value
    if not isinstance(given, dict):
        return _mask(arguments)
    try:
        pointers = {leaf.pointer for leaf in leaves(given, spec.schema) if Kind.SECRET in leaf.kinds}
        shown = _replaced(given, "", pointers, _mask)
        return json.dumps(shown, ensure_ascii=False) if pointers else arguments
    except (ValueError, RecursionError):
        return _mask(arguments)


def texts_of(action: Action) -> Iterator[str]:
    """Yield every value of a call as text, keys a model chose included; secrets are left out."""
    waiting: list[object] = [_replaced_secrets(action, lambda _: None)]
    while waiting:
        match waiting.pop(0):
            case Mapping() as inner:
                waiting[:0] = inner.values()
            case (list() | tuple()) as inner:
                waiting[:0] = inner
            case str() as text:
                yield text
            case (int() | float()) as number if not isinstance(number, bool):
                yield str(number)
    yield from (atom.raw for atom in action.atoms if atom.pointer.endswith("#"))


def takes_secret(schema: Any) -> bool:
    """Whether a value is declared secret anywhere in a schema."""
    if isinstance(schema, Mapping):
        return schema.get(KIND_KEY) == Kind.SECRET or any(map(takes_secret, schema.values()))
    return isinstance(schema, (list, tuple)) and any(map(takes_secret, schema))


def _secret_leaves(action: Action) -> Iterator[Leaf]:
    """Yield the leaves that were declared secret; an action with problems has no atoms to tell them by."""
    if action.problems and action.spec is not None:
        found = leaves(action.arguments, action.spec.schema)
        yield from (leaf for leaf in found if Kind.SECRET in leaf.kinds)
    for atom in action.of_kind(Kind.SECRET):
        yield Leaf(atom.pointer, atom.raw, frozenset({atom.kind}))


def _replaced_secrets(action: Action, instead: Callable[[object], object]) -> Mapping[str, Json]:
    """Return an action's arguments with what `instead` makes of each value that was declared secret."""
    pointers = {leaf.pointer for leaf in _secret_leaves(action)}
    found: Mapping[str, Json] = action.arguments
    return _replaced(found, "", pointers, instead) if pointers else found


def _mask(value: object) -> str:
    return mask_of("secret", str(value))


def _replaced(value: object, pointer: str, pointers: set[str], instead: Callable[[object], object]) -> Any:
    if pointer in pointers:
        return instead(value)
    if isinstance(value, Mapping):
        steps = {key: pointer + pointer_step(key) for key in value}
        return {key: _replaced(child, steps[key], pointers, instead) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(one, pointer + pointer_step(i), pointers, instead) for i, one in enumerate(value)]
    return value
