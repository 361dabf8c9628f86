"""Programs that read an operand in a way of their own: what they open is not the file with that name."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from leeward.security.command.judge.readonly import program_of
from leeward.security.command.programs.tables import lines_of
from loading import rows_beside

ROWS = rows_beside(__file__)

MARK = "ZEBRA-4417"
ASKED = ROWS["asked"]
QUIET = [
    "unzip -l a.zip", "unzip -l a.zip '*.py'", "zipinfo a.zip", "unzip -l -- a",
    "xmllint --nonet --noout a.xml src/b.xml", "xmllint --nonet *.csv", "tar tf a.tar",
    "tar -tf a.tar 'src/*'", "getfacl README.md", "apt show bash", "apt list --installed",
    "grep -f README.md data.csv",
]  # fmt: skip


@pytest.mark.parametrize("line", ASKED)
def test_what_may_open_another_file_than_its_words_name_is_asked_about(world, line):
    assert world.say(line) == "ask"


@pytest.mark.parametrize("line", QUIET)
def test_plain_names_stay_quiet(world, line):
    assert world.say(line) == "nothing"


def test_a_pattern_of_the_shell_is_quiet_where_it_matches_plain_names_only(world):
    world.files = (*world.files, "a.zip", "b.xml")
    assert [world.say(line) for line in ("unzip -l *.zip", "xmllint --nonet *.xml")] == ["nothing", "nothing"]
    world.files = (*world.files, "a[b].zip", "%2e.xml", "host:b.tar")
    lines = ("unzip -l *.zip", "xmllint --nonet *.xml", "tar -tf *.tar")
    assert [world.say(line) for line in lines] == ["ask", "ask", "ask"]


FORMS = [
    "'see*'", "'s[e]ed'", "'se?d'", "'s\\eed'", "'%73eed'", "'file:seed'", '"file://$PWD/seed"', "@names",
    "- < names",
]  # fmt: skip
FIRST = {
    "unzip": "-l", "xmllint": "--nonet", "tar": "-tf", "jq": "-R .", "sed": "p",
    **dict.fromkeys(("awk", "gawk", "mawk"), "'{print}'"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "ag"), "ZEBRA"), "gzip": "-l",
}  # fmt: skip


def test_no_program_of_the_table_finds_another_file_than_it_names(world, tmp_path: Path):
    """Each one here is run with names that mean the one file only to who reads more into them than the shell
    does.
    """
    (tmp_path / "names").write_text("seed\n")
    opening: set[str] = set()
    for name in lines_of("programs.toml"):
        found = program_of(name)
        if found is None or "content" not in found.operands + found.options or shutil.which(name) is None:
            continue
        (tmp_path / "seed").write_text(f"<a>{MARK}</a>\n")
        if name in {"unzip", "zipinfo"}:
            with zipfile.ZipFile(tmp_path / "seed", "w") as archive:
                archive.writestr(MARK, "a")
        if name == "tar":
            with tarfile.open(tmp_path / "seed", "w") as packed:
                packed.add(tmp_path / "names", MARK)
        for form in FORMS:
            text = f"{name} {FIRST.get(name, '')} {form}"
            ran = subprocess.run(
                ["/bin/sh", "-c", text], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=20, check=False,
            )  # fmt: skip
            if MARK.encode() in ran.stdout + ran.stderr:
                opening.add(name)
                assert world.say(text) != "nothing", text
    known = {"unzip", "zipinfo", "xmllint"}
    assert opening & known == {name for name in known if shutil.which(name) is not None}
