"""Validate arguments strictly, against a function's signature or a JSON Schema.

Signatures go through pydantic in strict JSON mode: `"5"` is not 5, and a value that validation would change
is refused, because what was judged must be what is run. A function gets what the check made of the arguments,
with the judged values in it (`judged.py`); nothing is read again. A schema of an executor or a server is a
stranger's text: it may refer to nothing outside itself, and its patterns are matched in linear time.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticSerializationError

from leeward.security.call import Checked, Cleared, SchemaProblem, pointer_step
from leeward.security.kinds import KIND_KEY, Kind
from leeward.security.lazy import LazyModule, dataclass
from leeward.security.outcome import Category, PolicyBlocked
from leeward.security.schema import changes, declared_kinds

from .judged import differences, judged_values, with_judged
from .kinds import JUDGED
from .schema import Schema, nodes

if TYPE_CHECKING:
    import jsonschema_rs
else:
    jsonschema_rs = LazyModule("jsonschema_rs")

__all__ = [
    "Signature",
    "checker",
    "inner_references_only",
    "name_of",
    "own_schema",
    "plain",
    "schema_validator",
]


_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "takes *{name}; name every argument, so that each can be judged",
    inspect.Parameter.VAR_KEYWORD: "takes **{name}; name every argument, so that each can be judged",
    inspect.Parameter.POSITIONAL_ONLY: "has the positional-only '{name}'; arguments come by name",
}


def name_of(function: Callable[..., object]) -> str:
    """Return what to call a function in a message; the text of what a method is bound to is long to make."""
    return getattr(function, "__qualname__", None) or repr(function)


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles pydantic derives from the names; they tell a model nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 — pydantic's signature
        return False

    def generator_schema(self, schema: Any) -> Any:  # noqa: ARG002 — pydantic's signature
        """Refuse what can be read only once: the check would leave nothing of it."""
        raise PydanticUserError("an iterator can be read only once; take a list", code=None)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function accepts. `injected` names the parameter that gets the `Cleared`, if there is one."""

    model: type[BaseModel]
    fields: Mapping[str, str]
    schema: Mapping[str, Any]
    injected: str | None

    @classmethod
    def of(cls, function: Callable[..., object]) -> Signature:
        """Return a function's signature; that of a method is read once, for all it is bound to.

        Raises:
            TypeError: it cannot be the signature of a tool; the message names the function and says why.
        """
        method = getattr(function, "__func__", None)
        if not inspect.isfunction(method):
            return cls._read(function)
        if method not in _METHODS:
            _METHODS[method] = cls._read(function)
        # A copy: a caller that changes the schema of one tool must not change that of another.
        return replace(_METHODS[method], schema=copy.deepcopy(_METHODS[method].schema))

    @classmethod
    def _read(cls, function: Callable[..., object]) -> Signature:
        name = name_of(function)
        parameters = _parameters(function, name)
        injected = [key for key, (hint, _) in parameters.items() if hint is Cleared]
        if len(injected) > 1:
            raise TypeError(f"{name} asks for the Cleared twice: {', '.join(injected)}")
        accepted = {key: value for key, value in parameters.items() if key not in injected}
        fields = {f"argument_{index}": key for index, key in enumerate(accepted)}
        model = _model(fields, accepted, name)
        return cls(model, fields, _schema(model, name), injected[0] if injected else None)

    def check(self, arguments: Mapping[str, object]) -> Checked:
        """Return the arguments with their defaults, or every problem they have."""
        given = plain(arguments)
        try:
            text = json.dumps(given, allow_nan=False)
        except ValueError:
            return Checked(given, (SchemaProblem("", "NaN and Infinity are not JSON"),))
        try:
            value = self.model.model_validate_json(text, strict=True)
            dumped = value.model_dump(mode="json", by_alias=True)
        except ValidationError as error:
            known = tuple(self.fields.values())
            return Checked(given, tuple(_problem(detail, given, known) for detail in _details(error)))
        except PydanticSerializationError:
            return Checked(given, (_mismatch(""),))
        different = (*changes(given, dumped), *differences(value, dumped))
        changed = tuple(_mismatch(pointer) for pointer in dict.fromkeys(different))
        return Checked(given, changed) if changed else Checked(dumped, typed=value)

    def values(self, cleared: Cleared) -> dict[str, object]:
        """Return the function's keyword arguments, as the types it declares; the leave is used up.

        Raises:
            PolicyBlocked: something it declares was not judged, or the leave was used before.
        """
        arguments, action = cleared.take(), cleared.action
        typed = action.typed
        # Another tool of the same function has a model of its own, with the same fields.
        if not isinstance(typed, BaseModel) or type(typed).model_fields.keys() != self.fields.keys():
            raise PolicyBlocked("this call was not checked by the function that is to run")
        value = with_judged(typed, judged_values(arguments, self.schema, action.atoms))
        return {name: getattr(value, field) for field, name in self.fields.items()}


