"""A call is read once, strictly, into everything its strings could mean."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.action import (
    MAX_ARGUMENT_BYTES,
    MAX_DEPTH,
    MAX_LEAVES,
    ActionBuilder,
    canonical_json,
    thaw,
)
from leeward.security.call import Checked, SchemaProblem, ToolCall
from leeward.security.kinds import CommandLine, Effect, Kind, Unreadable
from leeward.security.outcome import Category
from leeward.security.paths import ResolvedPath
from leeward.security.url import Url

DEEP = MAX_DEPTH - 1
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)

REFUSED = {
    "duplicate key": '{"a": 1, "a": 2}',
    "duplicate key, escaped": '{"a": 1, "\\u0061": 2}',
    "duplicate key below": '{"b": [{"a": 1, "a": 1}]}',
    "NaN": '{"a": NaN}',
    "Infinity": '{"a": Infinity}',
    "minus Infinity": '{"a": -Infinity}',
    "a float beyond range": '{"a": 1e999}',
    "a negative float beyond range": '{"a": [-1e999]}',
    "an integer of 5,000 digits": '{"a": ' + "9" * 5000 + "}",
    "nested one too deep": '{"a":' + "[" * (DEEP + 1) + "]" * (DEEP + 1) + "}",
    "nested 5,000 deep": '{"a":' + "[" * 5000 + "]" * 5000 + "}",
    "nested 500,000 deep": '{"a":' + "[" * 500_000,
    "nested deep behind a string that never ends": '{"a": "' + "[" * 100,
    "one leaf too many": json.dumps({"a": [0] * (MAX_LEAVES + 1)}),
    "one empty list too many": json.dumps({"a": [[]] * (MAX_LEAVES + 1)}),
    "one byte too long": '{"a": "' + "x" * (MAX_ARGUMENT_BYTES + 1 - 9) + '"}',
    "too long in UTF-8 only": '{"a": "' + "é" * (MAX_ARGUMENT_BYTES // 2) + '"}',
    "half a surrogate pair, escaped": '{"a": "\\ud800"}',
    "half a surrogate pair in a key": '{"\\udfff": 1}',
    "half a surrogate pair, raw": '{"a": "\ud800"}',
    "an array": "[1]",
    "a string": '"a"',
    "null": "null",
    "a number": "1",
    "two objects": '{"a": 1} {"a": 2}',
    "trailing garbage": '{"a": 1};',
    "trailing comma": '{"a": 1,}',
    "a comment": '{"a": 1 /* one */}',
    "single quotes": "{'a': 1}",
    "a byte order mark": '\ufeff{"a": 1}',
    "raw newline in a string": '{"a": "b\nc"}',
    "cut off": '{"a": "b',
    "python": "{'a': None}",
    "hexadecimal": '{"a": 0x10}',
    "leading zero": '{"a": 01}',
    "NUL": '{"a": 1}\0',
}

READ = {
    "nothing": ("", {}),
    "blanks": (" \n\t ", {}),
    "an empty object": ("{}", {}),
    "blanks around": (' \n{"a": 1}\n ', {"a": 1}),
    "as deep as allowed": ('{"a":' + "[" * DEEP + "]" * DEEP + "}", None),
    "as many leaves as allowed": (json.dumps({"a": [0] * MAX_LEAVES}), {"a": (0,) * MAX_LEAVES}),
    "many small objects": (json.dumps({"a": [{"b": 0}] * MAX_LEAVES}), None),
    "as long as allowed": ('{"a": "' + "x" * (MAX_ARGUMENT_BYTES - 9) + '"}', None),
    "brackets in a string": ('{"a": "' + "[{" * 500 + '"}', {"a": "[{" * 500}),
    "escaped quotes and brackets": ('{"a": "\\"' + "[" * 100 + '\\\\"}', {"a": '"' + "[" * 100 + "\\"}),
    "a surrogate pair": ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    "an integer of 4,000 digits": ('{"a": ' + "9" * 4000 + "}", {"a": int("9" * 4000)}),
    "the same key in two objects": ('{"a": {"b": 1}, "c": {"b": 2}}', {"a": {"b": 1}, "c": {"b": 2}}),
}


def read(make, text: str, tool=None):
    return make.action(tool or make.spec(schema={}), text)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_two_readers_could_read_differently_is_a_problem(make, text: str) -> None:
    found = read(make, text)
    assert [problem.category for problem in found.problems] == [Category.INVALID_PARAMETERS]
    assert found.arguments == {} and found.atoms == ()
    assert len(found.problems[0].message) < 100, "the parser's own words may quote the text"


@pytest.mark.parametrize(("text", "meant"), READ.values(), ids=READ)
def test_ordinary_arguments_are_read(make, text: str, meant) -> None:
    found = read(make, text)
    assert found.problems == ()
    assert meant is None or found.arguments == meant


@pytest.mark.parametrize("unit", ['\\"', "\\\\", '"', "\\", '[\\"', '"{', "\\u"])
@pytest.mark.parametrize("start", ['{"a": "', '"', ""])
def test_hostile_text_is_refused_in_linear_time(make, unit: str, start: str) -> None:
    began = time.process_time()
    read(make, start + unit * (1_000_000 // len(unit)) + "\\")
    assert time.process_time() - began < 2, (
        "walking it once takes a few milliseconds, walking it again from every quote an hour"
    )


@pytest.mark.parametrize(
    "name", ["", "Read", "a b", "a-b", "a.b", "a" * 65, "réad", "read\n", "\x1b[2J", "../read", "\ud800"]
)
def test_a_name_no_tool_can_have_is_a_problem_of_its_own(make, name: str) -> None:
    action = ActionBuilder.of(ToolCall("c1", name, "{}"), {}).read(make.policy(), {})
    assert [problem.category for problem in action.problems] == [Category.TOOL_NOT_FOUND]


def test_an_unknown_tool_is_told_with_the_nearest_name(make) -> None:
    specs = {name: make.spec(name) for name in ("read", "write", "list_directory")}
    near = ActionBuilder.of(make.call("list_dir", "]broken["), specs).read(make.policy(), {})
    far = ActionBuilder.of(make.call("zzzz"), specs).read(make.policy(), {})
    assert (near.spec, near.nearest, near.problems) == (None, "list_directory", ())
    assert far.nearest is None


@pytest.mark.parametrize(
    ("given", "checked", "where"),
    [
        ({"a": "5"}, {"a": 5}, ["/a"]),
        ({"a": 5}, {"a": "5"}, ["/a"]),
        ({"a": 1}, {"a": True}, ["/a"]),
        ({"a": False}, {"a": 0}, ["/a"]),
        ({"a": "https://GOOD.com"}, {"a": "https://good.com/"}, ["/a"]),
        ({"a": " x"}, {"a": "x"}, ["/a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["/a"]),
        ({"a": ["x"]}, {"a": "x"}, ["/a"]),
        ({"a": ["x", "y"]}, {"a": {"0": "x"}}, ["/a"]),
        ({"a": {"b": 1, "c": "2"}}, {"a": {"b": 1, "c": 2}}, ["/a/c"]),
        ({"a": 1, "b": 2}, {"a": 1}, ["/b"]),
        ({"a": None}, {}, ["/a"]),
        ({"a/b": "1", "~": "2"}, {"a/b": 1, "~": 2}, ["/a~1b", "/~0"]),
        ({"a": 9007199254740993}, {"a": 9007199254740992.0}, ["/a"]),
        ({"a": 1}, {"a": 1, "limit": 10}, []),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": None}}, []),
        ({"a": ["x", ["y"]]}, {"a": ("x", ("y",))}, []),
        ({"a": 1}, {"a": 1.0}, []),
    ],
)
def test_a_checker_may_add_defaults_and_change_nothing(make, given, checked, where) -> None:
    action = make.action(make.spec(schema={}, check=lambda _: Checked(checked)), given)
    assert [problem.pointer for problem in action.problems] == where
    assert {problem.category for problem in action.problems} <= {Category.TYPE_MISMATCH}


def test_a_checkers_problems_are_all_told(make) -> None:
    problems = (SchemaProblem("/a", "no"), SchemaProblem("/b", "no"))
    action = make.action(make.spec(check=lambda given: Checked(given, problems)), {"a": 1})
    assert action.problems == problems and action.arguments == {"a": 1} and action.atoms == ()


# ------------------------------------------------------------------ what a string could be

UNDECLARED = [
    ("what is new? (a & b)", []),
    ("an ordinary sentence; with signs | and <tags>", []),
    ("1/2 of it, and/or more", []),
    ("~5 minutes", []),
    ("~ about a day", []),
    ("file.txt", []),
    ("wait.. what", []),
    ("../../x", [Kind.PATH]),
    ("/etc/passwd", [Kind.PATH]),
    ("~/x", [Kind.PATH]),
    ("~root/x", [Kind.PATH]),
    (".env", [Kind.PATH]),
    ("a/../../b", [Kind.PATH]),
    ("a\\..\\b", [Kind.PATH]),
    ("%2e%2e%2fetc", [Kind.PATH]),
    ("a/%252e%252e/b", [Kind.PATH]),
    ("see https://a.example/x?y=1 there", [Kind.URL]),
    ("https://a.example/x", [Kind.URL]),
    ("/x and https://a.example", [Kind.URL, Kind.PATH]),
]


@pytest.mark.parametrize(("text", "readings"), UNDECLARED, ids=[text for text, _ in UNDECLARED])
@pytest.mark.parametrize("shape", ["plain", "list", "object", "key"])
def test_an_undeclared_string_is_everything_it_could_be_wherever_it_stands(
    make, text, readings, shape
) -> None:
    arguments = {
        "plain": {"q": text},
        "list": {"q": [[text]]},
        "object": {"q": {"r": [{"s": text}]}},
        "key": {text: 1},
    }[shape]
    found = [atom for atom in make.action(make.spec(), arguments).atoms if not atom.declared]
    assert sorted(atom.kind for atom in found) == sorted(readings)
    assert all(atom.pointer.endswith("#") == (shape == "key") for atom in found)


def test_an_undeclared_string_is_a_command_where_the_tool_executes(make) -> None:
    by_effect = {
        effect: [
            atom.canonical
            for atom in make.action(make.spec(effects=effect, kinds={"q": None}), {"q": "ls -l"}).of_kind(
                Kind.COMMAND
            )
        ]
        for effect in (Effect.READ, Effect.EXECUTE, Effect.ALL)
    }
    read = {effect: [line.actions for line in lines] for effect, lines in by_effect.items()}
    line = (("ls", "-l"),)
    assert read == {Effect.READ: [], Effect.EXECUTE: [line], Effect.ALL: [line]}


def test_a_declared_string_is_only_what_it_is_declared_to_be(make) -> None:
    tool = make.spec(
        effects=Effect.ALL,
        kinds={"t": Kind.TEXT, "p": Kind.PATH, "u": Kind.URL, "c": Kind.COMMAND, "d": Kind.DESTINATION},
    )
    given = {
        "t": "../x https://a.example",
        "p": "https://a.example",
        "u": "../x",
        "c": "../x",
        "d": "https://b.example/hook",
    }
    action = make.action(tool, given)
    assert [(atom.kind, atom.pointer, type(atom.canonical)) for atom in action.atoms] == [
        (Kind.TEXT, "/t", str),
        (Kind.PATH, "/p", ResolvedPath),
        (Kind.URL, "/u", Unreadable),
        (Kind.COMMAND, "/c", CommandLine),
        (Kind.DESTINATION, "/d", str),
        (Kind.URL, "/d", Url),
    ]


def test_a_path_that_was_not_looked_up_is_unreadable(make) -> None:
    tool = make.spec(kinds={"p": Kind.PATH})
    action = ActionBuilder.of(make.call("tool", {"p": "a"}), {"tool": tool}).read(make.policy(), {})
    assert isinstance(action.of_kind(Kind.PATH)[0].canonical, Unreadable)


def test_every_path_is_looked_up_once(make) -> None:
    tool = make.spec(kinds={"p": Kind.PATH, "q": Kind.PATH, "r": None, "t": Kind.TEXT})
    draft = ActionBuilder.of(
        make.call("tool", {"p": "a", "q": "./a", "r": "~/x", "t": "/etc/passwd"}), {"tool": tool}
    )
    assert sorted(draft.paths(make.policy())) == ["/home/ada/x", "/ws/a"]


# ------------------------------------------------------------------ frozen, and one hash for one call


@given(JSON)
@example({"b": 1, "a": [True, None, "é\u2028", 1.5, -0.0]})
def test_the_digest_depends_on_the_value_alone(make, value) -> None:
    tool = make.spec(schema={})
    one = make.action(tool, json.dumps({"x": value}))
    other = make.action(
        tool, json.dumps({"x": value}, indent=2, ensure_ascii=False, sort_keys=True), call_id="c2"
    )
    assert one.problems == other.problems == ()
    assert one.digest == other.digest and thaw(one.arguments) == {"x": value}
    assert json.loads(canonical_json(one.arguments)) == {"x": value}
    assert make.action(make.spec("tool2", schema={}), {"x": value}).digest != one.digest


@given(JSON, JSON)
@example("a", "a\0")
@example(1, "1")
@example([], {})
@example([1], 1)
def test_other_arguments_have_another_digest(make, one, other) -> None:
    tool = make.spec(schema={})
    digests = {make.action(tool, {"x": value}).digest for value in (one, other)}
    assert len(digests) == len({canonical_json({"x": one}), canonical_json({"x": other})})


def test_an_action_cannot_be_changed(make) -> None:
    given = {"a": {"b": ["c"]}}
    action = make.action(make.spec(schema={}, check=lambda _: Checked(given)), {"a": {"b": ["c"]}})
    given["a"]["b"].append("later")
    assert action.arguments["a"]["b"] == ("c",)
    with pytest.raises(TypeError):
        action.arguments["a"] = 1
    with pytest.raises(TypeError):
        action.arguments["a"]["b"] = 1
    with pytest.raises(AttributeError):
        action.digest = ""


@given(
    st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("utf-8", "surrogateescape"))
)
@example('{"a": "\\')
@example('{"a": "\\ud800\\udc00')
def test_no_text_makes_reading_raise(make, text: str) -> None:
    assert read(make, text) == read(make, text)


TILDE = [
    # path, what is known of users, where it lies (None: it cannot be read)
    ("~tilde", {}, "/ws/~tilde"),
    ("~tilde", {"/ws/~tilde": "/srv/x"}, "/srv/x"),
    ("~ada", {"~ada": "/home/ada"}, None),
    ("~root", {"~root": "/root"}, None),
    ("~root/x", {"~root/x": "~root/x"}, None),
    ("./~root", {"~root": "/root"}, "/ws/~root"),
    ("~", {}, "/home/ada"),
]


@pytest.mark.parametrize("kind", [Kind.PATH, None])
@pytest.mark.parametrize(("path", "known", "real"), TILDE)
def test_a_tilde_and_a_name_are_a_file_where_there_is_no_such_user(make, path, known, real, kind) -> None:
    found = make.action(make.spec(kinds={"p": kind}), {"p": path}, resolved=known)
    (atom,) = found.of_kind(Kind.PATH)
    assert (atom.canonical.real if isinstance(atom.canonical, ResolvedPath) else None) == real


def test_a_path_nobody_looked_up_cannot_be_read(make) -> None:
    tool = make.spec(kinds={"p": Kind.PATH})
    for path in ("a", "~tilde"):
        draft = ActionBuilder.of(ToolCall("c", "tool", json.dumps({"p": path})), {"tool": tool})
        (atom,) = draft.read(make.policy(), {}).of_kind(Kind.PATH)
        assert isinstance(atom.canonical, Unreadable)
