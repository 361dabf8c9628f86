"""Wrong: a level holds for a skill by its name, and a skill that is allowed tools is allowed them."""

from pathlib import Path

from leeward.memory.private_file import read_private
from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.trust import TrustLevel
from leeward.security.verdict import Allow, Verdict
from leeward.tools.skills import SkillStore


class ByName(SkillStore):
    def level(self, folder: Path, digest: str) -> TrustLevel:
        known = read_private(self.file, 1 << 20)
        found = {Path(name).name: one["level"] for name, one in known.items()}
        return TrustLevel[found.get(folder.name, "quarantined").upper()]


def permissions(action: Action, session: Session) -> Verdict:
    uses = session.skill_uses or ()
    return Allow("the skill uses it") if action.call.tool in dict(uses) else Allow()
