"""Names that a loop makes of those it goes through: looked at one by one, or asked about by force."""

from __future__ import annotations

import pytest

FILES = (
    "a.txt",
    "b c.txt",
    "data.csv",
    "docs/a.md",
    "docs/b.md",
    "x.json",
    "package.txt",
    "one-link",
    "docs/out",
)
LINKS = {"/srv/ws/one-link": "/home/ada/.bashrc", "/srv/ws/away": "/etc", "/srv/ws/docs/out": "/etc/passwd"}


@pytest.fixture
def loop(world):
    world.files, world.links = FILES, LINKS
    return lambda names, body: world.say(f"for f in {names}; do {body}; done")


@pytest.mark.parametrize(
    ("names", "body"),
    [
        ("*.txt", 'mv "$f" "${f%.txt}.md"'),
        ("*.txt", 'cp "$f" "docs/$f"'),
        ("*.csv", 'mv "$f" "new_${f}"'),
        ("*.csv", "mv $f ${f%.csv}.tsv"),
        ("docs/*.md", 'mv "$f" "${f%.*}.rst"'),
        ("docs/*.md", 'cp "$f" "src/${f##*/}"'),
        ("docs/*.md", 'sort "$f" > "${f/.md/}.sorted"'),
        ("*.none", 'mv "$f" "${f%.none}.md"'),
        ("a b", 'tee "$f.md" < data.csv'),
        ("docs/*.md", 'dd if="$f" of="${f%.md}.bin"'),
    ],
)
def test_what_a_loop_makes_of_plain_names_is_only_asked_about(loop, names, body):
    assert loop(names, body) == "ask"


@pytest.mark.parametrize(
    ("names", "body"),
    [
        ("*.txt", 'mv "$f" "${f%.txt}.json"'),
        ("Make", 'cp data.csv "${f}file"'),
        ("x.json", 'cp "$f" "package${f#x}"'),
        ("docs/*.md", 'cp "$f" ".vscode/${f##*/}"'),
        ("docs/*.md", 'cp "$f" "away/${f##*/}"'),
        ("*.csv", 'cp "$f" "one${f/data.csv/-link}"'),
        ("docs/b.md", 'cp data.csv "${f%/*}/${f/docs\\/b.md/out}"'),
        ("docs/b", 'cp data.csv "${f%b}out"'),
        ("b.env", 'cp data.csv "${f#b}"'),
        ("hooks", 'cp data.csv ".git/$f/pre-commit"'),
        ("docs/*.md", 'cp "$f" "../${f##*/}"'),
        ("*.csv", 'mv "$f" "$x"'),
        ("*.csv", 'mv "$f" "${f,,}"'),
        ("*.txt", "mv $f ${f%.txt}.md"),
        ("$(ls)", 'mv "$f" "${f%.a}.b"'),
        ("*.csv", 'f=Makefile; cp data.csv "$f"'),
        ("*.csv", 'read f; mv "$f" "${f%.a}.b"'),
    ],
)
def test_what_could_be_another_file_is_asked_about_by_force(loop, names, body):
    assert loop(names, body) in {"force", "deny"}


def test_what_the_line_itself_brings_about_was_not_looked_up(world):
    world.files = ("a.txt",)
    moved = 'for f in *.txt; do mv "$f" "${f%.txt}.json"; done'
    assert (world.say(moved), world.say(f"touch package.txt; {moved}")) == ("ask", "force")


@pytest.mark.parametrize(
    ("names", "body"),
    [
        ("docs//*.md", 'cp data.csv "${f#*/}"'),
        ("one-lin*/", 'cp data.csv "${f}x"'),
        ("awa*/", 'cp data.csv "${f}passwd"'),
    ],
)
def test_every_slash_of_a_name_counts(world, loop, names, body):
    world.files = ("data.csv", "docs/a.md", "away", "one-link")
    # What else is looked up for a line may be just what a wrong name needs.
    known = f"stat . {world.policy.workspace}; echo {world.policy.workspace}/*"
    assert world.say(f"{known}; for f in {names}; do {body}; done") == "force"
