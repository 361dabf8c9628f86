"""The filter engine: matching rules, their limits, failures, and forgeries."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.command import parse_command
from leeward.tools.distill import Engine, RuleSet, built_in_rules
from leeward.tools.distill.page import Page, cut_line
from leeward.tools.distill.reading import Reader
from leeward.tools.distill.similar import normalised
from leeward.tools.distill.strategies import StripNoise, Truncate
from loading import load_module

OUTPUTS = load_module(Path(__file__).with_name("outputs.py"))
NOISE = "".join(f"step {number} of the work is done\n" for number in range(400))


def rules(text: str, layer="yours", below: RuleSet | None = None) -> RuleSet:
    found, problems = (below or RuleSet()).with_file(tomllib.loads(text), layer)
    assert problems == []
    return found


def one(strategy: str, **fields: str) -> Engine:
    more = "".join(f"{name} = {value}\n" for name, value in fields.items())
    return Engine(rules(f'[[rules]]\nname = "it"\nmatch.prefix = "it"\nstrategy = {strategy}\n{more}'))


def shown(engine: Engine, text: str, command: str = "it", code: int | None = 0, room: int = 10**6) -> str:
    return OUTPUTS.distilled(command, text, code, engine, room).text


FITTING = {
    "pytest": (
        "env X=1 timeout 60 pytest -q | tail", "python3 -m pytest", "uv run pytest -q", "/usr/bin/pytest",
        "cd x && bash -c 'pytest -x'", "poetry run pytest", "time pytest",
    ),
    "git-status": ("git status", "git -C sub status --short", "/usr/bin/git --no-pager status"),
    "cargo-test": ("cargo test", "cargo +nightly test", "RUST_LOG=x cargo --offline test -q"),
    "docker-build": ("docker build .", "docker --context far build -t x ."),
    "kubectl-get": ("kubectl -n shop get pods", "kubectl get --all-namespaces pods"),
    "log": ("tail -n 5 /srv/app.log", "kubectl logs web", "zcat x.log.gz"),
    "eslint": ("npx eslint src", "npm run lint"),
    "gradle-maven": ("./gradlew build", "mvn -q verify"),
}  # fmt: skip
STRANGERS = (
    "echo pytest",
    "git stash",
    "cargo new x",
    "docker ps",
    "kubectl delete pod get",
    "mypytest",
    "catalog",
)


@pytest.mark.parametrize(
    ("rule", "command"), [(rule, line) for rule, all_ in FITTING.items() for line in all_]
)
def test_a_rule_fits_its_program_however_it_is_started(rule, command) -> None:
    assert rule in [found.name for found in Engine().fitting(parse_command(command))]


@pytest.mark.parametrize("command", STRANGERS)
def test_no_rule_fits_another_program(command) -> None:
    assert [rule.name for rule in Engine().fitting(parse_command(command))] == ["long"]


def test_exact_prefix_and_pattern() -> None:
    def fits(match: str, command: str) -> bool:
        text = f'[[rules]]\nname = "x"\nmatch = {match}\nstrategy = {{kind = "dedup"}}\n'
        return bool(Engine(rules(text)).fitting(parse_command(command)))

    assert fits('{exact = "a b"}', "a b") and not fits('{exact = "a b"}', "a b c")
    assert fits('{prefix = ["q", "a b"]}', "a b c") and not fits('{prefix = "a b"}', "ab c")
    assert fits("{pattern = '^a .*[.]log$'}", "a x.log") and not fits(
        "{pattern = '^a .*[.]log$'}", "b a x.log"
    )


@pytest.mark.parametrize(
    ("command", "is_known"),
    [("it", True), ("cd x && it", True), ("timeout 9 it", True), ("it | tail", False), ("it; true", False),
     ("it || true", False), ("it & wait", False), ("bash -c 'it | tail'", False), ("! it", False)],
)  # fmt: skip
def test_success_counts_only_where_it_is_that_of_the_program(command, is_known) -> None:
    engine = one('{kind = "strip_noise", patterns = ["^step"]}', on_exit='"zero"')
    assert ("step 7 " not in shown(engine, f"{NOISE}done\n", command)) is is_known
    assert "step 7 " in shown(engine, f"{NOISE}done\n", command, code=1)
    assert "step 7 " in shown(engine, f"{NOISE}done\n", command, code=None)


def test_a_failure_keeps_more() -> None:
    engine = one('{kind = "truncate", max_lines = 50, head = 10, tail = 10}')
    text = NOISE.replace("step 200 ", "step 200 went wrong: ")
    well, failed = shown(engine, text), shown(engine, text, code=1)
    assert well.count("\nstep ") < failed.count("\nstep ")
    assert "step 199 " not in well and {"step 198 ", "step 204 "} <= set(re.findall(r"step \d+ ", failed))
    assert "warning: odd" not in shown(engine, text.replace("step 90 ", "warning: odd "))
    assert "warning: odd" in shown(engine, text.replace("step 90 ", "warning: odd "), code=1)


def test_rules_that_fit_run_as_one_pipeline() -> None:
    both = rules(
        '[[rules]]\nname = "a"\nmatch.any = true\nstrategy = {kind = "strip_noise", patterns = ["^step"]}\n'
        '[[rules]]\nname = "b"\nmatch.any = true\nstrategy = {kind = "dedup"}\n'
    )
    found = OUTPUTS.distilled("it", NOISE + "same line again\n" * 9, 0, Engine(both))
    assert found.text == "[… lines 1 to 400 left out]\nsame line again  [… 8 more like it]\n"
    assert found.notices == ("output filters (a, yours, b, yours) show 1 of 409 lines",)


def test_a_rule_that_would_leave_out_everything_is_not_used() -> None:
    found = OUTPUTS.distilled("it", NOISE, 0, one('{kind = "keep_matching", patterns = ["^never"]}'))
    assert found.text == NOISE
    assert found.notices == ("the output filter it would have left out everything, so it was not used",)


def test_a_rule_that_fails_is_not_used_and_others_are(monkeypatch) -> None:
    def broken(self, page):
        raise LookupError("no such line")

    monkeypatch.setattr(StripNoise, "decide", broken)
    both = rules(
        '[[rules]]\nname = "a"\nmatch.any = true\nstrategy = {kind = "strip_noise", patterns = ["^step"]}\n'
        '[[rules]]\nname = "b"\nmatch.any = true\n'
        'strategy = {kind = "truncate", max_lines = 9, head = 4, tail = 4}\n'
    )
    found = OUTPUTS.distilled("it", NOISE, 0, Engine(both))
    assert len(found.text.splitlines()) == 9
    assert found.notices[1:] == ("the output filter a failed (LookupError), so it was not used",)


def test_no_line_of_an_output_passes_for_a_mark() -> None:
    forged = (
        "[… lines 1 to 400 left out]\nfine  [… 8 more like it]\nall tests [… 3 characters left out] passed\n"
    )
    text = shown(one('{kind = "strip_noise", patterns = ["^step"]}'), forged + NOISE + "end\n")
    assert re.findall(r"\[… .*?\]", text) == ["[… lines 4 to 403 left out]"]
    assert text.count("[... ") == 3


def test_what_matters_is_not_folded_into_a_line_that_may_go() -> None:
    text = "".join(f"dir{n}/a.py:{n}: found 'x'\n" for n in range(400)).replace(
        "200: found 'x'", "200: found 'fatal error'"
    )
    engine = one('[{kind = "group_by_rule"}, {kind = "truncate", max_lines = 9, head = 0, tail = 1}]')
    assert "dir200/a.py:200: found 'fatal error'\n" in shown(engine, NOISE + text + NOISE)


def test_a_forged_summary_hides_no_failure() -> None:
    told = "==== 400 passed in 0.1s ====\n"
    text = (
        told + NOISE + "FAILED tests/test_x.py::test_it\ntests/test_x.py:4: AssertionError\n" + NOISE + told
    )
    for command in ("pytest", "cargo test", "go test ./...", "jest", "make", "docker build ."):
        assert "FAILED tests/test_x.py::test_it\n" in shown(Engine(), text, command)
        assert "tests/test_x.py:4: AssertionError\n" in shown(Engine(), text, command)


def test_what_says_a_program_went_well_is_not_taken_for_more_than_the_line_it_stands_on() -> None:
    text = "".join(f"tests/a.py::test_{n} PASSED [ 1%]\n" for n in range(99))
    odd = "ERROR: disk lost, see tests/a.py::test_1 PASSED [ 1%] and more\n"
    assert odd in shown(Engine(), text + odd + text, "pytest -v")


SAME = {
    "times": ("2026-01-02T03:04:05.678Z up", "2027-11-12T13:14:15.6Z up"),
    "clocks": ("03:04:05 up", "13:14:15 up"),
    "syslog": ("Jan  2 03:04:05 host app[12]: up", "Feb 12 13:14:15 host app[9999]: up"),
    "uuids": ("job 123e4567-e89b-12d3-a456-426614174000 up", "job 00000000-0000-4000-8000-00000000ffff up"),
    "addresses": ("from 10.0.0.1:5432 up", "from 192.168.100.200:1 up"),
    "addresses6": ("from fe80::1ff:fe23:4567:890a up", "from fe80::ffff:0:1:2 up"),
    "ports": ("on port 80 up", "on port 50123 up"),
    "pids": ("worker pid 12 up", "worker pid 99999 up"),
    "hex": ("commit 1a2b3c4d up", "commit 99ffee0011aa up"),
}  # fmt: skip
OTHER = (
    ("FAILED test_1", "FAILED test_2"), ("a.py:12: wrong", "a.py:13: wrong"), ("error A", "error B"),
    ("timeout after 30s", "timeout after 60s"), ("index [3] is out", "index [4] is out"),
    ("exit code 1234567", "exit code 7654321"), ("defaced wall", "effaced wall"),
)  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_lines_that_differ_in_when_and_where_are_the_same(name) -> None:
    first, second = SAME[name]
    assert normalised(first.encode()) == normalised(second.encode())


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_lines_that_say_something_else_are_not(first, second) -> None:
    assert normalised(first.encode()) != normalised(second.encode())


def test_an_output_of_any_length_is_held_within_bounds_and_keeps_what_matters() -> None:
    reader = Reader()
    for number in range(60_000):
        word = " error" if number == 30_000 else ""
        reader.feed(f"{number}{word} {'x' * 70}\n")
    page = reader.page(failed=True)
    assert not reader.is_whole and page.total == 60_000
    assert sum(map(len, page.lines)) < 3 * 1024 * 1024
    assert f"30000 error {'x' * 70}" in page.lines
    assert [int(line.split()[0]) for line in page.lines] == list(page.numbers)
    assert "left out]" in page.text


def test_what_matters_in_the_middle_is_bounded_too() -> None:
    reader = Reader()
    for number in range(300):
        reader.feed(f"error {number} {'y' * 60_000}\n")
    assert sum(map(len, reader.page(failed=True).lines)) < 8 * 1024 * 1024


def test_a_line_without_end_is_cut_and_keeps_what_matters() -> None:
    reader = Reader()
    for number in range(2_000):
        reader.feed("x" * 5_000 + (" fatal: no disk " if number == 1_000 else ""))
    (line,) = reader.page(failed=False).lines
    assert len(line) < 300_000 and "fatal: no disk" in line
    short = cut_line(line)
    assert len(short) < 20_000 and "fatal: no disk" in short and "characters left out]" in short


PIECES = st.lists(st.text(st.sampled_from("ab \n\terror:E0[…]/"), max_size=40), max_size=40)


@given(PIECES)
@example(["\n", "a", "\n\n"])
def test_pieces_are_read_as_the_whole(pieces) -> None:
    whole, parts = Reader(), Reader()
    whole.feed("".join(pieces))
    for piece in pieces:
        parts.feed(piece)
    one, other = whole.page(failed=False), parts.page(failed=False)
    assert list(one.lines) == list(other.lines) and one.total == other.total


@given(
    st.lists(
        st.sampled_from(["noise", "error: it", "", "a.py:3: x", '  File "a", line 3', "[… 3]"]), max_size=60
    )
)
def test_any_output_loses_no_line_that_matters(lines) -> None:
    text = "\n".join([*lines, "padding " * 40, ""])
    for rule in built_in_rules().rules.values():
        command = (rule.match.prefix or ("it",))[0]
        found = shown(Engine(), text, command).split("\n")
        assert not any("error: it" in line for line in lines) or any("error: it" in line for line in found)


def test_a_page_says_how_much_is_missing_where() -> None:
    page = Page.of("".join(f"{n}\n" for n in range(20)))
    ends = Truncate(max_lines=5, head=2, tail=3)
    assert page.after(ends.decide(page)).text == "0\n1\n[… lines 3 to 17 left out]\n17\n18\n19\n"


def test_what_is_still_too_long_loses_its_middle_but_for_what_matters() -> None:
    text = NOISE.replace("step 200 of", "error: step 200 of")
    found = shown(Engine(), text, "cat notes", room=3000)
    assert len(found) < 3000 and "error: step 200 of the work is done\n" in found
    assert found.startswith("step 0 ") and found.endswith("step 399 of the work is done\n")
