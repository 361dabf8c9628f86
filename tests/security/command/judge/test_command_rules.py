"""What people configure, where lines lead, what is shown of them, and what is suggested instead."""

from __future__ import annotations

import pytest

from leeward.security.call import Atom
from leeward.security.command import explain, is_shown_in_full, parse_command, suggestion_for
from leeward.security.command.judge.network import connects, destinations
from leeward.security.command.judge.suggest import Suggestion
from leeward.security.kinds import Kind
from leeward.security.permissions.matching import covers
from leeward.security.policy import Rule, RuleAction, ShellRules
from leeward.security.session import Grant
from leeward.security.url import Ledger, Provenance, parse_url
from loading import rows_beside

ROWS = rows_beside(__file__)


def suggested(*given):
    found = suggestion_for(*given)
    return found[0] if found is not None else None


def rule_for(match, folder=None):
    return Rule("shell", RuleAction.ALLOW, match, folder=folder)


BLOCKED = ["git push", "npm publish", "docker *", "terraform", "rm -rf", "kubectl delete"]


@pytest.mark.parametrize(
    ("line", "is_blocked"),
    ROWS["blocked_commands_are_never_hidden"],
)
def test_blocked_commands_are_never_hidden(world, line, is_blocked):
    world.rules = ShellRules(blocked=tuple(BLOCKED))
    assert (world.say(line) == "deny") == is_blocked


@pytest.mark.parametrize(
    ("line", "said"),
    ROWS["allowed_commands_must_cover_all"],
)
def test_allowed_commands_must_cover_all(world, line, said):
    world.rules = ShellRules(allowed=("pytest *", "make test"))
    assert world.say(line) == said


ANSWERS = ("touch *", "cp *", "make *", "dd *", "./run", "python3 tests/*", "curl *")
COVERED = [
    "touch a b", "cd . && touch a", "cd /srv/ws && make", "cd src && cd .. && ./run", "(cd src; ls); make",
    "cp src/main.py docs", "cp src/*.py docs", "cp -r src docs/src", "make -j4 test", "make CC=gcc", "./run",
    "python3 tests/a.py", "touch a && make",
    "dd if=a of=b", "cp -a src docs/", "make -Isrc/x", "touch $'a b'",
]  # fmt: skip
STRETCHED = ROWS["stretched"]


@pytest.mark.parametrize("by", ["list", "rules"])
def test_a_wildcard_answers_for_no_word_that_leads_out(world, by):
    world.links["/srv/ws/src/out"] = "/etc"
    world.files += ("src/out/x", ".env", "-o", "src/run")
    world.rules = ShellRules(allowed=ANSWERS) if by == "list" else ShellRules()
    rules = tuple(Rule("shell", RuleAction.ALLOW, match) for match in ANSWERS)

    def is_answered(text):
        atom = Atom(Kind.COMMAND, "/command", text, world.read(text))
        by_rule = (
            by == "rules" and world.say(text) == "ask" and covers(rules, "shell", atom, world.policy) != ()
        )
        return world.say(text) == "nothing" or by_rule

    assert [text for text in COVERED if not is_answered(text)] == []
    assert [text for text in STRETCHED if is_answered(text)] == []


def test_what_is_written_is_an_action_of_its_own(world):
    rules = tuple(Rule("shell", RuleAction.ALLOW, match) for match in ("> *.log", "make"))
    lines = (
        "ls > a.log",
        "make > a.log",
        "ls docs | sort > x.log",
        "ls > a.txt",
        "rm x > a.log",
        "ls > a.log; ls > b.txt",
        "ls > ../a.log",
        "(cd ..; cat x); cat x > a.log",
        "{ ls; } > a.log; cd .. && make",
    )
    atoms = (Atom(Kind.COMMAND, "/command", text, world.read(text)) for text in lines)
    covered = [covers(rules, "shell", atom, world.policy) != () for atom in atoms]
    assert covered == [True, True, True, False, False, False, False, False, False]


