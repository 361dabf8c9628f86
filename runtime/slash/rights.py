"""Handlers of what is allowed: /permissions, /trust, /labels, /autonomy and /plan.

Each change is an event of the session, made by the person alone; no call of a model comes here.
"""

from __future__ import annotations

import difflib
import secrets

from leeward.security.lazy import regex
from leeward.security.permissions import pattern_problem
from leeward.security.policy import Autonomy
from leeward.security.session import AutonomySet, BreakerReset, Grant, Granted
from leeward.security.text import redact_text, visible
from leeward.security.trust import TrustLevel

from ..app import RuntimeSession
from ..describe import permission_lines, trust_line
from ..exits import CliError
from ..sessions import grant_lines, revoke, take_in
from .labels import endorsed, files_text, labels_text
from .result import Misused, SlashResult, failed

__all__ = ["plan", "set_autonomy", "set_labels", "set_permissions", "set_trust"]

_TOOL = regex(r"[a-z0-9_*?\[\]!-]{1,64}")
SERVER = "server:"
_PLAN = (
    "Make a plan for this first: look at what you need, change nothing, and end with the steps, the files "
    "they are about and what could go wrong."
)


async def set_permissions(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Show rules and grants, allow something for this session, or take a grant back."""
    await take_in(runtime.pipeline)
    session = runtime.pipeline.session
    if not argument:
        granted = grant_lines(session, await runtime.grants.all())
        return SlashResult("\n".join([*permission_lines(session.policy), *granted]))
    word, _, rest = argument.partition(" ")
    if word == "revoke" and rest.strip():
        return await _revoked(runtime, rest.strip())
    tool, _, pattern = rest.strip().partition(" ")
    if word != "allow" or not _TOOL.fullmatch(tool):
        raise Misused
    match = pattern.strip() or None
    problem = pattern_problem(match) if match is not None else None
    if match is not None and redact_text(match, session.secrets) != match:
        return failed("the pattern contains a secret; grants are stored and shown, so they must not")
    if problem is not None:
        return failed(f"{visible(pattern)}: {problem}")
    # The person allows the files as they are now, even if a call wrote them.
    mark = await runtime.changes.latest()
    grant = Grant(f"g_{secrets.token_hex(4)}", tool, match, files=(), mark=mark)
    await runtime.pipeline.note(Granted(session.now, grant))
    what = f"{tool}{f' {visible(match)}' if match is not None else ''}"
    return SlashResult(f"allowed for this session: {what} ({grant.id})")


async def _revoked(runtime: RuntimeSession, name: str) -> SlashResult:
    try:
        return SlashResult(await revoke(name, runtime.grants, runtime.pipeline))
    except CliError as error:
        return failed(error.message)


async def set_trust(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Show how far each tool is trusted, set it, or lift the breaker."""
    session = runtime.pipeline.session
    words = argument.split()
    if not words:
        return SlashResult("\n".join(trust_line(spec, session) for spec in runtime.tools.specs()))
    if words == ["reset"]:
        await runtime.pipeline.note(BreakerReset(session.now))
        return SlashResult("denials are counted anew")
    if len(words) != 2:
        raise Misused
    tool, level = words[0], TrustLevel.__members__.get(words[1].upper())
    if level is None:
        names = ", ".join(name.lower() for name in TrustLevel.__members__)
        return failed(f"there is no such level; levels are {names}")
    if tool.startswith(SERVER):
        return await _trust_server(runtime, tool, level)
    if runtime.tools.spec(tool) is None:
        near = difflib.get_close_matches(tool, [spec.name for spec in runtime.tools.specs()], n=1)
        return failed(
            f"there is no tool {visible(tool)}; {f'did you mean {near[0]}?' if near else '/tools lists them'}"
        )
    await runtime.set_trust(tool, level)
    return SlashResult(f"{tool} is {level.name.lower()} for this session")


async def _trust_server(runtime: RuntimeSession, source: str, level: TrustLevel) -> SlashResult:
    """Set the level of each tool of a server, as it is now."""
    names = [spec.name for spec in runtime.tools.specs() if spec.source == source]
    if not names:
        return failed(f"there is no {visible(source)}; /mcp lists the servers")
    for name in names:
        await runtime.set_trust(name, level)
    return SlashResult(f"{visible(source)} is {level.name.lower()} for this session: {', '.join(names)}")


async def set_labels(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Show what was read, where a value was first seen, which files hold words of others; endorse one."""
    word, _, rest = argument.partition(" ")
    if word == "endorse":
        done = await endorsed(runtime, rest.strip()) if rest.strip() else ""
        if not done:
            raise Misused
        return SlashResult(done)
    if word == "files":
        return SlashResult(await files_text(runtime, rest))
    return SlashResult(labels_text(runtime.pipeline.session, argument))


async def set_autonomy(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Show how much is done without asking, or switch it."""
    session, wanted = runtime.pipeline.session, argument.lower()
    if wanted and wanted.upper() not in Autonomy.__members__:
        return failed(f"there is no such level; levels are {', '.join(Autonomy)}")
    if wanted:
        await runtime.pipeline.note(AutonomySet(session.now, Autonomy(wanted), "the person, by /autonomy"))
    return SlashResult(f"autonomy {runtime.pipeline.session.policy.autonomy}")


async def plan(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Have a plan made while nothing can be changed; go back to the level before once it is decided on."""
    session, level = runtime.pipeline.session, runtime.before_plan
    if argument in {"accept", "drop"}:
        if level is None:
            return failed("no plan is being made: /plan WHAT")
        runtime.before_plan = None
        await runtime.pipeline.note(AutonomySet(session.now, level, f"the person, by /plan {argument}"))
        text = f"autonomy {level}"
        return SlashResult(
            text, turn=("The plan is accepted: carry it out.", "") if argument == "accept" else None
        )
    if not argument:
        raise Misused
    if level is None:
        runtime.before_plan = session.policy.autonomy
    await runtime.pipeline.note(AutonomySet(session.now, Autonomy.READONLY, "the person, by /plan"))
    text = "nothing can be changed until /plan accept, which goes back and has it carried out, or /plan drop"
    return SlashResult(text, turn=(f"{argument}\n\n{_PLAN}", ""))
