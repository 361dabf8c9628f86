"""What people configure, held against actions; and which hosts a line reaches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import Say, hosts_of, parse_command, reach_of
from leeward.security.command.expand.wrappers import plain_forms
from leeward.security.command.judge.network import connects, destinations
from leeward.security.command.syntax.nodes import Redirection, literal
from leeward.security.kinds import CommandLine
from leeward.security.policy import ShellRules, blocked_by, command_entry_problem, confirmed_by
from leeward.security.url import Ledger, Provenance, parse_url
from loading import rows_beside

ROWS = rows_beside(__file__)

# An entry of `blocked_commands`, actions it speaks of, and near misses.
BLOCKED = ROWS["blocked"]


def argv(text: str) -> tuple[str, ...]:
    found = parse_command(text)
    assert isinstance(found, CommandLine), text
    return found.actions[0]


@pytest.mark.parametrize(("entry", "caught", "near"), BLOCKED, ids=[one[0] for one in BLOCKED])
def test_which_actions_an_entry_blocks(world, entry, caught, near):
    rules = ShellRules(blocked=("never-mind", entry))
    assert [text for text in caught if blocked_by(argv(text), rules) != entry] == []
    assert [text for text in near if blocked_by(argv(text), rules) is not None] == []
    world.rules = rules
    assert [text for text in caught if world.say(f"ls; nice {text}") != "deny"] == []


WORDS = st.lists(
    st.sampled_from(["-r", "-f", "-rf", "x", "--force", "push", "a b", "$y", "-n5", "--recursive"]),
    max_size=4,
)  # fmt: skip


@given(WORDS, WORDS, st.sampled_from(["rm -rf", "git push", "git push --force", "rm *", "rm"]))
def test_more_words_never_unblock_and_their_order_says_nothing(words, more, entry):
    rules = ShellRules(blocked=(entry,))
    program = entry.split()[0]
    before = blocked_by((program, *words), rules)
    assert blocked_by((program, *words[::-1]), rules) == before
    assert before is None or blocked_by((program, *more, *words, *more), rules) == entry
    assert before is None or blocked_by((f"/usr/bin/{program}", *words), rules) == entry


ALLOWED = ROWS["allowed"]


@pytest.mark.parametrize(("entry", "covered", "near"), ALLOWED, ids=[one[0] for one in ALLOWED])
def test_which_commands_an_entry_allows(world, entry, covered, near):
    """An entry speaks of one command as it stands, and of nothing it writes, sets or runs besides."""
    world.missing = frozenset()
    assert [line for line in (*covered, *near) if world.say(line) == "nothing"] == []
    world.rules = ShellRules(allowed=(entry,))
    assert [line for line in covered if world.say(line) != "nothing"] == []
    assert [line for line in near if world.say(line) == "nothing"] == []


SURE = [
    "rm -rf /", "sudo make", "cat .env", "echo x > .git/config", "python -c x", "$x", "shutdown",
    "curl https://a.example", "ls 'x", "PATH=. ls",
]  # fmt: skip
WIDE = ["*", "* *", "rm *", "sudo *", "cat *", "echo *", "python *", "curl *", "shutdown", "ls *", "make *"]


@given(st.sampled_from(SURE), st.lists(st.sampled_from(WIDE), max_size=4))
@settings(max_examples=settings().max_examples * 4 // 5)
def test_no_entry_answers_what_is_forced_or_refused(world, line, entries):
    world.rules = ShellRules()
    before = world.say(line)
    world.rules = ShellRules(allowed=tuple(entries))
    assert world.say(line) == before
    assert before in {"force", "deny"}


CONFIRMED = [
    ("$(", ["echo $(ls)", "sh -c 'echo $(ls)'", 'echo "$(ls)"'], ["echo '$('", "echo `ls`"]),
    ("`", ["echo `ls`"], ["echo '`'", "echo $(ls)"]),
    ("<(", ["cat <(ls)"], ["cat '<('", "echo >(ls)"]),
    (">(", ["ls >(cat)"], ["cat <(ls)"]),
    ("<<<", ["cat <<< a"], ["cat <<E\na\nE\n", "echo '<<<'"]),
    ("<<", ["cat <<E\na\nE\n"], ["cat <<< a"]),
    ("eval", ["eval ls", "command eval ls"], ["echo eval"]),
    ("git log", ["git log", "git -C src log", "ls; git log -3"], ["git status", "echo git log"]),
]


@pytest.mark.parametrize(("entry", "lines", "near"), CONFIRMED, ids=[one[0] for one in CONFIRMED])
def test_what_a_confirm_pattern_asks_about(world, entry, lines, near):
    def confirmed(line):
        read = parse_command(line)
        return confirmed_by(read.actions, read.constructs, ShellRules(confirm=(entry,)))

    assert [line for line in lines if confirmed(line) != entry] == []
    assert [line for line in near if confirmed(line) is not None] == []
    world.rules = ShellRules(confirm=(entry,))
    assert [line for line in lines if world.say(line) == "nothing"] == []


@pytest.mark.parametrize(
    ("entry", "is_wrong"),
    [
        ("git push", False), ("$(", False), (" <<< ", False), ("*", True), ("", True), ("  ", True),
        ("rm && ls", True), ("a | b", True), ("a > b", True), ("'a", True), ("a\x00", True), ("a\nb", True),
        ("* x", False), ("a 'b c'", False),
    ],
)  # fmt: skip
def test_an_entry_that_can_speak_of_nothing_is_a_mistake(entry, is_wrong):
    assert (command_entry_problem(entry) is not None) == is_wrong


@pytest.mark.parametrize(
    ("action", "again"),
    ROWS["how_an_action_would_be_forbidden"],
)
def test_how_an_action_would_be_forbidden(action, again):
    assert [" ".join(form) for form in plain_forms(tuple(action.split()))] == again


REDIRECTED = ROWS["redirected"]


@pytest.mark.parametrize(("operator", "target", "does"), REDIRECTED)
def test_what_a_redirection_does(operator, target, does):
    found = Redirection(operator, literal(target))
    said = {"writes": found.writes, "reads": found.reads, "copies": found.duplicates}
    assert [what for what, holds in said.items() if holds] == [does][: bool(does)]


SINKS = [
    "> /dev/null", "2> /dev/null", "&> /dev/null", ">& /dev/null", "2>&1", ">&2", "> /dev/stderr",
    "> /dev/fd/2", "2>&-", "3<&0", "< /dev/null", "<<< a",
]  # fmt: skip
FILES = [
    "> o", ">> o", ">| o", "&> o", "2> o", ">& o", "> /dev/nullx", "> /dev/null/../x", "> $x", "> ./dev/null",
    "1> o 2>&1", "> /tmp/o", "2>> /dev/shm/o",
]  # fmt: skip


@pytest.mark.parametrize(
    ("redirection", "quiet"), [*((one, True) for one in SINKS), *((one, False) for one in FILES)]
)
def test_where_output_goes_decides_whether_it_is_a_question(world, redirection, quiet):
    world.rules = ShellRules(confirm=())
    lines = [
        f"ls {redirection}",
        f"{redirection} ls",
        f"{{ ls; }} {redirection}",
        f"if ls; then ls; fi {redirection}",
    ]
    read = [line for line in lines if isinstance(parse_command(line), CommandLine)]
    assert [line for line in read if (world.say(line) == "nothing") != quiet] == []
    assert f"ls {redirection}" in read


LEADS = ROWS["leads"]


@pytest.mark.parametrize(("line", "leads"), LEADS, ids=[line for line, _ in LEADS])
def test_where_a_line_leads(line, leads):
    assert list(destinations(parse_command(line))) == leads
    for around in ("ls; {}", "nice {}", "echo $({})", "if ls; then {}; fi", "sh -c '{}'"):
        if not line.startswith("U=") and not set("'$") & set(line):
            assert list(destinations(parse_command(around.format(line)))) == leads, around


@pytest.mark.parametrize(
    ("line", "hosts"),
    ROWS["the_hosts_of_a_line"],
)
def test_the_hosts_of_a_line(line, hosts):
    assert list(hosts_of(parse_command(line))) == hosts


def test_programs_that_reach_out_whatever_they_are_told():
    line = "npm ci; ls | ssh h; nice pip install x; git push; ./curl x; docker ps"
    assert connects(parse_command(line)) == ("npm", "ssh", "pip", "curl", "docker")
    assert connects(parse_command("npm test; nice pip list")) == ()


REACHES = [
    ("ls", Say.NOTHING, ""), ("npm i", Say.ASK, "connects"), ("curl", Say.ASK, "connects"),
    ("curl -V", Say.ASK, "connects"), ("npm i $x", Say.ASK, "connects"),
    ("git clone https://known.example/a", Say.ASK, "connects"),
    ("curl https://known.example/a", Say.ASK, "connects"),
    ("curl https://known.example/b", Say.FORCE, "destination"),
    ("curl https://other.example/", Say.FORCE, "destination"),
    ("scp x other.example:y", Say.FORCE, "destination"), ("curl http://localhost/", Say.ASK, "loopback"),
    ("curl http://localhost/ https://other.example/", Say.FORCE, "destination"),
    ("curl http://10.0.0.1/", Say.FORCE, "destination"),
    ("curl http://169.254.169.254/", Say.DENY, "metadata"), ("curl http://0xa9fea9fe/", Say.DENY, "metadata"),
    ("curl http://metadata.google.internal/", Say.DENY, "metadata"),
    ("curl https://known.example/a http://169.254.169.254/", Say.DENY, "metadata"),
    ("echo x > /dev/tcp/169.254.169.254/80", Say.DENY, "metadata"),
    ("curl $x", Say.FORCE, "destination"), ("ssh $x", Say.FORCE, "destination"),
    ("curl https://known.example/a; curl $x", Say.FORCE, "destination"),
    ("curl -o $x https://known.example/a", Say.ASK, "connects"),
    ('curl -H "A: $x" https://known.example/a', Say.ASK, "connects"),
    ("curl https://known.example/a -d $x", Say.ASK, "connects"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "say", "rule"), REACHES, ids=[line for line, _, _ in REACHES])
def test_whether_a_line_may_reach_out(line, say, rule):
    """A place more never makes it milder, wherever it is named."""
    ledger = Ledger().with_urls([parse_url("https://known.example/a")], Provenance.PERSON)
    found = reach_of(parse_command(line), ledger, ())
    assert (found.say, found.rule) == (say, rule)
    for more in (f"{line}; curl https://known.example/a", f"wget https://known.example/a && {line}"):
        assert reach_of(parse_command(more), ledger, ()).say >= found.say


@pytest.mark.parametrize(
    "line",
    [
        "curl $x https://known.example/a", "curl -s https://known.example/a $(ls)",
        "xargs curl https://known.example/a", "curl $x < /etc/hosts", "ssh known.example $x",
    ],
)  # fmt: skip
def test_a_place_beside_a_known_one_may_be_allowed_by_nobody_but_a_person(world, line):
    """It is a question before it runs, since it connects, and one by force, since a word of it is open."""
    world.ledger = Ledger().with_urls([parse_url("https://known.example/a")], Provenance.PERSON)
    assert reach_of(parse_command(line), world.ledger, ()).say >= Say.ASK
    assert world.ruling(line).say == Say.FORCE