# Reading the built-in ones is half of what it takes to open a session.
_METHODS: WeakKeyDictionary[Callable[..., object], Signature] = WeakKeyDictionary()


def plain(value: object) -> Any:
    """Return plain dicts and lists for an immutable tree of arguments."""
    if isinstance(value, Mapping):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(child) for child in value]
    return value


def _parameters(function: Callable[..., object], name: str) -> dict[str, tuple[object, object]]:
    """Return annotation and default of each parameter; refuse those no model could fill by name."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation of {name} cannot be looked up there: {error}") from error
    found: dict[str, tuple[object, object]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in _REFUSED:
            raise TypeError(f"{name} {_REFUSED[parameter.kind].format(name=parameter.name)}")
        if parameter.name not in hints:
            raise TypeError(f"'{parameter.name}' of {name} has no annotation, so nothing tells what it is")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        found[parameter.name] = (hints[parameter.name], default)
    return found


def _model(
    fields: Mapping[str, str], accepted: Mapping[str, tuple[object, object]], name: str
) -> type[BaseModel]:
    """Build the model of the arguments; its fields are numbered, so that any parameter name will do."""
    definitions: dict[str, Any] = {}
    try:
        for field, key in fields.items():
            hint, default = accepted[key]
            definitions[field] = (hint, Field(alias=key) if default is ... else Field(default, alias=key))
        model: type[BaseModel] = create_model(
            "Arguments", __config__=ConfigDict(extra="forbid", defer_build=True), **definitions
        )
        for field, key in fields.items():  # noqa: B007 — the handler below names it
            info = model.model_fields[field]
            if not info.is_required() and info.default_factory is None:
                bare: Any = Annotated[info.annotation, None, *info.metadata]
                TypeAdapter(bare).validate_python(info.default, strict=True)
        return model
    except ValidationError as error:
        raise TypeError(f"the default of '{key}' of {name} does not fit its annotation") from error
    except PydanticUserError as error:
        raise TypeError(f"an annotation of {name} says nothing about JSON: {error.message}") from error


def _schema(model: type[BaseModel], name: str) -> Mapping[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Untitled)
        if "$defs" in schema or any(info.exclude for info in model.model_fields.values()):
            _must_be_dumped(model, schema, name)
    except PydanticUserError as error:
        raise TypeError(f"an annotation of {name} says nothing about JSON: {error.message}") from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for pointer, kinds in declared_kinds(schema):
        if len(several := sorted(kinds & {*JUDGED, Kind.COMMAND})) > 1:
            raise TypeError(
                f"{name} declares {pointer} a {' and a '.join(several)}, and no text tells which is meant; "
                "take an argument for each"
            )
    for node in nodes(schema):
        if node.get("uniqueItems"):
            raise TypeError(f"{name} takes a set, which has no order to be judged in; take a list")
        if any(KIND_KEY in inner for inner in nodes(node.get("propertyNames"))):
            raise TypeError(f"{name} declares a kind for the keys of a mapping; only values can have one")
    return schema


def _must_be_dumped(model: type[BaseModel], schema: Schema, name: str) -> None:
    dumped = model.model_json_schema(schema_generator=_Untitled, mode="serialization")
    if _kinds(schema) - _kinds(dumped):
        raise TypeError(f"{name} keeps a declared argument out of what is dumped, so nobody would judge it")


def _kinds(schema: Schema) -> Counter[object]:
    """Count the places of each kind in a schema."""
    return Counter(node[KIND_KEY] for node in nodes(schema) if KIND_KEY in node)


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _problem(detail: ErrorDetails, given: object, known: Sequence[str]) -> SchemaProblem:
    """Say one of pydantic's findings in our words; they never quote the value."""
    pointer = _pointer(detail, given)
    match detail["type"]:
        case "missing":
            return SchemaProblem(pointer, "is required")
        case "extra_forbidden":
            near = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1)
            meant = f"; did you mean '{near[0]}'?" if near and len(detail["loc"]) == 1 else ""
            return SchemaProblem(pointer, f"is not an argument of this tool{meant}")
        case kind if kind.endswith("_type"):
            return SchemaProblem(pointer, detail["msg"], Category.TYPE_MISMATCH)
        case _:
            return SchemaProblem(pointer, detail["msg"])


