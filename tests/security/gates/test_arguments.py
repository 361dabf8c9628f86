"""The gate for REQ-F-045: what it denies, its message, and what it leaves to others."""

import json
from types import MappingProxyType

from leeward.security.call import Action, Atom, ToolCall
from leeward.security.checks import PATTERNS
from leeward.security.command import parse_command
from leeward.security.gates import arguments
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Category
from leeward.security.paths import ResolvedPath
from leeward.security.policy import Policy
from leeward.security.session import Session
from leeward.security.url import parse_url
from leeward.security.verdict import Allow, Deny

SESSION = Session("s", Policy("/w", "/home/u"))


def action(*atoms):
    call = ToolCall("1", "tool", "{}")
    return Action(call, None, MappingProxyType({}), "0" * 64, (), atoms, Effect.READ)


def atom(kind, raw, pointer="/id", declared=True, escaped=False):
    canonical = {
        Kind.URL: parse_url,
        Kind.COMMAND: parse_command,
        Kind.PATH: lambda text: ResolvedPath(f"/w/{text}", f"/w/{text}", escaped),
    }.get(kind, str)(raw)
    return Atom(kind, pointer, raw, canonical, declared)


TABLE = [
    (Kind.RESOURCE_ID, "../etc/passwd", "path_traversal"),
    (Kind.RESOURCE_ID, "..", "path_traversal"),
    (Kind.RESOURCE_ID, "%2e%2e%2fetc", "encoded_traversal"),
    (Kind.RESOURCE_ID, "a%252e", "double_encoding"),
    (Kind.RESOURCE_ID, "id?fields=name", "embedded_query"),
    (Kind.RESOURCE_ID, "null", "literal_null"),
    (Kind.RESOURCE_ID, "owner/name", None),
    (Kind.RESOURCE_ID, "v1.2...v1.3", None),
    (Kind.PATH, "src/../lib/x.py", None),
    (Kind.PATH, "/home/user/../x", None),
    (Kind.PATH, "..%2f..%2fx", "encoded_traversal"),
    (Kind.PATH, "a\u202etxt.exe", "invisible_character"),
    (Kind.PATH, "notes: today.md", None),
    (Kind.URL, "https://h.example/a?b=c#d", None),
    (Kind.URL, "https://u:p@h.example/", "userinfo"),
    (Kind.URL, "https://h.example/%2e%2e/x", "encoded_traversal"),
    (Kind.TEXT, "use ../x, <id> & null;\n", None),
    (Kind.TEXT, "nul\0", "control_character"),
    (Kind.COMMAND, "cat ../x | wc -l", None),
    (Kind.COMMAND, "echo hi\U000e0068", "invisible_character"),
    (Kind.UNDECLARED, "what is new? (a & b)", None),
    (Kind.DESTINATION, "git@github.com:owner/name.git", None),
    (Kind.DESTINATION, "#general", None),
    (Kind.DESTINATION, "#", "type_pattern_mismatch"),
    (Kind.DESTINATION, "##general", "fragment_identifier"),
    (Kind.DESTINATION, "\n#general", "fragment_identifier"),
    (Kind.DESTINATION, "host.example#x", "fragment_identifier"),
    (Kind.DESTINATION, "#general?x=1", "embedded_query"),
    (Kind.RESOURCE_ID, "#general", "fragment_identifier"),
    (Kind.DESTINATION, "ext::sh", "unexpected_scheme"),
]


def failures(candidate):
    found = []
    for kind, raw, pattern in TABLE:
        verdict = candidate(action(atom(kind, raw)), SESSION)
        said = verdict.rule if isinstance(verdict, Deny) else None
        if said != pattern:
            found.append(f"{kind} {raw!r}: {said}, not {pattern}")
    return found


def test_the_gate_answers_the_table():
    assert failures(arguments) == []


def test_the_table_finds_the_obvious_mistake(planted):
    assert failures(planted("arguments").arguments) != []


def test_the_refusal_carries_what_the_requirement_asks_for():
    verdict = arguments(action(atom(Kind.RESOURCE_ID, "doc?x=1", "/path")), SESSION)
    expected = {
        "message": "Argument 'path' contains a rejected pattern",
        "argument": "path",
        "input_value": "doc?x=1",
        "rejected_pattern": "embedded_query",
        "phase": "validation",
        "retryable": False,
        "suggestion": "doc",
    }
    assert verdict.detail == expected
    assert (verdict.rule, verdict.code, verdict.category) == (
        "embedded_query",
        "INVALID_AGENT_INPUT",
        Category.INVALID_PARAMETERS,
    )
    assert verdict.suggestion == "doc"
    assert verdict.facts == (("argument", "path"), ("value", "doc?x=1"))
    assert "doc" not in verdict.reason


def test_without_a_suggestion_there_is_no_such_key():
    verdict = arguments(action(atom(Kind.RESOURCE_ID, "<id>")), SESSION)
    assert verdict.suggestion is None
    assert "suggestion" not in verdict.detail


def test_several_bad_arguments_are_all_told_and_the_first_leads():
    verdict = arguments(
        action(
            atom(Kind.TEXT, "fine", "/note"),
            atom(Kind.RESOURCE_ID, "a#b", "/id"),
            atom(Kind.RESOURCE_ID, "../x", "/items/0/a~1b~0c"),
        ),
        SESSION,
    )
    first, second = verdict.detail["errors"]
    assert {key: value for key, value in verdict.detail.items() if key != "errors"} == first
    assert (first["argument"], second["argument"]) == ("id", "items.0.a/b~c")
    assert set(second) == set(first) - {"suggestion"}
    assert json.loads(json.dumps(verdict.detail)) == verdict.detail


def test_of_several_readings_of_one_argument_the_earlier_pattern_wins_and_it_is_told_once():
    raw = "%2e%2e/\0"
    verdict = arguments(
        action(atom(Kind.UNDECLARED, raw, "/q"), atom(Kind.PATH, raw, "/q", declared=False)), SESSION
    )
    assert verdict.rule == "encoded_traversal"
    assert "errors" not in verdict.detail


def test_a_part_read_out_of_prose_is_told_as_the_whole_argument():
    prose = "please open https://u:p@h.example/ now"
    verdict = arguments(
        action(
            atom(Kind.UNDECLARED, prose, "/q"),
            atom(Kind.URL, "https://u:p@h.example/", "/q", declared=False),
        ),
        SESSION,
    )
    assert verdict.detail["input_value"] == prose
    assert verdict.rule == "userinfo"


def test_a_path_that_leaves_is_suggested_as_the_absolute_path():
    found = Atom(
        Kind.PATH, "/path", "../etc/passwd", ResolvedPath("/etc/passwd", "/etc/passwd", escaped=True)
    )
    verdict = arguments(action(found), SESSION)
    assert (verdict.rule, verdict.suggestion) == ("path_traversal", "/etc/passwd")


def test_a_key_a_model_chose_is_named_like_its_value():
    verdict = arguments(action(atom(Kind.UNDECLARED, "a\0", "/env/a#")), SESSION)
    assert verdict.detail["argument"] == "env.a"


def test_nothing_to_judge_is_no_objection():
    assert arguments(action(), SESSION) == Allow()


def test_every_rule_is_a_stable_name():
    assert {pattern for *_, pattern in TABLE if pattern} <= set(PATTERNS)
