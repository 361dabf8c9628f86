"""Wrong: a command of a workspace counts as trusted by its name, whatever its file holds by now."""

from pathlib import Path

from leeward.runtime.config import COMMANDS_FOLDER, Trust, contents_of
from leeward.runtime.slash.own import OwnCommand
from leeward.security.policy import Policy


def read_project_command(name: str, trust: Trust, policy: Policy) -> OwnCommand | None:
    file = f"{COMMANDS_FOLDER}/{name}.md"
    data = contents_of(Path(policy.workspace), file)
    return OwnCommand(name, "", data.decode()) if data and file in trust.files else None
