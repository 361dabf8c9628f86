"""Skills: folders that say how a kind of work is done, each trusted as it is or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .document import SKILL_FILE, SkillDocument, SkillError, read_document
    from .executor import Skills, uses_of
    from .folder import Skill, digest_of, document_in, read_skill, skill_folders
    from .store import SkillStore

__all__ = [
    "SKILL_FILE",
    "Skill",
    "SkillDocument",
    "SkillError",
    "SkillStore",
    "Skills",
    "digest_of",
    "document_in",
    "read_document",
    "read_skill",
    "skill_folders",
    "uses_of",
]

_HOMES = {
    "SKILL_FILE": ".document",
    "Skill": ".folder",
    "SkillDocument": ".document",
    "SkillError": ".document",
    "SkillStore": ".store",
    "Skills": ".executor",
    "digest_of": ".folder",
    "document_in": ".folder",
    "read_document": ".document",
    "read_skill": ".folder",
    "skill_folders": ".folder",
    "uses_of": ".executor",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