def _pointer(detail: ErrorDetails, given: object) -> str:
    """Return the JSON pointer of a finding; pydantic mixes names of union members into its locations."""
    pointer = ""
    for position, part in enumerate(detail["loc"]):
        last = position == len(detail["loc"]) - 1
        steps = dict(enumerate(given)) if isinstance(given, list) else given
        if isinstance(steps, dict) and part in steps:
            given = steps[part]
        elif not (last and detail["type"] == "missing"):
            continue
        pointer += pointer_step(part)
    return pointer


def _mismatch(pointer: str) -> SchemaProblem:
    return SchemaProblem(
        pointer, "would be changed by checking it; send the value itself", Category.TYPE_MISMATCH
    )


# A pattern with look-around cannot run in linear time; past this many steps it counts as not matching.
_BACKTRACK_LIMIT = 100_000

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def own_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a copy of a tool's schema that its author can no longer change.

    Raises:
        ValueError: it is no schema of an object, or it refers to something outside itself.
    """
    own: Schema = copy.deepcopy(dict(schema))
    if own.setdefault("type", "object") != "object":
        raise ValueError("the schema of a tool's arguments must be that of an object")
    inner_references_only(own)
    return own


def inner_references_only(schema: object) -> None:
    """See that a schema refers to nothing outside itself.

    Raises:
        ValueError: it does.
    """
    for node in nodes(schema):
        for word in _REFERENCES:
            target = node.get(word, "#")
            if not isinstance(target, str) or not target.startswith("#"):
                raise ValueError(f"the schema refers to {target!r}; only references within it are followed")


def schema_validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return the validator of a schema that refers to nothing outside itself; its messages hold no value.

    Raises:
        ValueError: the schema is not valid.
    """
    try:
        return jsonschema_rs.validator_for(
            schema,
            mask="the value",
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT),
        )
    except jsonschema_rs.ValidationError as error:
        raise ValueError(f"the schema is not valid: {error.message}") from error


def checker(schema: Mapping[str, Any]) -> Callable[[Mapping[str, object]], Checked]:
    """Return the check for a schema that `own_schema` made.

    Defaults of the arguments themselves are filled in before checking; deeper ones are the tool's
    own affair. Unknown arguments are refused where the schema says so.

    Raises:
        ValueError: the schema is not valid.
    """
    validator = schema_validator(dict(schema))
    properties = schema.get("properties", {})
    defaults = {
        name: child["default"]
        for name, child in properties.items()
        if isinstance(child, dict) and "default" in child
    }

    def check(arguments: Mapping[str, object]) -> Checked:
        full = copy.deepcopy(defaults) | plain(arguments)
        try:
            json.dumps(full, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            return Checked(full, (SchemaProblem("", "the arguments hold something that is not JSON"),))
        return Checked(full, tuple(map(_schema_problem, validator.iter_errors(full))))

    return check


def _schema_problem(error: jsonschema_rs.ValidationError) -> SchemaProblem:
    pointer = "".join(map(pointer_step, error.instance_path))
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Type):
        return SchemaProblem(pointer, error.message, Category.TYPE_MISMATCH)
    return SchemaProblem(pointer, error.message)
