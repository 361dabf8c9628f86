"""Slash commands about the session itself: begin, resume, fork, sum up, what it costs, and its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.memory.private_file import write_new
from leeward.security.text import visible

from ..conversation import cost_lines
from ..exits import CliError, Exit
from ..sessions import export_lines, fork, last_lines, own_record, page_lines, session_line, session_record
from .result import Misused, SlashResult, failed, is_number

if TYPE_CHECKING:
    from ..app import RuntimeSession

__all__ = [
    "begin_new",
    "clear",
    "compact",
    "copy_answer",
    "export_text",
    "fork_session",
    "leave",
    "list_sessions",
    "resume",
    "show_context",
    "show_cost",
]

_MOST_SESSIONS = 20


async def clear(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Forget the conversation, and what counts for this session alone."""
    await runtime.clear()
    return SlashResult("conversation, URLs, labels and grants of this session are forgotten")


async def begin_new(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Begin another session."""
    await runtime.new_session()
    return SlashResult(f"session {runtime.session_id}")


async def resume(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Resume a session, the latest if none is named, and show its last messages."""
    try:
        left = await runtime.resume(argument)
    except CliError as error:
        return failed(visible(error.message))
    return SlashResult("\n".join(last_lines(left.conversation, left.taken)))


async def list_sessions(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """List the sessions of this workspace."""
    found = await runtime.kept.catalog.sessions(_MOST_SESSIONS, runtime.pipeline.session.policy.workspace)
    lines = [session_line(one, where=False) for one in found]
    return SlashResult("\n".join(lines) or "this workspace has no conversation yet")


async def fork_session(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Begin a session with what this one held after a turn, and resume it."""
    if argument and not is_number(argument):
        raise Misused
    try:
        this = await own_record(runtime.kept.catalog, runtime.session_id)
        left = await runtime.resume(await fork(runtime.kept, this, int(argument) if argument else None))
    except CliError as error:
        return failed(visible(error.message))
    return SlashResult("\n".join(last_lines(left.conversation, left.taken)))


async def compact(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Have the conversation summed up."""
    return SlashResult("" if await runtime.compact() else "there is nothing to sum up")


async def show_context(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Return what fills the model's context, in tokens."""
    filled, most = runtime.talk.filled(), runtime.config.agent.context_tokens
    whole = sum(filled.values())
    room = f" of {most} ({100 * whole / most:.1f} %)" if most else "; the configuration names no limit"
    lines = [f"about {whole} tokens go with the next message{room}"]
    lines += [f"  {name:<11}{tokens:>9}" for name, tokens in filled.items()]
    return SlashResult("\n".join(lines), data={"tokens": dict(filled), "limit": most or None})


async def show_cost(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Return tokens and cost of the last turn and of the session."""
    return SlashResult("\n".join(map(visible, cost_lines(runtime.talk.meter))))


async def export_text(runtime: RuntimeSession, argument: str) -> str:
    """Write the session to a new file: a page, or Markdown where its name ends so.

    Raises:
        CliError: there is nothing to write, or the file exists already or cannot be written.
        RecordError: the session cannot be read.
    """
    kept, workspace = runtime.kept, runtime.pipeline.session.policy.workspace
    name = argument or f"leeward-{runtime.session_id}.html"
    path = Path(workspace) / await trio.Path(name).expanduser()
    record = await session_record(kept, await own_record(kept.catalog, runtime.session_id))
    one = record.conversation
    is_page = path.suffix != ".md"
    lines = page_lines(record) if is_page else export_lines(one, record.entries, record.charges)
    try:
        await trio.to_thread.run_sync(write_new, path, "".join(f"{line}\n" for line in lines))
    except FileExistsError:
        why = f"{name} is there already; name another file: /export FILE"
        raise CliError(Exit.ARG_ERROR, "EXISTS", why) from None
    except OSError as error:
        why = f"{name} could not be written: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "FAILED", why) from error
    return f"written to {visible(str(path))}"


async def copy_answer(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Have the last answer copied to the clipboard, where there is a terminal."""
    answers = (one.text for one in reversed(runtime.conversation.messages) if one.role == "assistant")
    text = next((text for text in answers if text.strip()), "")
    if not text:
        return failed("there is no answer yet")
    # What a clipboard holds is pasted anywhere, into a shell, too.
    return SlashResult(
        "answers can only be copied at a terminal",
        failed=True,
        copies="\n".join(map(visible, text.split("\n"))),
    )


async def leave(_runtime: RuntimeSession, _argument: str) -> SlashResult:
    """End the chat or the script."""
    return SlashResult(exit=True)
