"""Matching rules: an allow rule must cover every part of a call, a deny rule any part."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Effect, Kind
from leeward.security.paths import ResolvedPath, locate
from leeward.security.permissions import holding_back, matched, pattern_problem
from leeward.security.permissions.matching import covers, exact_patterns
from leeward.security.policy import Autonomy, Rule, RuleAction
from loading import rows_beside

ROWS = rows_beside(__file__)

# kind, value, where it leads (paths), pattern, is hit by a deny of it, is covered by an allow of it
C, U, P, D, R = Kind.COMMAND, Kind.URL, Kind.PATH, Kind.DESTINATION, Kind.RESOURCE_ID
TABLE = [
    (C, "git status", "git status", True, True),
    (C, "git  'status'", "git status", True, True),
    (C, "git status -s", "git status", True, False),
    (C, "ls ; git status -s", "git status", True, False),
    (C, "/usr/bin/rm -rf x", "rm", True, False),
    (C, "rmdir x", "rm", False, False),
    (C, "echo rm", "rm", False, False),
    (C, "git status -s", "git status *", True, True),
    (C, "git status", "git status *", True, True),
    (C, "git", "git *", True, True),
    (C, "gitk", "git *", False, False),
    (C, "git status", "git", True, False),
    (C, "cat docs/../.env", "cat docs/*", True, False),
    (C, "cat docs/a/../../.env", "cat *", True, False),
    (C, "cat -n docs/../x", "cat *", True, False),
    (C, "cat docs/../x", "cat docs/../x", True, True),
    (C, "cat docs/../x", "cat docs/[*]*/x", False, False),
    (C, "cc -I../x a.c", "cc *", True, False),
    (C, "make --file=../x", "make *", True, False),
    (C, "ls ..", "ls *", True, False),
    (C, "ls ..", "ls ..", True, True),
    (C, "git log main..next", "git log *", True, True),
    (C, "git log main..", "git log *", True, True),
    (C, "ls docs/a..b", "ls docs/*", True, True),
    (C, "cat private/p.txt", "private/**", True, False),
    (C, "ls private", "private/**", True, False),
    (C, "sort --output=private/p", "private/", True, False),
    (C, "cat /ws/src/../private/p", "private/**", True, False),
    (C, "cat privately/p", "private/**", False, False),
    (C, "cat c.pem", "**/*.pem", True, False),
    (C, "git push origin", "git * origin", True, True),
    (C, "git push x origin", "git * origin", False, False),
    (C, "anything at all", "*", True, True),
    (C, "pytest tests/a.py", "pytest tests/*", True, True),
    (C, "git status ; rm x", "git *", True, False),
    (C, "git status && rm -rf /", "git *", True, False),
    (C, "rm x | git log", "git *", True, False),
    (C, "ls || git log", "rm *", False, False),
    (C, "ls ; rm x", "rm *", True, True),
    (C, "git log ; git status", "git *", True, True),
    (C, "/bin/rm x", "rm *", True, False),
    (C, "./git status", "git *", True, False),
    (C, "rm x", "/bin/rm *", False, False),
    (C, "echo 'rm x'", "rm *", False, False),
    (C, "echo 'a b'", "echo 'a b'", True, True),
    (C, "echo a b", "echo 'a b'", False, False),
    (C, "git log $(rm x)", "git *", True, False),
    (C, "git log $(rm x)", "rm *", True, False),
    (C, "r''m x > y", "rm *", True, False),
    (C, "r\\m x", "rm *", True, True),
    (C, "CURL x &", "curl *", True, False),
    (C, "ls $(x)", "rm *", False, False),
    (C, "a > b", "*", True, True),
    (C, "cat < src/x", "cat src/*", True, False),
    (C, "cat < src/x", "src/**", True, False),
    (C, 'rm src/"$x"', "rm src/*", True, False),
    (C, "rm $(cat x)", "rm *", True, False),
    (C, "for x in a b; do npm test $x; done", "npm *", True, False),
    (C, "rm src/*.o", "rm src/*", True, True),
    (C, "pytest -q | tail -5", "pytest *", True, True),
    (C, "pytest -q > out.txt", "pytest *", True, False),
    (C, "env rm x", "rm *", True, True),
    (C, "rm -rf ~/Documents", "rm *", True, False),
    (C, "rm -rf /opt/x", "rm *", True, False),
    (C, "rm -rf /opt/x", "rm -rf /opt/*", True, True),
    (C, "rm -rf /opt/../x", "rm -rf /opt/*", True, False),
    (C, "rm /ws/a", "rm *", True, True),
    (C, "make x > /dev/null", "make *", True, True),
    (C, "make --prefix=/usr", "make *", True, False),
    (C, "make --prefix=./usr", "make *", True, True),
    (C, "run -v ..:/x", "run *", True, False),
    (C, "run --mount type=bind,source=..,target=x", "run *", True, False),
    (C, "run main..dev main.. ..a", "run *", True, True),
    (C, "bash -c 'rm x'", "rm *", True, True),
    (U, "https://docs.example/a", "docs.example", True, True),
    (U, "https://docs.example/a/b?q=1", "docs.example", True, True),
    (U, "https://docs.example/", "docs.example", True, True),
    (U, "https://docs.example/a", "https://docs.example/*", True, True),
    (U, "https://docs.example/a", "http://docs.example/*", False, False),
    (U, "http://docs.example/a", "docs.example/a", True, True),
    (U, "https://DOCS.example/a", "docs.EXAMPLE/a", True, True),
    (U, "https://docs.example/a/", "docs.example/a", True, True),
    (U, "https://docs.example/a", "docs.example/a/", False, False),
    (U, "https://docs.example/a/b", "docs.example/a", False, False),
    (U, "https://docs.example/a/b", "docs.example/a/*", True, True),
    (U, "https://docs.example/admin?x=1", "docs.example/admin", True, False),
    (U, "https://docs.example/admin?x=1", "docs.example/admin[?]x=1", True, True),
    (U, "https://docs.example:8443/a", "docs.example", True, False),
    (U, "https://docs.example:8443/a", "docs.example:8443", True, True),
    (U, "https://docs.example/a", "docs.example:8443", False, False),
    (U, "https://docs.example:443/a", "docs.example:443", True, True),
    (U, "https://a.docs.example/x", "*.docs.example", True, True),
    (U, "https://docs.example/x", "*.docs.example", False, False),
    (U, "https://evildocs.example/x", "*.docs.example", False, False),
    (U, "https://docs.example.evil.example/x", "docs.example/*", False, False),
    (U, "https://x.example/a", "*", True, True),
    (U, "https://x.example/?u=https://docs.example/a", "docs.example", False, False),
    (U, "https://x.example/?u=https://y.example", "https://x.example/[?]u=https://y.example", True, True),
    (U, "https://x.example/#docs.example", "docs.example", False, False),
    (U, "https://xn--mnchen-3ya.de/x", "münchen.de", True, True),
    (U, "https://a.xn--mnchen-3ya.de/x", "*.MÜNCHEN.de.", True, True),
    (U, "https://docs.com/x", "docs.com.", True, True),
    (U, "https://docs.com/x", "https://DOCS.com:443/*", True, True),
    (U, "https://docs.com/%C3%BC/a", "docs.com/ü/*", True, True),
    (U, "https://docs.com/~a/b", "docs.com/%7ea/*", True, True),
    (U, "https://docs.com/C_%28x%29", "docs.com/C_(x)", True, True),
    (U, "https://docs.com/C_(x)", "docs.com/C_%28x%29", True, True),
    (U, "https://docs.com/a/b", "docs.com/.*", False, False),
    (U, "https://docs.com/.a", "docs.com/.*", True, True),
    (U, "https://[2606:4700::1]/a", "[2606:4700:0::1]", True, True),
    (U, "https://docs.com/s?q=1", "docs.com/s?q=*", True, True),
    (U, "https://[2606:4700::1]/a", "[2606:4700::1]", True, True),
    (U, "https://u:p@docs.example/", "docs.example", True, False),
    (P, "src/a.py", "src/**", True, True),
    (P, "src/b/a.py", "src/**", True, True),
    (P, "src/b/a.py", "src/*", False, False),
    (P, "src/a.py", "src/*.py", True, True),
    (P, "src/a.py", "./src/*.py", True, True),
    (P, "src/a.py", "/ws/src/../src/a.py", True, True),
    (P, "src/b/a.py", "src/**/a.py", True, True),
    (P, "src/a.py", "src/**/a.py", True, True),
    (P, "a/b/c.pem", "**/*.pem", True, True),
    (P, "c.pem", "**/*.pem", True, True),
    (P, "secrets/a/b", "secrets/", True, True),
    (P, "secrets", "secrets/", True, False),
    (P, "secrets", "secrets/**", True, False),
    (P, "a/secrets", "**/secrets/**", True, False),
    (P, ".", "secrets/**", False, False),
    (P, "secrets-old/a", "secrets/", False, False),
    (P, "a/secrets/b", "**/secrets/", True, True),
    (P, "~/notes/a.md", "~/notes/*", True, True),
    (P, "/home/ada/notes/a.md", "~/notes/*", True, True),
    (P, "a/notes/a.md", "~/notes/*", False, False),
    (P, "../x", "**", True, True),
    (P, "out", "out", True, False),
    (P, "out", "/srv/x", True, False),
    (P, "out", "/srv/*", True, False),
    (P, "out", "**", True, True),
    (P, "in", "/ws/*", True, True),
    (P, "a[1].txt", "a[[]1].txt", True, True),
    (P, "a1.txt", "a[0-9].txt", True, True),
    (P, "ax.txt", "a[!0-9].txt", True, True),
    (P, "a/x", "a[!x]x", False, False),
    (P, "a^x", "a[^b]x", True, True),
    (P, "acx", "a[^b]x", False, False),
    (P, "it's.txt", "it's.txt", True, True),
    (P, "secret/a\nb", "secret/**", True, True),
    (P, "~bob/secret", "secret", True, False),
    (D, "ops@corp.example", "*@corp.example", True, True),
    (D, "ops@corp.example.evil", "*@corp.example", False, False),
    (R, "issue-7", "issue-*", True, True),
]
LINKS = {"/ws/out": "/srv/x", "/ws/in": "/ws/a"}
IDS = [f"{value} ~ {pattern}" for _, value, pattern, *_ in TABLE]


def atoms(make, kind, value):
    tool = make.spec(effects=Effect.ALL, kinds={"v": kind})
    action = make.action(tool, {"v": value}, resolved=LINKS)
    return action, action.of_kind(kind)[0]


@pytest.mark.parametrize(("kind", "value", "pattern", "hit", "covered"), TABLE, ids=IDS)
def test_a_pattern_hits_and_covers_what_it_means(make, kind, value, pattern, hit, covered) -> None:
    action, atom = atoms(make, kind, value)
    assert pattern_problem(pattern) is None
    assert (matched(Rule("tool", RuleAction.DENY, pattern), action, make.policy()) == (atom,)) is hit
    assert bool(covers((Rule("tool", RuleAction.ALLOW, pattern),), "tool", atom, make.policy())) is covered


EXACT = [(kind, value) for kind, value, *_ in TABLE] + [
    (C, "printf '%s' '*' 'a[b' '?'"), (C, "git log ; git diff '*'"), (C, "rm *.log"), (C, 'rm "$x"'),
    (C, "a >> b"), (U, "https://x.example/a/?q=*#top"), (U, "https://x.example//a//"),
    (U, "https://x.example:8443/it's"),
    (P, "a*b?[c]^d"), (D, "a*@x.example"), (R, "[1]"), (P, "it's"),
]  # fmt: skip
NEVER = {
    "git log $(rm x)",
    "ls $(x)",
    'rm "$x"',
    'rm src/"$x"',
    "rm $(cat x)",
    "for x in a b; do npm test $x; done",
    "https://u:p@docs.example/",
    "out",
    "in",
    "~bob/secret",
}


@pytest.mark.parametrize(("kind", "value"), EXACT, ids=[value for _, value in EXACT])
def test_the_narrowest_patterns_cover_the_thing_itself(make, kind, value) -> None:
    _, atom = atoms(make, kind, value)
    patterns = exact_patterns(atom)
    assert (patterns == ()) == (value in NEVER), (
        "what could not be read, or is a link, is never covered beforehand"
    )
    rules = tuple(Rule("tool", RuleAction.ALLOW, pattern) for pattern in patterns)
    assert bool(covers(rules, "tool", atom, make.policy())) == bool(patterns)


PLAIN = st.text(st.sampled_from("ab*?[]^!/.' -"), min_size=1, max_size=8)


@given(st.sampled_from([C, U, P, D]), PLAIN, PLAIN)
@example(P, "a/b", "a*b")
@example(P, "*", "a")
@example(C, "*", "a")
@example(U, "*", "a")
@example(P, "[a]", "a")
@example(C, "a ; b", "a")
def test_the_narrowest_patterns_cover_nothing_else(make, kind, one, other) -> None:
    one, other = (f"https://x.example/{text}" if kind is U else text for text in (one, other))
    (_, granted), (_, wanted) = atoms(make, kind, one), atoms(make, kind, other)
    rules = tuple(Rule("tool", RuleAction.ALLOW, pattern) for pattern in exact_patterns(granted))
    if covers(rules, "tool", wanted, make.policy()):
        same = (
            {frozenset(atom.canonical.actions) for atom in (granted, wanted)}
            if kind is C
            else {atom.shown.partition("#")[0].rstrip("/") for atom in (granted, wanted)}
        )
        assert len(same) == 1 or (
            kind is C and set(wanted.canonical.actions) <= set(granted.canonical.actions)
        )


def test_each_sub_command_must_be_covered_by_some_rule(make) -> None:
    _, atom = atoms(make, C, "git push ; npm test | tail")
    git, npm = (Rule("tool", RuleAction.ALLOW, pattern) for pattern in ("git *", "npm *"))
    assert covers((git,), "tool", atom, make.policy()) == covers((npm,), "tool", atom, make.policy()) == ()
    assert covers((npm, git), "tool", atom, make.policy()) == (git, npm)


def test_a_rule_speaks_of_its_tools_only(make) -> None:
    action, atom = atoms(make, P, "a")
    for tool, speaks in {"tool": True, "to*": True, "*": True, "tools": False, "TOOL": False}.items():
        assert (matched(Rule(tool, RuleAction.DENY), action, make.policy()) is not None) is speaks
        assert bool(covers((Rule(tool, RuleAction.ALLOW, "a"),), "tool", atom, make.policy())) is speaks


def test_a_rule_without_a_pattern_speaks_of_the_call_and_covers_no_part_of_it(make) -> None:
    action, atom = atoms(make, P, "a")
    assert matched(Rule("tool", RuleAction.ASK), action, make.policy()) == (atom,)
    assert covers((Rule("tool", RuleAction.ALLOW),), "tool", atom, make.policy()) == ()
    bare = make.action(make.spec(), {})
    assert matched(Rule("tool", RuleAction.DENY), bare, make.policy()) == ()
    assert matched(Rule("tool", RuleAction.DENY, "*"), bare, make.policy()) is None


NEVER_MATCHING = ROWS["never_matching"]


@pytest.mark.parametrize("pattern", NEVER_MATCHING)
def test_a_pattern_that_can_match_nothing_is_told(pattern: str) -> None:
    assert pattern_problem(pattern)


MATCHING = ROWS["matching"]


@pytest.mark.parametrize("pattern", MATCHING)
def test_a_pattern_that_can_match_is_not(pattern: str) -> None:
    assert pattern_problem(pattern) is None


def test_matching_takes_no_time_to_speak_of(make) -> None:
    action, _ = atoms(make, P, "a" * 100 + "/" + "a/" * 1000)
    began = time.process_time()
    for pattern in ("*a*a*a*a*a*b", "**/a/**/a/**/a/**/b", "**a**a**a**b"):
        matched(Rule("tool", RuleAction.DENY, pattern), action, make.policy())
    assert time.process_time() - began < 5


def test_only_a_rule_that_names_its_tool_answers_for_what_runs(make) -> None:
    _, run = atoms(make, C, "src/evil.sh")
    _, path = atoms(make, P, "src/evil.sh")
    for tool, names_it in {"tool": True, "*": False, "t*": False, "[t]ool": False, "tool?": False}.items():
        rule = (Rule(tool, RuleAction.ALLOW, "src/**"),)
        assert bool(covers(rule, "tool", run, make.policy())) is names_it
        assert bool(covers(rule, "tool", path, make.policy())) is (tool != "tool?")


HELD_BACK = [
    # rules, tool, judged folder, file below it, is held back
    (("deny * private/**",), "grep", ".", "private/p.txt", True),
    (("deny * private/**",), "grep", ".", "public/p.txt", False),
    (("deny read private/**",), "grep", ".", "private/p.txt", False),
    (("deny gr* **/*.pem",), "grep", "a", "a/b/c.pem", True),
    (("ask * private/**",), "grep", ".", "private/p.txt", True),
    (("ask * private/**",), "grep", "private", "private/p.txt", False),
    (("ask * private/**",), "grep", "private/p.txt", "private/p.txt", False),
    (("ask * private/**", "deny * **/*.pem"), "grep", "private", "private/p.pem", True),
    (("allow * private/**",), "grep", ".", "private/p.txt", False),
    (("deny * ",), "grep", ".", "private/p.txt", False),
]


@pytest.mark.parametrize(("rules", "tool", "folder", "file", "held"), HELD_BACK)
def test_what_is_left_out_where_a_tool_goes_through_a_folder(make, rules, tool, folder, file, held) -> None:
    said = [rule.split(" ", 2) for rule in rules]
    policy = make.policy(
        rules=tuple(Rule(name, RuleAction(word), match or None) for word, name, match in said)
    )
    place, below = locate(folder, policy), locate(file, policy)
    assert (holding_back(tool, place, below, policy) is not None) is held


def test_full_autonomy_has_answered_what_would_be_asked_without_force(make) -> None:
    for force, held in ((False, False), (True, True)):
        policy = make.policy(autonomy=Autonomy.FULL, rules=(Rule("*", RuleAction.ASK, "private/**", force),))
        found = holding_back("grep", locate(".", policy), locate("private/p", policy), policy)
        assert (found is not None) is held


def test_a_file_reached_through_a_link_is_held_back_by_either_name(make) -> None:
    for pattern in ("link/**/*.key", "/srv/data/**"):
        policy = make.policy(rules=(Rule("*", RuleAction.DENY, pattern),))
        held = holding_back(
            "grep",
            ResolvedPath("/ws/link", "/srv"),
            ResolvedPath("/ws/link/data/a.key", "/srv/data/a.key"),
            policy,
        )
        assert held is policy.rules[0]
