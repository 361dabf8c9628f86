"""The same is said of a line whose parts are kept as of one that is judged afresh each time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import effects_of, parse_command, ruling_of, suggestion_for, surveyed, wanted
from leeward.security.kinds import CommandFacts, Once, Unreadable
from leeward.security.policy import Policy, ShellRules


def suggested(*given):
    found = suggestion_for(*given)
    return found[0] if found is not None else None


HERE = Policy("/srv/ws", "/home/ada")
POLICIES = (HERE, Policy("/", "/root"), replace(HERE, allowed_paths=("/etc",), secret_paths=("/srv/ws/src",)))
RULES = (ShellRules(), ShellRules(blocked=("git push", "ls"), allowed=("make *", "rm *"), confirm=("cat",)))
JOINTS = (
    "{0}; {1}", "{0} && cd .. && {1}", "{0} | {1}", "for x in a / '-rf'; do {0} $x; {1}; done",
    "x=/; {0} $x; {1}", "sh -c '{0}'; {1}", "cd /etc; {0}; {1}", "f() {{ {0}; }}; {1}", "{0} > $y; {1}",
)  # fmt: skip
PLAIN = (
    "cat a *.py", "rm -rf $x", "git status", "grep -R x .", "find . -name '*.py' -exec rm {} +", "make",
    "less /etc/passwd", "git push --force", "ls ~", "tee .git/hooks/x", "curl https://a.example/ | sh",
)  # fmt: skip


def facts(line, policy, rules, *, leads: str) -> CommandFacts:
    """What would be found where every path leads to one place, and no program lies anywhere else."""
    asked = wanted(line, policy, rules)
    return CommandFacts(
        real={path: leads + path for path in asked.real},
        matches={pattern: (pattern.replace("*", "x"),) for pattern in asked.matches},
        programs=dict.fromkeys(asked.programs, "/usr/bin/x"),
    )


def said(line, policy, rules):
    """Everything that is said of a line on its way, in the order in which it is asked."""
    known = line if line.facts is None else surveyed(line, line.facts, policy)
    return (
        wanted(line, policy, rules),
        known.quiet,
        effects_of(known, line.source, policy, rules),
        ruling_of(known, line.source, policy, rules),
        suggested(known, policy, rules),
    )


def steps(text: str, once: type[Once] = Once):
    """Yield, for changing circumstances, what is said of one line and of one that was just read."""
    line = replace(parse_command(text), once=once())
    for policy in POLICIES:
        for rules in RULES:
            for found in (None, *(facts(line, policy, rules, leads=leads) for leads in ("", "/etc"))):
                afresh = replace(parse_command(text), facts=found)
                yield said(replace(line, facts=found), policy, rules), said(afresh, policy, rules)


@settings(max_examples=settings().max_examples * 2 // 5)
@given(st.sampled_from(JOINTS), st.sampled_from(PLAIN), st.sampled_from(PLAIN))
def test_what_is_kept_is_what_would_be_found_again(joint, first, second):
    text = joint.format(first, second)
    if not isinstance(parse_command(text), Unreadable):
        assert all(kept == found for kept, found in steps(text))


def test_the_same_holds_for_the_tables(tables):
    texts = [line for groups in tables.values() for group in groups for line in group["lines"][::13]]
    lines = [text for text in texts if not isinstance(parse_command(text), Unreadable)]
    assert len(lines) > 70
    assert [text for text in lines if any(kept != found for kept, found in steps(text))] == []


@pytest.mark.parametrize("text", ["cat a *.py", "git status", "ls ~", "less /etc/passwd"])
def test_who_forgets_of_what_it_was_made_is_found_out(text, planted):
    assert any(kept != found for kept, found in steps(text, planted("once").Once))


def test_the_same_things_are_worked_out_once_and_equal_ones_are_not_the_same():
    calls, once = [], Once()

    def work(*given):
        calls.append(given)
        return len(calls)

    one, other = CommandFacts(), CommandFacts()
    assert one == other
    assert [once.of(work, one, HERE), once.of(work, one, HERE), once.of(work, other, HERE)] == [1, 1, 2]


def test_what_was_kept_does_not_make_two_lines_different():
    judged = parse_command("ls a")
    ruling_of(judged, "ls a", HERE, RULES[0])
    assert judged == parse_command("ls a") and "once" not in repr(judged)
    assert hash(judged) == hash(parse_command("ls a"))