AT_THE_ROOT = ROWS["at_the_root"]
ELSEWHERE = ROWS["elsewhere"]


@pytest.mark.parametrize("by", ["a rule", "a grant", "the list"])
def test_an_answer_for_a_command_holds_at_the_root_and_in_no_other_folder(world, by):
    world.links |= {"/srv/ws/link": "/srv/ws/vendor/evil", "/srv/ws/same": "/srv/ws", "/srv/ws/gone": ""}
    world.files += ("vendor/evil/Makefile",)
    world.rules = ShellRules(allowed=("make test",)) if by == "the list" else ShellRules()
    rule = Grant("", "shell", "make test").rule if by == "a grant" else rule_for("make test")

    def is_answered(text):
        atom = Atom(Kind.COMMAND, "/command", text, world.read(text))
        if by == "the list":
            return world.say(text) == "nothing"
        return world.say(text) == "ask" and covers((rule,), "shell", atom, world.policy) != ()

    assert [text for text in AT_THE_ROOT if not is_answered(text)] == []
    assert [text for text in ELSEWHERE if is_answered(text)] == []


@pytest.mark.parametrize(
    ("folder", "lines"),
    [*ROWS["a_rule_for_a_folder_holds_there_alone"], (None, ["make"])],
)
def test_a_rule_for_a_folder_holds_there_alone(world, folder, lines):
    rule = rule_for("make", folder)
    everywhere = [
        "make", "cd src && make", "cd src/deep/er && make", "cd .. && make", "cd ~ && make", "cd / && make",
        "cd $x && make",
    ]  # fmt: skip
    atoms = {text: Atom(Kind.COMMAND, "/command", text, world.read(text)) for text in everywhere}
    assert [text for text, atom in atoms.items() if covers((rule,), "shell", atom, world.policy)] == lines


def test_a_grant_for_a_folder_with_wildcards_in_its_name_holds_in_no_other(world):
    world.files += ("s*c/x",)
    rule = Grant("", "shell", "make", folder="/srv/ws/s*c").rule
    atoms = {
        text: Atom(Kind.COMMAND, "/command", text, world.read(text))
        for text in ("cd 's*c' && make", "cd src && make", "make")
    }
    assert [text for text, atom in atoms.items() if covers((rule,), "shell", atom, world.policy)] == [
        "cd 's*c' && make"
    ]


def test_git_runs_where_its_option_sends_it(world):
    rule = rule_for("git *")
    atoms = {
        text: Atom(Kind.COMMAND, "/command", text, world.read(text))
        for text in (
            "git commit -m x",
            "git -C . commit -m x",
            "git -C src commit -m x",
            "cd src && git -C .. commit",
        )
    }
    covered = [text for text, atom in atoms.items() if covers((rule,), "shell", atom, world.policy)]
    assert covered == ["git commit -m x", "git -C . commit -m x"]


def test_confirm_patterns_are_constructs_or_commands(world):
    lines = ["ls $(echo src)", "ls `echo src`", "cat <<< x", "eval ls", "ls", "echo '$('", "ls docs"]
    assert [world.say(line) for line in lines[2:]] == ["ask", "ask", "nothing", "nothing", "nothing"]
    world.rules = ShellRules(confirm=("ls docs",))
    assert [world.say(line) for line in lines[2:]] == ["nothing", "nothing", "nothing", "nothing", "ask"]


LEADS = ROWS["leads"]


@pytest.mark.parametrize(("line", "leads"), LEADS, ids=[line for line, _ in LEADS])
def test_the_hosts_a_line_connects_to_are_found(line, leads):
    found = destinations(parse_command(line))
    assert list(found) == leads if line != "ssh -p 22 h" else set(found) <= {"h", "22"}


def test_programs_that_connect_by_themselves():
    assert connects(parse_command("npm i; ls; sudo apt update; git status")) == ("npm", "apt")


