"""How far the person trusts each skill: a level holds for the folder it was given for, as it was then.

A skill nobody raised is quarantined; so is one of which anything changed, that was moved, or that got another
file. Blocked it stays, whatever becomes of it where it lies; so are the same bytes anywhere else. Of two
words on the same bytes the later holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leeward.memory.private_file import read_private, write_private
from leeward.security.lazy import dataclass
from leeward.security.trust import TrustLevel

from .document import SkillError
from .folder import digest_of, skill_folders

__all__ = ["SkillStore"]

_LARGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class SkillStore:
    """The levels, in a file of the person's own."""

    file: Path

    def level(self, folder: Path, digest: str) -> TrustLevel:
        """Return how far a skill is trusted as it is now; this waits for the disk."""
        known = self._known()
        level, of = known.get(str(folder), (TrustLevel.QUARANTINED, ""))
        if level is TrustLevel.BLOCKED or of == digest:
            return level
        is_blocked = (TrustLevel.BLOCKED, digest) in known.values()
        return TrustLevel.BLOCKED if is_blocked else TrustLevel.QUARANTINED

    def blocked(self, parents: Sequence[Path] = ()) -> tuple[Path, ...]:
        """Return the folders of blocked skills: as noted, and what holds the same bytes below `parents`."""
        noted = {of: one for of, one in self._known().items() if one[0] is TrustLevel.BLOCKED}
        digests = {digest for _, digest in noted.values()} - {""}
        found = [Path(folder) for folder in noted]
        # Skills are hashed only where one is blocked by its bytes.
        for folder in (folder for parent in parents if digests for folder in skill_folders(parent)):
            try:
                found += [folder] if digest_of(folder) in digests else []
            except SkillError:
                continue
        return tuple(found)

    def set(self, folder: Path, digest: str, level: TrustLevel) -> None:
        """Note how far a skill is trusted from now on, as it is now.

        Raises:
            OSError: that cannot be written.
        """
        known = self._known()
        for other, (held, of) in [*known.items()] if digest else []:
            if of != digest:
                continue
            if held is TrustLevel.BLOCKED:
                known[other] = held, ""  # that folder stays blocked, its bytes do not
            elif level is TrustLevel.BLOCKED:
                del known[other]
        known[str(folder)] = level, digest
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
