"""The skills of a session: where they lie, what the prompt says of them, and what using one means.

Those of the person lie in `skills/` of the configuration folder, those of a trusted workspace in
`.agents/skills/`. Each is trusted for itself (`tools/skills/store.py`). Names and descriptions are shown to
the model as data, also those of a skill that is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.filters import Source
from leeward.security.lazy import dataclass
from leeward.security.session import Event, Session, SkillUsed, UrlsAdded
from leeward.security.text import visible
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance, Url, urls_given
from leeward.tools.skills import Skill, SkillError, Skills, SkillStore, uses_of

from ..config import trust_in
from ..policy import SKILL_LEVELS, SKILLS_FOLDER, WORKSPACE_SKILLS

if TYPE_CHECKING:
    from leeward.security.pipeline import Pipeline

    from ..config import Locations

__all__ = [
    "SKILLS_FOLDER",
    "WORKSPACE_SKILLS",
    "list_skills",
    "listed",
    "skill_parents",
    "skill_store",
    "skills_of",
    "used",
]

_LONGEST_LIST = 16_000  # characters of the prompt


def skill_store(places: Locations) -> SkillStore:
    """Return what knows how far each skill is trusted."""
    return SkillStore(places.data / SKILL_LEVELS)


def skill_parents(places: Locations) -> tuple[Path, ...]:
    """Return the folders that hold skills, the person's own first; this waits for the disk."""
    own, brought = places.config / SKILLS_FOLDER, places.workspace / WORKSPACE_SKILLS
    # A link could lead to a folder that others write to.
    is_there = brought.is_dir() and brought.resolve() == brought
    return (own.resolve(), brought) if is_there and trust_in(places).answer is True else (own.resolve(),)


def skills_of(places: Locations, pipeline: Callable[[], Pipeline]) -> Skills:
    """Return the skills there are for a session, which `pipeline` returns the pipeline of."""

    async def loaded(skill: Skill) -> None:
        await pipeline().note(*used(skill, pipeline().session))

    return Skills(skill_parents(places), skill_store(places), loaded)


def used(skill: Skill, session: Session) -> tuple[Event, ...]:
    """Return the events by which a trusted skill is followed: its URLs become known, exactly."""
    texts = (skill.document.body, *(content.decode("utf-8", "replace") for content in skill.files.values()))
    urls = tuple(url for text in texts for url in urls_given(text) if isinstance(url, Url))
    known = (UrlsAdded.of(session.now, urls, Provenance.LINK),) if urls else ()
    return (
        SkillUsed(session.now, skill.document.name, skill.digest, uses_of(skill.document)),
        *known,
    )


async def listed(skills: Skills, pipeline: Pipeline) -> str:
    """Return the names and descriptions for the prompt, as they were admitted; "" where there are none."""
    documents, more = skills.documents()
    if not documents:
        return ""
    lines = "\n".join(f"{one.name}: {' '.join(one.description.split())}" for one in documents)
    text = await pipeline.admit(lines[:_LONGEST_LIST], Source("skills", Origin.PROJECT, shows=False))
    return f"{text}\n{more} more can be loaded by name." if more else text


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """A skill as it is listed: `level` is "broken" where it cannot be used, `what` says why or what for."""

    name: str
    folder: Path
    level: str
    digest: str
    what: str

    @property
    def line(self) -> str:
        """It in one line."""
        how = "cannot be used:" if self.level == "broken" else f"{self.level:<12}"
        return visible(f"{self.name:<24} {how} {self.what}").rstrip()


def list_skills(skills: Skills) -> list[ListedSkill]:
    """Return the skills there are, by name; this waits for the disk. What is blocked is not read."""
    blocked = skills.blocked()
    found: list[ListedSkill] = []
    for name, folder in sorted(skills.folders().items()):
        if folder in blocked:
            found.append(ListedSkill(name, folder, TrustLevel.BLOCKED.name.lower(), "", ""))
            continue
        try:
            skill, level = skills.read(name)
        except SkillError as error:
            found.append(ListedSkill(name, folder, "broken", "", str(error)))
        else:
            what = " ".join(skill.document.description.split())[:200]
            found.append(ListedSkill(name, folder, level.name.lower(), skill.digest, what))
    return found