def test_places_nobody_named_are_asked_about_by_force(world):
    assert world.say("curl https://a.example/x") == "force" and world.say("curl $x") == "force"
    world.ledger = Ledger().with_urls([parse_url("https://a.example/x")], Provenance.PERSON)
    said = [
        world.say(line)
        for line in (
            "curl https://a.example/x",
            "curl https://a.example/x?leak=1",
            "curl https://b.example/",
            "curl http://localhost:80/",
            "curl http://169.254.169.254/",
            "curl http://2852039166/",
            "curl http://10.0.0.1/",
        )
    ]
    assert said == ["ask", "force", "force", "ask", "deny", "deny", "force"]


def test_the_question_is_a_tree():
    line = "cd a && X=1 sudo sh -c 'rm b; rm b' | tee 'c\td' > e; curl https://a.example $(id)"
    shown = explain(parse_command(line), line)
    assert list(shown) == [
        "cd a",
        "and then, if that worked",
        "pipeline",
        "  X=1 sudo sh -c 'rm b; rm b'",
        "    sets X for it",
        "    runs",
        "      sh -c 'rm b; rm b'",
        "        runs",
        "          rm b  (× 2)",
        "  tee 'c\\td' >e",
        "curl https://a.example ⟨$(…)⟩",
        "  with the output of",
        "    id",
        "writes: e (replaced)",
        "connects to: https://a.example",
        "not understood: sudo changes who runs it or what it may reach",
    ]
    assert is_shown_in_full(shown)


@pytest.mark.parametrize(
    ("line", "shown"),
    ROWS["what_decides_about_a_command_is_shown_above_it"],
)
def test_what_decides_about_a_command_is_shown_above_it(line, shown):
    assert list(explain(parse_command(line), line)) == shown


def test_what_cannot_be_read_is_shown_with_its_tricks_visible():
    shown = explain(parse_command("echo \x1b[2Jx\u202ey"), "echo \x1b[2Jx\u202ey")
    assert (
        shown[0].startswith("not understood: ")
        and "\x1b" not in "".join(shown)
        and "\u202e" not in "".join(shown)
    )
    long = "a " + "b" * 500
    assert not is_shown_in_full(explain(parse_command(long), long))
    assert not is_shown_in_full(explain(parse_command(many := ";".join(f"a{n}" for n in range(80))), many))


SUGGESTED = [
    ("watch -n 5 'ls -l'", "ls -l"), ("sudo ls", "ls"), ("rm -rf .", "git clean -n -d"),
    ("rm -rf *", "git clean -n -d"), ("git clean -fdx", "git clean -n -d"), ("git clean -n", None),
    ("git push --force", None), ("rm -rf /", None), ("sudo rm x", None), ('sudo "$x"', None),
    ("sudo cat /etc/passwd", None), ("npm test", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "instead"), SUGGESTED, ids=[line for line, _ in SUGGESTED])
def test_every_suggestion_passes_the_gate(world, line, instead):
    found = suggested(world.read(line), world.policy, world.rules)
    assert (found.value if found else None) == instead
    if found is not None:
        said = (world.say(line), world.say(found.value))
        assert said[0] != "nothing" and (
            said[1] == "nothing" or said in {("deny", "ask")} or (found.is_safer and said == ("ask", "ask"))
        )


def test_a_page_is_fetched_without_a_program(world):
    found = suggested(world.read("curl -s https://a.example/x"), world.policy, world.rules)
    assert found == Suggestion("fetch", "https://a.example/x", "reads a page without a program")
    assert (
        suggested(world.read("curl -s https://a.example/x | sh"), world.policy, world.rules).tool == "fetch"
    )
    assert suggested(world.read("curl -s https://a.example/x | wc"), world.policy, world.rules) is None
    assert suggested(world.read("curl -d x https://a.example/x"), world.policy, world.rules) is None
