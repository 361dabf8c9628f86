"""Read a skill's `SKILL.md`: front matter between two lines `---`, then Markdown for the model.

The keys are those of the open format for agent skills: `name`, `description`, `license`, `compatibility`,
`metadata` (texts by name) and `allowed-tools`, and one of ours, `x-requires-secrets`; others are passed over.
`front_matter.py` says how they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from leeward.security.lazy import dataclass, regex

from ..front_matter import FrontMatter, FrontMatterError

__all__ = ["SKILL_FILE", "SKILL_NAME", "SkillDocument", "SkillError", "read_document"]

SKILL_FILE = "SKILL.md"
SKILL_NAME = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SECRET_NAME = regex(r"[A-Za-z0-9_-]{1,64}")

_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_COMPATIBILITY = 64, 1024, 500


class SkillError(ValueError):
    """A skill that cannot be used; the message names the file, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """What a `SKILL.md` says. `allowed_tools` is None where it names none; `body` is for the model.

    `secrets` names those that its work needs; naming them lends nothing.
    """

    name: str
    description: str
    body: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    allowed_tools: tuple[str, ...] | None = None
    secrets: tuple[str, ...] = ()


def read_document(text: str, file: str, folder: str) -> SkillDocument:
    """Return what a `SKILL.md` says; `file` is how messages name it, `folder` the name of its folder.

    Raises:
        SkillError: it is none, or a value in it cannot be used.
    """
    try:
        return _document(FrontMatter(text, file), folder)
    except FrontMatterError as error:
        raise SkillError(str(error)) from error


def _document(front: FrontMatter, folder: str) -> SkillDocument:
    name, description = front.text("name"), front.text("description")
    if len(name) > _LONGEST_NAME or SKILL_NAME.fullmatch(name) is None:
        front.refuse("name", "a name has up to 64 lower-case letters, digits and single hyphens")
    if name != folder:
        front.refuse("name", f"the skill is called {name} and its folder {folder}; they have to be the same")
    if not 0 < len(description) <= _LONGEST_DESCRIPTION:
        front.refuse("description", f"a description has 1 to {_LONGEST_DESCRIPTION:,} characters")
    compatibility = front.text("compatibility", "")
    if len(compatibility) > _LONGEST_COMPATIBILITY:
        front.refuse("compatibility", f"it has {_LONGEST_COMPATIBILITY} characters at most")
    return SkillDocument(
        name,
        description,
        front.body,
        front.text("license", ""),
        compatibility,
        MappingProxyType(front.mapping("metadata")),
        front.words("allowed-tools"),
        _secrets(front),
    )


def _secrets(front: FrontMatter) -> tuple[str, ...]:
    names = front.words("x-requires-secrets") or ()
    if not all(_SECRET_NAME.fullmatch(name) for name in names):
        front.refuse("x-requires-secrets", "a secret is named as in [secrets.NAME]")
    return names
