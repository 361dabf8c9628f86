"""The documents match the code: tables, code blocks, links, and the chat in the README."""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import trio

import leeward as front
from leeward.runtime.app import RuntimeOptions
from leeward.runtime.cli.main import _parser
from leeward.runtime.events import EndReason
from leeward.runtime.exits import Exit
from leeward.runtime.script.expect import _ARGUMENTS
from leeward.runtime.slash import COMMANDS
from leeward.security.checks import PATTERNS, rejected_pattern
from leeward.security.kinds import KIND_KEY, Effect, Kind
from leeward.security.pipeline import GATES
from leeward.tools.distill import Rule, built_in_rules
from leeward.tools.distill.rules import Strategy

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is."""
    rows: list[list[str]] = []
    for line in text.partition(f"\n| {first} |")[2].split("\n")[2:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from flags(inner)
        yield from action.option_strings


def test_the_documented_exit_codes_are_those_there_are():
    told = [(int(code), quoted(name)[0]) for code, name, _ in table(page("docs/cli.md"), "exit")]
    assert told == [(code.value, code.name) for code in Exit]


def test_flags_and_commands():
    text = page("docs/cli.md")
    rows = [*table(text, "flag"), *table(text.partition("These stand alone")[2], "flag")]
    told = {quoted(row[0])[0].split()[0] for row in rows}
    assert told == {*flags(_parser())} - {"-h"}
    assert {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)} <= told
    commands = next(action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert {*re.findall(r"^leeward ([a-z]+)", text, re.MULTILINE)} == {*commands.choices}


def test_expectations_and_events():
    text = page("docs/cli.md")
    assert {quoted(row[0])[0].split()[1] for row in table(text, "expectation")} == {*_ARGUMENTS}
    # Those of services and of tools are types of their own.
    others = {"providers", "agents"}
    files = [file for file in (ROOT / "runtime").rglob("*.py") if others.isdisjoint(file.parts)]
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    types = {
        *re.findall(r'"type": "([a-z]+)"', sources),
        *re.findall(r'_Answer\(.*, "([a-z]+)", \[', sources),
    }
    assert {quoted(row[0])[0] for row in table(text, "type")} == types
    assert all(f"`{reason}`" in text for reason in EndReason)


def test_each_event_has_the_fields_that_are_told(leeward):
    script = leeward.script(
        "/status\nread notes.md\n!expect allowed read\nguess the website of x\n!expect denied fetch\n"
    )
    strict = str(leeward.home / "strict.toml")
    Path(strict).write_text('[[permissions.rules]]\ntool = "read"\naction = "deny"\n', encoding="utf-8")
    own = leeward.home / ".config/leeward/agents"
    own.mkdir(parents=True)
    (own / "scout.md").write_bytes((ROOT / "examples/agents/scout.md").read_bytes())
    odd = leeward.home / "odd.txt"
    odd.write_text("a hidden\u200b character", encoding="utf-8")
    runs = [
        leeward("--script", script, "--model", "offline", "--output", "jsonl"),
        leeward("scan", str(odd), "--output", "jsonl"),
        leeward("check", "read", '{"path": "notes.md"}', "--output", "jsonl"),
        leeward("audit", "list", "--output", "jsonl"),
        *(
            leeward("audit", *words, "--output", "jsonl")
            for words in (("why",), ("verify",), ("stats",), ("replay", "--config", strict))
        ),
        leeward("tools", "--output", "jsonl"),
        leeward("filters", "list", "--output", "jsonl"),
        leeward("filters", "test", "notes.md", "--as", "cat notes.md", "--output", "jsonl"),
        *(
            leeward("sessions", *words, "--output", "jsonl")
            for words in (("list",), ("search", "read"), ("delete", "s_"))
        ),
        leeward("storage", "status", "--output", "jsonl"),
        leeward("--script", script, script, "--model", "offline", "--output", "jsonl"),
        leeward("doctor", "--output", "jsonl"),
        *(
            leeward("mcp", "--output", "jsonl", *words)
            for words in (("add", "x", "--", "y"), ("list",), ("trust", "x", "quarantined"))
        ),
        leeward("skills", "add", str(ROOT / "examples/skills/release-notes"), "--output", "jsonl"),
        leeward("skills", "list", "--output", "jsonl"),
        leeward("agents", "list", "--output", "jsonl"),
    ]
    told = {quoted(kind)[0]: set(quoted(fields)) for kind, _, fields in table(page("docs/cli.md"), "type")}
    seen = set()
    for event in (event for run in runs for event in run.lines):
        seen.add(event["type"])
        if told[event["type"]]:
            # With several scripts every line bears the file besides.
            assert told[event["type"]] | {"file"} == {*event, "file"} - {"schema", "type"}, event
    assert seen == {*told} - {"thinking", "output", "alert", "config", "model", "grant", "definition"}


def test_the_documented_slash_commands_are_those_there_are():
    listed = [
        (quoted(usage)[0], summary, tuple(quoted(also)))
        for usage, summary, also in table(page("docs/chat.md"), "command")
    ]
    assert listed == [(c.usage, c.summary, tuple(f"/{alias}" for alias in c.aliases)) for c in COMMANDS]


def test_gates_in_the_readme():
    assert [quoted(row[0])[0] for row in table(page("README.md"), "gate")] == [
        gate.__name__ for gate in GATES
    ]


def test_output_filters_and_what_they_are_made_of():
    text, rules = page("docs/filters.md"), built_in_rules().rules.values()
    assert table(text, "filter") == [
        [
            f"`{rule.name}`",
            ", ".join(f"`{words}`" for words in rule.match.words),
            ", ".join(strategy.kind for strategy in rule.strategy),
        ]
        for rule in rules
    ]
    told = {quoted(kind)[0]: set(quoted(names)) for kind, names, _ in table(text, "kind")}
    strategies = get_args(get_args(Strategy)[0])
    assert told == {
        kind.model_fields["kind"].default: set(kind.model_fields) - {"kind"} for kind in strategies
    }
    assert {quoted(row[0])[0] for row in table(text, "key")} == set(Rule.model_fields)


def test_effects_kinds_and_failures():
    text = page("docs/tools.md")
    assert [quoted(row[0])[0] for row in table(text, "effect")] == [str(effect.name) for effect in Effect]
    markers = {quoted(row[0])[0] for row in table(text, "kind")}
    declared = {name for name in front.__all__ if hasattr(getattr(front, name), "__metadata__")}
    assert markers == declared
    named = set(quoted(text.partition(f"`{KIND_KEY}`: ")[2].partition("`take`")[0]))
    # What a command may reach is no argument of a call.
    assert named == {*Kind} - {Kind.UNDECLARED, Kind.HOST}
    for name, _, retry in table(text, "raise"):
        assert getattr(front, quoted(name)[0]).category.retryable == (retry == "yes")


def test_the_code_in_the_guide_for_authors_runs(leeward, tmp_path):
    names = {"__name__": "guide"}
    parts = blocks(page("docs/tools.md"), "python")
    assert len(parts) == 8
    for part in parts:
        exec(compile(part, "docs/tools.md", "exec"), names)
    assert names["Forge"].requires_secrets == ["FORGE_TOKEN"]
    assert names["count_lines"].specs()[0].schema["properties"].keys() == {"path"}
    trio.run(names["test_lines_are_counted"], tmp_path)
    trio.run(names["test_a_turn"], tmp_path / "session")


def test_the_code_in_the_guide_for_embedding_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    written = blocks(page("docs/embedding.md"), "python")
    files = {name: page(name) for name in ("examples/fastapi_service.py", "examples/http_approver.py")}
    assert [*files.values()] == [part for part in written if part in files.values()], (
        "shown as they are tested"
    )
    parts = []
    for part in written:
        if part not in files.values():
            parts.append({"__name__": "guide"})
            exec(compile(part, "docs/embedding.md", "exec"), parts[-1])
    differs, inside_asyncio, without_a_loop, inside_trio, errors = parts
    assert differs["outcomes"]("draft.md") == ["denied", "ok"]
    assert asyncio.run(inside_asyncio["main"]())
    assert without_a_loop["answer"]("help")
    trio.run(inside_trio["main"])
    assert errors["open_with"]("offline", "supervised")
    assert errors["open_with"]("offline", "none") == "your configuration: permissions.autonomy"
    assert errors["open_with"]("none:x", "full").startswith("MODEL_ERROR: ")
    rows = table(page("docs/embedding.md"), "option")
    assert {name for row in rows for name in quoted(row[0])} == {*RuntimeOptions.__annotations__}


def test_the_code_in_the_readme_runs(tmp_path, monkeypatch, capsys):
    declares, embeds = blocks(page("README.md"), "python")
    names = {"__name__": "readme"}
    exec(compile(declares, "README.md", "exec"), names)
    assert names["weather"].specs()[0].name == "weather"
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("the ferry leaves at seven\n")
    monkeypatch.chdir(tmp_path / "work")
    exec(compile(embeds, "README.md", "exec"), {"__name__": "__main__"})
    assert "the ferry leaves at seven" in capsys.readouterr().out


def anchors(text: str) -> set[str]:
    """The anchors of a page, as GitHub and the site make them of its headings."""
    counted: Counter[str] = Counter()
    found = set()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} (.+)$", prose, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-")
        found.add(f"{slug}-{counted[slug]}" if counted[slug] else slug)
        counted[slug] += 1
    return found


def dead_links(path: Path, text: str) -> list[str]:
    """The links of a page that lead to no file, or to no heading of it."""
    dead = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = path.parent / name
        is_there = file.exists() and file.resolve().is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in anchors(file.read_text("utf-8") if name else text)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere_and_toml_is_toml(path):
    text = path.read_text(encoding="utf-8")
    assert dead_links(path, text) == []
    for block in blocks(text, "toml"):
        tomllib.loads(block)


def test_dead_links_are_found():
    text = "# A b\n\n[1](#a-b) [2](#ab) [3](cli.md#exit-codes) [4](cli.md#exit) [5](none.md)\n"
    text += "[6](../README.md#try-it) [7](../../outside.md)\n"
    assert dead_links(ROOT / "docs" / "sample.md", text) == [
        "#ab",
        "cli.md#exit",
        "none.md",
        "../../outside.md",
    ]


def test_every_page_is_listed_and_long_ones_are_not_too_long():
    listed = {
        (ROOT / "docs" / name).resolve() for name in re.findall(r"\]\(([^)#]+)\)", page("docs/README.md"))
    }
    assert {path.resolve() for path in (ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "README.md"} <= listed
    decisions = page("docs/decisions/README.md")
    assert all(f"({path.name})" in decisions for path in (ROOT / "docs/decisions").glob("0*.md"))
    assert page("README.md").count("\n") <= 210
    assert page("ARCHITECTURE.md").count("\n") <= 250


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/decisions").glob("0*.md")), ids=lambda path: path.stem[:4]
)
def test_a_decision_says_context_decision_and_consequences(path):
    headings = re.findall(r"^(#+ .+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0].startswith(f"# {path.stem[:4]}: ")
    assert headings[1:] == ["## Context", "## Decision", "## Consequences"]


def test_the_documented_patterns_are_those_there_are():
    rows = table(page("docs/patterns.md"), "pattern")
    assert [quoted(name)[0] for name, _ in rows] == list(PATTERNS)
    for name, examples in rows:
        for example in quoted(examples):
            found = rejected_pattern(Kind.RESOURCE_ID, example)
            assert found is not None and found.pattern == quoted(name)[0], example


def test_the_chat_in_the_readme(tty, leeward, monkeypatch):
    """Each line that is typed there is typed here, and what follows is what follows."""
    leeward.trial = "auto"
    monkeypatch.delenv("LEEWARD_TOOLS__SHELL__TRIAL")
    if "trial" not in leeward("check", "shell", '{"command": "touch x"}').out:
        pytest.skip("it was had where commands run on trial; leeward doctor says why they cannot here")
    _, *told = blocks(page("README.md").partition("## Sixty seconds")[2], "text")[0].rstrip("\n").split("\n")
    # A path no longer than that in the README, so that lines are broken where they are there.
    with tempfile.TemporaryDirectory(prefix="hb", dir="/tmp") as folder:
        leeward.workspace = Path(folder).resolve()
        (leeward.workspace / "notes.md").write_text(
            "# Harbour notes\n\nThe ferry leaves at seven.\n", encoding="utf-8"
        )
        at = tty(columns=116)
        at.prompt()
        for line in told:
            if line.startswith("› ") and line != "› /exit":
                at.prompt()
                at.type(line[2:], "\r")
            elif line.startswith("  ["):
                at.see("[d] no, and why")
                at.type(line[3])
                at.see(line.rstrip())
        at.prompt()
        at.type("/exit", "\r")
        assert at.ended() == 0
        at.see("› /exit")
        said = at.text.replace(str(leeward.workspace), "/home/ann/harbour").split("\n")
    changing = re.compile(
        (
            r"after [0-9.]+ s|[0-9.]+ s(?=$|, exit)|call_[0-9a-f]+|g_[0-9a-f]{8}|until [0-9: -]+UTC"
            r"|Leeward [0-9.]+|^ +\d+  [0-9-]+ [0-9:]+"
        ),
        re.MULTILINE,
    )
    assert [changing.sub("#", line) for line in said] == [changing.sub("#", line) for line in told]


# The first part of a path that stands for one of ours, and how files end.
_PLACES = re.compile(
    r"(?:\./)?(?:src|security|memory|tools|runtime|tests|docs|examples|bench|\.ci|\.github)/[\w./*-]*"
    r"|[\w./*-]+\.(?:py|toml|md|lock|yml|yaml)"
)
_NOT_OURS = {"package.json", "config.toml"}


def missing_paths(name: str) -> list[str]:
    """The paths in backquotes that no file or folder has; NAME stands for any.

    A bare file name is one of a file that the same row or the sentence before names the folder of.
    """
    missing = []
    for words in quoted(re.sub(r"(?s)```.*?```", "", page(name)).replace("\n", " ")):
        if _PLACES.fullmatch(words) and words not in _NOT_OURS:
            pattern = words.removeprefix("./").rstrip("/").replace("NAME", "*")
            if not any(ROOT.glob(pattern)) and ("/" in pattern or not is_somewhere(pattern)):
                missing.append(words)
    return missing


def is_somewhere(name: str) -> bool:
    return any(next((ROOT / folder).rglob(name), None) for folder in (*front_folders(), "tests", "docs"))


def front_folders() -> tuple[str, ...]:
    return ("security", "memory", "tools", "runtime")


@pytest.mark.parametrize(
    "name", ["CONTRIBUTING.md", "ARCHITECTURE.md", "README.md", "docs/decisions/0006-layout.md"]
)
def test_every_path_of_ours_in_backquotes_exists(name):
    assert missing_paths(name) == []


def packages_in_tables(text: str) -> dict[str, list[str]]:
    """The packages that the tables of each folder have a row for: what their first column names."""
    found: dict[str, list[str]] = {}
    for section in text.split("\n## ")[1:]:
        folder = re.match(r"`(\w+)/`\n", section)
        cells = re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE) if folder else []
        for name in (name for cell in cells for name in re.findall(r"`([^`]+)/`", cell)):
            found.setdefault(folder[1], []).append(name)
    return found


def packages_of(folder: str) -> list[str]:
    fronts = (ROOT / folder).glob("*/**/__init__.py")
    return sorted(str(front.parent.relative_to(ROOT / folder)) for front in fronts)


def test_the_architecture_has_one_row_for_each_package():
    rows = packages_in_tables(page("ARCHITECTURE.md"))
    assert {folder: sorted(names) for folder, names in rows.items()} == {
        folder: packages_of(folder) for folder in front_folders()
    }


def test_a_package_without_a_row_is_found():
    text = page("ARCHITECTURE.md").replace("| `agents/` |", "| agents |")
    assert set(packages_of("runtime")) - set(packages_in_tables(text)["runtime"]) == {"agents"}
