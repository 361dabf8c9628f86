"""Output filters for a person: configured, listed, tried, reported, and used on real programs."""

from __future__ import annotations

import json

import pytest

from leeward.runtime.config import ConfigError, load

STRIP = 'strategy = { kind = "strip_noise", patterns = ["^step"] }\n'
RULE = f'[[rules]]\nname = "steps"\nmatch.prefix = "seq"\n{STRIP}'
FOLD = '[[rules]]\nname = "theirs"\nmatch.prefix = "seq"\nstrategy = { kind = "dedup" }\n'


def lay(folder, mine: str | None = None, theirs: str | None = None, *, trusted: bool = True):
    inner = folder / "ws" / ".leeward"
    inner.mkdir(parents=True)
    for path, text in ((folder / "filters.toml", mine), (inner / "filters.toml", theirs)):
        if text is not None:
            path.write_text(text, encoding="utf-8")
    return load(config_dir=folder, workspace=folder / "ws", trusted=trusted, environment={})


WRONG = {
    "a pattern": (f"# mine\n{RULE}".replace("^step", "(step"), 5, "RE2"),
    "a name": (f"\n\n{RULE}".replace('"steps"', "3"), 4, "3"),
    "a strategy": (f"{RULE}\n[[rules]]\nname = 'x'\nmatch.any = true\nstrategy = 3\n", 9, "rules.1.strategy"),
    "a parameter": (RULE.replace("kind =", "color = 1, kind ="), 4, "unknown key"),
    "no toml": ("[[rules]\n", 1, "not TOML"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_bad_rule_is_a_configuration_error_with_its_line(tmp_path, name) -> None:
    text, line, words = WRONG[name]
    with pytest.raises(ConfigError) as raised:
        lay(tmp_path, text)
    problem = raised.value.problems[0]
    assert (problem.source.file, problem.source.line) == ("filters.toml", line)
    assert words in str(problem)


def test_a_command_line_with_a_bad_rule_ends_before_it_begins(leeward) -> None:
    leeward.configure("")
    leeward.config.with_name("filters.toml").write_text("[[rules]]\nname = 'a'\n", encoding="utf-8")
    done = leeward("call", "shell", '{"command": "touch made"}', "--autonomy", "full")
    assert done.code == 2 and "filters.toml:1: rules.0.match" in done.err, done
    assert not (leeward.workspace / "made").exists()


def test_files_are_read_in_their_order_and_named(tmp_path) -> None:
    found = lay(tmp_path, RULE, FOLD)
    assert [path.name for path in found.files] == ["filters.toml", "filters.toml"]
    assert found.filters.of_layer("yours") == ("steps",) and found.filters.of_layer("workspace") == (
        "theirs",
    )


def test_a_workspace_that_is_not_trusted_brings_none(tmp_path) -> None:
    assert lay(tmp_path, None, FOLD, trusted=False).filters is None


def test_a_workspace_that_would_drop_lines_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"\.leeward/filters\.toml:4: .*may only fold"):
        lay(tmp_path, None, RULE)


def test_filters_of_a_workspace_wait_for_a_yes(leeward) -> None:
    own = leeward.workspace / ".leeward"
    own.mkdir()
    (own / "filters.toml").write_text(FOLD, encoding="utf-8")
    done = leeward("call", "shell", '{"command": "true"}')
    assert done.code == 4 and ".leeward/filters.toml may be read" in done.err, done


def run_seq(leeward, *words: str):
    leeward.configure('[[permissions.rules]]\ntool = "shell"\nmatch = "seq *"\naction = "allow"\n')
    return leeward("call", "shell", '{"command": "seq 9000"}', *words)


def test_a_long_output_is_shortened_and_what_it_was_is_on_record(leeward) -> None:
    told = run_seq(leeward, "--output", "json").json["data"]
    assert told["text"].count("\n") < 420 and "[… lines 301 to 8900 left out]" in told["text"]
    records = leeward("audit", "list", "--kind", "outcome", "--output", "json").json["data"]["records"]
    [body] = [one["body"] for one in records]
    assert body["chars_in"] == 43_893 and body["chars_out"] < 2100
    assert body["overflow"] == told["overflow_id"]


def test_one_of_the_persons_own_rules_is_at_work_and_named(leeward) -> None:
    leeward.configure("")
    mine = RULE.replace("^step", "^[1-9].*[0-8]$")
    leeward.config.with_name("filters.toml").write_text(mine, encoding="utf-8")
    done = run_seq(leeward)
    assert (
        "output filters (steps, yours, long) show 400 of 9000 lines" in done.out or "steps, yours" in done.out
    )


def test_status_names_filters_and_tells_characters(leeward) -> None:
    leeward.configure('[[permissions.rules]]\ntool = "shell"\nmatch = "seq *"\naction = "allow"\n')
    leeward.config.with_name("filters.toml").write_text(RULE, encoding="utf-8")
    own = leeward.workspace / ".leeward"
    own.mkdir()
    (own / "filters.toml").write_text(FOLD, encoding="utf-8")
    assert leeward("config", "trust").code == 0
    script = leeward.script("run seq 9000\n/status\n")
    done = leeward("--script", script, "--model", "offline")
    assert "yours: steps; of this workspace, folding only: theirs" in done.out, done
    assert "43893 characters came, " in done.out and "% less" in done.out


def test_filters_are_listed(leeward) -> None:
    leeward.configure("")
    leeward.config.with_name("filters.toml").write_text(f"{RULE}[[rules]]\nname = 'ls'\nenabled = false\n")
    listed = leeward("filters", "list", "--output", "json").json["data"]["filters"]
    by_name = {one["name"]: one for one in listed}
    assert by_name["steps"]["layer"] == "yours" and by_name["steps"]["strategies"] == ["strip_noise"]
    assert not by_name["ls"]["enabled"] and by_name["pytest"]["layer"] == "built in"
    assert "steps" in leeward("filters", "list").out


def test_a_file_is_tried_as_the_output_of_a_command(leeward) -> None:
    text = "".join(f"tests/a.py::test_{n} PASSED [ 1%]\n" for n in range(99)) + "=== 99 passed in 1s ===\n"
    path = leeward.workspace / "out.txt"
    path.write_text(f"\x1b[31m{text}", encoding="utf-8")
    told = leeward("filters", "test", str(path), "--as", "pytest -q", "--output", "json").json["data"]
    assert told["rules"] == ["pytest", "long"] and told["before"] == {"characters": len(text), "lines": 100}
    assert told["after"]["text"] == "[… lines 1 to 99 left out]\n=== 99 passed in 1s ===\n"
    assert told["saved"] == round(1 - len(told["after"]["text"]) / len(text), 4)
    done = leeward("filters", "test", str(path), "--as", "pytest -q", "--exit", "1")
    assert done.out.endswith("=== 99 passed in 1s ===\n") and "saved   98%" in done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("nowhere.txt", "--as", "ls"), 5), (("notes.md", "--as", "ls 'x"), 2),
        (("notes.md",), 2), ((".", "--as", "ls"), 1),
    ],
)  # fmt: skip
def test_what_cannot_be_tried_is_told(leeward, words, code) -> None:
    done = leeward("filters", "test", *words, "--output", "json")
    assert done.code == code and done.json["ok"] is False, done
    assert json.dumps(done.json["error"])
