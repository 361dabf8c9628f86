"""How far the person trusts each skill: a level holds for the folder it was given for, as it was then.

A skill nobody raised is quarantined; so is one of which anything changed, that was moved, or that got another
file. Blocked it stays, whatever becomes of it.
"""

from __future__ import annotations

from pathlib import Path

from leeward.memory.private_file import read_private, write_private
from leeward.security.lazy import dataclass
from leeward.security.trust import TrustLevel

__all__ = ["SkillStore"]

_LARGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class SkillStore:
    """The levels, in a file of the person's own."""

    file: Path

    def level(self, folder: Path, digest: str) -> TrustLevel:
        """Return how far a skill is trusted as it is now; this waits for the disk."""
        level, of = self._known().get(str(folder), (TrustLevel.QUARANTINED, ""))
        return level if level is TrustLevel.BLOCKED or of == digest else TrustLevel.QUARANTINED

    def blocked(self) -> tuple[Path, ...]:
        """Return the folders of skills that are blocked."""
        return tuple(
            Path(folder) for folder, (level, _) in self._known().items() if level is TrustLevel.BLOCKED
        )

    def set(self, folder: Path, digest: str, level: TrustLevel) -> None:
        """Note how far a skill is trusted from now on, as it is now.

        Raises:
            OSError: that cannot be written.
        """
        known = self._known() | {str(folder): (level, digest)}
        write_private(
            self.file,
            {name: {"level": one.name.lower(), "digest": of} for name, (one, of) in known.items()},
        )

    def _known(self) -> dict[str, tuple[TrustLevel, str]]:
        found: dict[str, tuple[TrustLevel, str]] = {}
        for folder, one in read_private(self.file, _LARGEST).items():
            try:
                found[folder] = TrustLevel[one["level"].upper()], str(one["digest"])
            except (KeyError, TypeError, AttributeError):
                continue
        return found
