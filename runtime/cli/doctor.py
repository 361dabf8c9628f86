"""`leeward doctor`: print what was found of all that the protection rests on.

A problem is a finding that needs the person, and makes the exit code; what is only worth knowing is a note.
"""

from __future__ import annotations

from leeward.security.kinds import Json

from ..console import look
from ..diagnosis import findings_of
from ..exits import Exit
from ..options import Options
from ..printer import Printer, plain

__all__ = ["doctor"]


async def doctor(options: Options, printer: Printer) -> Exit:
    """Print the findings.

    Raises:
        CliError: the configuration cannot be used.
        RecordError: the database cannot be opened.
    """
    found = await findings_of(look(options))
    printer.answer("".join(f"{plain(line)}\n" for one in found for line in str(one).split("\n")))
    answer: dict[str, Json] = {
        "findings": [
            {"name": one.name, "well": one.is_well, "said": one.text, "remedy": one.remedy or None}
            for one in found
        ]
    }
    printer.event({"schema": 1, "type": "doctor", **answer})
    bad = [finding.name for finding in found if finding.is_well is False]
    if not bad:
        return printer.finish(Exit.SUCCESS, answer)
    error = {"code": "PROBLEM_FOUND", "message": f"needs attention: {', '.join(dict.fromkeys(bad))}"}
    return printer.finish(Exit.PRECONDITION, answer, error)
