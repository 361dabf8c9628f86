"""Skills on the disk: a level holds for what was trusted, byte by byte, and for nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from leeward.security.trust import TrustLevel
from leeward.tools.skills import SkillError, Skills, SkillStore, digest_of, read_skill, skill_folders


async def ignored(_skill):
    pass


def made(parent: Path, name="review", body="Do it.") -> Path:
    folder = parent / name
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Reviews.\n---\n{body}")
    (folder / "scripts/run.sh").write_text("echo hi")
    return folder


@pytest.fixture
def trusted(tmp_path):
    """A skill that the person trusts, and what knows it."""
    folder = made(tmp_path / "own")
    skills = Skills([tmp_path / "own"], SkillStore(tmp_path / "data/skills.json"), ignored)
    skills.store.set(folder, read_skill(folder).digest, TrustLevel.TRUSTED)
    assert skills.read("review")[1] is TrustLevel.TRUSTED
    return folder, skills


def changed_byte(folder):
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + " ")


def changed_script(folder):
    (folder / "scripts/run.sh").write_text("echo ho")


def new_file(folder):
    (folder / "more.md").write_text("more")


def removed_file(folder):
    (folder / "scripts/run.sh").unlink()


def renamed_file(folder):
    (folder / "scripts/run.sh").rename(folder / "scripts/go.sh")


def made_runnable(folder):
    (folder / "scripts/run.sh").chmod(0o755)


def moved_into_a_folder(folder):
    (folder / "a").mkdir()
    (folder / "scripts/run.sh").rename(folder / "a/run.sh")


def two_files_for_one(folder):
    content = (folder / "scripts/run.sh").read_text()
    (folder / "scripts/run.sh").write_text(content[:3])
    (folder / "scripts/run.sh2").write_text(content[3:])


CHANGES = (
    changed_byte,
    changed_script,
    new_file,
    removed_file,
    renamed_file,
    made_runnable,
    moved_into_a_folder,
    two_files_for_one,
)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_quarantines(trusted, change):
    folder, skills = trusted
    change(folder)
    assert skills.read("review")[1] is TrustLevel.QUARANTINED


def test_what_is_moved_is_another_one(trusted, tmp_path):
    folder, skills = trusted
    folder.rename(tmp_path / "elsewhere")
    made(tmp_path / "own")
    assert skills.read("review")[1] is TrustLevel.TRUSTED
    other = Skills([tmp_path / "other"], skills.store, ignored)
    made(tmp_path / "other")
    assert other.read("review")[1] is TrustLevel.QUARANTINED


def test_blocked_it_stays_whatever_becomes_of_it(trusted):
    folder, skills = trusted
    skills.store.set(folder, "", TrustLevel.BLOCKED)
    changed_byte(folder)
    with pytest.raises(SkillError, match="blocked"):
        skills.read("review")
    assert skills.store.level(folder, read_skill(folder).digest) is TrustLevel.BLOCKED
    assert skills.documents() == ([], 0)


def renamed(folder):
    return folder.rename(folder.with_name("other"))


def moved(folder):
    (folder.parents[1] / "brought").mkdir()
    return folder.rename(folder.parents[1] / "brought/review")


def copied(folder):
    shutil.copytree(folder, folder.parents[1] / "brought/review")
    return folder.parents[1] / "brought/review"


@pytest.mark.parametrize("change", [renamed, moved, copied])
def test_the_bytes_of_a_blocked_skill_are_blocked_wherever_they_lie(trusted, tmp_path, change):
    folder, skills = trusted
    skills.store.set(folder, digest_of(folder), TrustLevel.BLOCKED)
    there = change(folder)
    brought = Skills([tmp_path / "own", tmp_path / "brought"], skills.store, ignored)
    assert {folder, there} <= brought.blocked()
    assert brought.documents() == ([], 0)
    with pytest.raises(SkillError):
        brought.read(there.name)
    if there.name == "review":
        assert brought.store.level(there, read_skill(there).digest) is TrustLevel.BLOCKED


def test_the_last_word_on_the_same_bytes_holds(trusted):
    folder, skills = trusted
    other, digest = copied(folder), digest_of(folder)
    skills.store.set(other, digest, TrustLevel.BLOCKED)
    assert skills.store.level(folder, digest) is TrustLevel.BLOCKED
    skills.store.set(folder, digest, TrustLevel.TRUSTED)
    assert skills.store.level(folder, digest) is TrustLevel.TRUSTED
    assert skills.store.level(other, digest) is TrustLevel.BLOCKED  # that folder was blocked
    assert skills.store.level(folder.parent / "third", digest) is TrustLevel.QUARANTINED


def test_of_two_with_one_name_the_first_counts(trusted, tmp_path):
    _, skills = trusted
    made(tmp_path / "brought", body="Something else.")
    both = Skills([tmp_path / "own", tmp_path / "brought"], skills.store, ignored)
    assert both.read("review")[0].document.body == "Do it."


def linked_document(folder):
    (folder / "SKILL.md").rename(folder.parent.parent / "out.md")
    (folder / "SKILL.md").symlink_to(folder.parent.parent / "out.md")


def linked_folder(folder):
    (folder / "more").symlink_to("/etc")


def linked_file(folder):
    (folder / "more").symlink_to("/etc/passwd")


def dangling(folder):
    (folder / "more").symlink_to("/nowhere")


def pipe(folder):
    os.mkfifo(folder / "more")


def large(folder):
    with (folder / "more").open("wb") as file:
        file.truncate(9 << 20)


def many(folder):
    for number in range(600):
        (folder / f"{number}.md").write_text("x")


def nothing(folder):
    (folder / "SKILL.md").unlink()


@pytest.mark.parametrize(
    "spoil", [linked_document, linked_folder, linked_file, dangling, pipe, large, many, nothing]
)
def test_what_has_no_place_in_a_skill_is_refused(trusted, spoil):
    folder, skills = trusted
    spoil(folder)
    with pytest.raises(SkillError):
        skills.read("review")


def test_a_link_is_no_skill(trusted, tmp_path):
    folder, _ = trusted
    (tmp_path / "links").mkdir()
    (tmp_path / "links/review").symlink_to(folder)
    assert skill_folders(tmp_path / "links") == [] and skill_folders(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["../own/review", "/etc", "", ".", "review/scripts", "REVIEW", "a\0b"])
def test_a_name_leads_nowhere_else(trusted, name):
    with pytest.raises(SkillError, match="no skill of that name"):
        trusted[1].read(name)


@pytest.mark.parametrize("content", ["", "[]", '{"x": 1}', '{"x": {"level": "high", "digest": ""}}', "{"])
def test_a_store_that_is_broken_trusts_nothing(trusted, content):
    folder, skills = trusted
    skills.store.file.write_text(content)
    assert skills.read("review")[1] is TrustLevel.QUARANTINED
    skills.store.set(folder, read_skill(folder).digest, TrustLevel.VERIFIED)
    assert skills.read("review")[1] is TrustLevel.VERIFIED


def test_a_store_others_may_write_to_trusts_nothing(trusted):
    trusted[1].store.file.chmod(0o666)
    assert trusted[1].read("review")[1] is TrustLevel.QUARANTINED


def test_so_many_are_listed_and_the_rest_counted(tmp_path):
    for number in range(70):
        made(tmp_path / "own", f"s{number}")
    (tmp_path / "own/s1/SKILL.md").write_text("broken")
    documents, more = Skills([tmp_path / "own"], SkillStore(tmp_path / "x.json"), ignored).documents()
    assert (len(documents), more) == (63, 6)
