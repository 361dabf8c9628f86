"""The table of slash commands, for chats and scripts, and what each does.

Slash commands are the person's words: the URLs in one become known before it does anything. Nothing is
printed here; the text of a command, and the turn it wants, are returned as a value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import trio

from leeward.security.call import Asker, Status
from leeward.security.filters import Source
from leeward.security.lazy import LazyModule, dataclass, regex
from leeward.security.outcome import ToolError
from leeward.security.session import UrlsRemoved
from leeward.security.text import visible
from leeward.security.trust import Origin
from leeward.security.url import Provenance, Url, parse_place

from ..app import RuntimeSession
from ..audit import explanation_of, record_lines, records_of
from ..config import COMMANDS_FOLDER, trust_in
from ..console import Startup
from ..conversation import cost_lines
from ..describe import (
    bound_lines,
    bounds_of,
    config_lines,
    known_lines,
    status_lines,
    tool_line,
)
from ..exits import CliError
from ..sessions import fork, last_lines, own_record, session_line
from .handlers import (
    diff_text,
    export_text,
    jobs_text,
    notes_text,
    redo_text,
    servers_text,
    undo_text,
)
from .own import own_commands, project_commands, read_own, read_project_command
from .result import Handler, Misused, SlashCommandSpec, SlashResult, failed
from .rights import plan, set_autonomy, set_labels, set_permissions, set_trust
from .skills import skill_turn, skills_text

if TYPE_CHECKING:
    from leeward.memory.audit import Record

    from .. import diagnosis
else:
    # It opens sandboxes and looks at programs, which chats do only when asked.
    diagnosis = LazyModule("leeward.runtime.diagnosis")

__all__ = ["COMMANDS", "SlashCommand", "SlashCommandSpec", "SlashResult", "dispatch", "parse"]

_FORM = regex(r"/([A-Za-z?][A-Za-z0-9_?-]*)(?:\s+(.*))?", re.DOTALL)
_RECORDS = 20
_PROJECT_COMMAND = "This is a command of the project, which I trust: do what the marked text below asks for."
_FIRST_INSTRUCTIONS = (
    "Look at this workspace: what it is, how it is laid out, built, tested and checked. Then write "
    "AGENTS.md, or improve the one that is there, for the next assistant: commands, conventions, and what to "
    "take care of. At most 60 lines, and nothing that you did not see here."
)
_USAGE = 27  # columns; what is longer has a line of its own


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A line that begins with a slash. `command` is None if the name is unknown."""

    line: str
    name: str
    argument: str
    command: SlashCommandSpec | None

    @property
    def problem(self) -> str | None:
        """Say why it cannot be carried out, with the nearest name, or None."""
        if self.command is not None:
            return None
        # The first letter is seldom wrong, and half of a short name is near to too much: /nope is not /open.
        begun = [name for name in _BY_NAME if name[0] == self.name[0]]
        near = difflib.get_close_matches(self.name, begun, n=1)
        hint = f"; did you mean /{_BY_NAME[near[0]].name}?" if near else ""
        return f"there is no /{self.name}{hint}; /help lists them"


def parse(line: str) -> SlashCommand | None:
    """Return the slash command in a line, or None: a path such as `/etc/hosts` is none."""
    found = _FORM.fullmatch(line.strip())
    if found is None:
        return None
    name = found[1].lower()
    return SlashCommand(line.strip(), name, (found[2] or "").strip(), _BY_NAME.get(name))


async def dispatch(runtime: RuntimeSession, slash: SlashCommand) -> SlashResult:
    """Carry a command out. The URLs in it are given before anything else happens."""
    await runtime.give(slash.line, Provenance.SLASH)
    if slash.command is None:
        return await _own(runtime, slash)
    command = slash.command
    try:
        if slash.argument and command.usage == f"/{command.name}":
            raise Misused
        return await command.handler(runtime, slash.argument)
    except Misused:
        return failed(f"usage: {command.usage}")


async def _own(runtime: RuntimeSession, slash: SlashCommand) -> SlashResult:
    """Send what a command that is a file holds: the person's own as their words, the project's as data."""
    policy = runtime.pipeline.session.policy
    try:
        own = await trio.to_thread.run_sync(read_own, runtime.places.config, slash.name)
        if own is not None:
            return SlashResult(turn=(own.filled(slash.argument), ""))
        trust = await trio.to_thread.run_sync(trust_in, runtime.places)
        brought = await trio.to_thread.run_sync(read_project_command, slash.name, trust, policy)
    except (OSError, ValueError) as error:
        return failed(f"/{slash.name} cannot be used: {visible(str(error))}")
    if brought is None:
        return failed(slash.problem or "")
    source = Source("project", Origin.PROJECT, f"{COMMANDS_FOLDER}/{brought.name}.md", shows=True)
    text = await runtime.pipeline.admit(brought.filled(slash.argument), source)
    return SlashResult(turn=(f"{slash.line}\n\n{_PROJECT_COMMAND}", text))


async def _help(runtime: RuntimeSession, argument: str) -> SlashResult:
    """List the commands by subject, those of one subject, or one command."""
    name = argument.lstrip("/").lower()
    shown = {name: SUBJECTS[name]} if name in SUBJECTS else {} if name else SUBJECTS
    lines = [line for subject, found in shown.items() for line in (f"{subject}:", *map(_help_line, found))]
    lines += [_help_line(_BY_NAME[name])] if name in _BY_NAME else []
    files = await trio.to_thread.run_sync(_file_lines, runtime, "" if shown is SUBJECTS else name)
    lines += ["files:", *files] if files and not name else files
    if not lines:
        return failed(f"there is no /{visible(name)}, and no such subject; /help lists all")
    return SlashResult("\n".join(lines))


def _file_lines(runtime: RuntimeSession, name: str) -> list[str]:
    """Return a line for each command that is a file, or for the one of a name."""
    brought = project_commands(trust_in(runtime.places), runtime.pipeline.session.policy)
    found = {one.name: (one, "this workspace's") for one in brought}
    found |= {one.name: (one, "yours") for one in own_commands(runtime.places.config)}
    return [
        f"{f'/{one.name} …':<{_USAGE}}  {visible(one.summary)} ({whose})"
        for one, whose in found.values()
        if name in {"", one.name} and one.name not in _BY_NAME
    ]


def _help_line(command: SlashCommandSpec) -> str:
    also = f" (also {', '.join(f'/{alias}' for alias in command.aliases)})" if command.aliases else ""
    below = "\n" + " " * _USAGE if len(command.usage) > _USAGE else ""
    return f"{command.usage:<{_USAGE}}{below}  {command.summary}{also}"


async def _clear(runtime: RuntimeSession, _argument: str) -> SlashResult:
    await runtime.clear()
    return SlashResult("conversation, URLs, labels and grants of this session are forgotten")


async def _new(runtime: RuntimeSession, _argument: str) -> SlashResult:
    await runtime.new_session()
    return SlashResult(f"session {runtime.session_id}")


async def _resume(runtime: RuntimeSession, argument: str) -> SlashResult:
    try:
        left = await runtime.resume(argument)
    except CliError as error:
        return failed(visible(error.message))
    return SlashResult("\n".join(last_lines(left.conversation, left.taken)))


async def _sessions(runtime: RuntimeSession, _argument: str) -> SlashResult:
    found = await runtime.kept.catalog.sessions(_RECORDS, runtime.pipeline.session.policy.workspace)
    lines = [session_line(one, where=False) for one in found]
    return SlashResult("\n".join(lines) or "this workspace has no conversation yet")


async def _fork(runtime: RuntimeSession, argument: str) -> SlashResult:
    if argument and not (argument.isascii() and argument.isdigit() and len(argument) < 7):
        raise Misused
    try:
        this = await own_record(runtime.kept.catalog, runtime.session_id)
        left = await runtime.resume(await fork(runtime.kept, this, int(argument) if argument else None))
    except CliError as error:
        return failed(visible(error.message))
    return SlashResult("\n".join(last_lines(left.conversation, left.taken)))


async def _compact(runtime: RuntimeSession, _argument: str) -> SlashResult:
    return SlashResult("" if await runtime.compact() else "there is nothing to sum up")


async def _browse(runtime: RuntimeSession, argument: str) -> SlashResult:
    url, _, question = argument.partition(" ")
    if not url:
        return SlashResult("\n".join(known_lines(runtime.pipeline.session)))
    if url == "--forget":
        return await _forget(runtime, question.strip())
    # A bare host that is typed here means a web address, whatever else such a word could be.
    target = url if "://" in url else f"https://{url}"
    await runtime.give(target, Provenance.SLASH)
    result = await runtime.call("fetch", {"url": target}, Asker.PERSON)
    if result.outcome.status is not Status.OK:
        return SlashResult(result.shown, failed=True, came_in=True)
    if question.strip():
        return SlashResult(turn=(question.strip(), result.text))
    return SlashResult(result.shown, came_in=True)


async def _forget(runtime: RuntimeSession, text: str) -> SlashResult:
    """Withdraw one URL or address; if another known one still covers it, the answer names that."""
    known = parse_place(text) or parse_place(f"https://{text}")
    if known is None or not text:
        raise Misused
    session = runtime.pipeline.session
    await runtime.pipeline.note(UrlsRemoved.of(session.now, (known,)))
    left = runtime.pipeline.session.ledger.lookup(known).source if isinstance(known, Url) else None
    still = f"; {visible(left.text)} still covers it" if left is not None else ""
    return SlashResult(f"forgotten: {visible(known.text)}{still}")


async def _tools(runtime: RuntimeSession, _argument: str) -> SlashResult:
    session = runtime.pipeline.session
    return SlashResult("\n".join(tool_line(spec, session) for spec in runtime.tools.specs()))


async def _model(runtime: RuntimeSession, argument: str) -> SlashResult:
    if argument:
        try:
            await runtime.switch_model(argument)
        except CliError as error:
            return failed(visible(error.message))
    return SlashResult(visible(runtime.provider.name))


async def _cost(runtime: RuntimeSession, _argument: str) -> SlashResult:
    return SlashResult("\n".join(map(visible, cost_lines(runtime.talk.meter))))


async def _audit(runtime: RuntimeSession, argument: str) -> SlashResult:
    words = argument.split()
    if words[:1] == ["why"] and len(words) < 3:
        return await _why(runtime, "".join(words[1:]))
    if words[:1] == ["show"] and len(words) == 2:
        try:
            return _records(await records_of(words[1], runtime.audit, runtime.session_id))
        except CliError as error:
            return failed(visible(error.message))
    if len(words) > 1 or not all(word.isascii() and word.isdigit() and len(word) < 7 for word in words):
        raise Misused
    limit = int(words[0]) if words else _RECORDS
    return _records(await runtime.audit.list_records(runtime.session_id, limit))


async def _why(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Explain a call of this session: each gate's answer, and what would have allowed it."""
    if len(argument.split()) > 1:
        raise Misused
    try:
        explanation = await explanation_of(argument, runtime.audit, runtime.session_id)
    except CliError as error:
        return failed(visible(error.message))
    return SlashResult("\n".join(explanation.lines()))


def _records(records: list[Record]) -> SlashResult:
    return SlashResult("\n".join(record_lines(records))) if records else failed("there is no such record")


async def _overflow(runtime: RuntimeSession, _argument: str) -> SlashResult:
    kept = await runtime.overflow.entries(runtime.session_id)
    lines = [
        f"{entry.id}  {entry.chars} characters in {entry.lines} lines, from {entry.origin},"
        f" {entry.stored} bytes on disk"
        for entry in kept
    ]
    return SlashResult("\n".join(lines) or "nothing was too long to show")


async def _status(runtime: RuntimeSession, _argument: str) -> SlashResult:
    lines = [*status_lines(runtime.pipeline.session, runtime.provider.name, runtime.loaded.filters)]
    lines += bound_lines(runtime.config, runtime.sandbox)
    return SlashResult("\n".join(lines), data={"bounds": bounds_of(runtime.config, runtime.sandbox)})


async def _show(_runtime: RuntimeSession, argument: str) -> SlashResult:
    if argument and not (argument.isascii() and argument.isdigit() and len(argument) < 7):
        raise Misused
    return SlashResult("results can only be opened at a terminal", failed=True, opens=argument)


async def _copy(runtime: RuntimeSession, _argument: str) -> SlashResult:
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


async def _editor(_runtime: RuntimeSession, _argument: str) -> SlashResult:
    return SlashResult("an editor can only be opened at a terminal", failed=True, edits=True)


async def _doctor(runtime: RuntimeSession, _argument: str) -> SlashResult:
    trust = await trio.to_thread.run_sync(trust_in, runtime.places)
    found = await diagnosis.findings_of(Startup(runtime.loaded, runtime.places, None, trust))
    return SlashResult(
        "\n".join(visible(line) for one in found for line in str(one).split("\n")),
        failed=any(one.is_well is False for one in found),
    )


async def _skill(runtime: RuntimeSession, argument: str) -> SlashResult:
    if not argument:
        return SlashResult(await skills_text(runtime))
    turn = await skill_turn(runtime, argument)
    return SlashResult("no skill is followed any more" if turn is None else "", turn)


async def _init(_runtime: RuntimeSession, argument: str) -> SlashResult:
    return SlashResult(turn=("\n\n".join(filter(None, (_FIRST_INSTRUCTIONS, argument))), ""))


async def _context(runtime: RuntimeSession, _argument: str) -> SlashResult:
    filled, most = runtime.talk.filled(), runtime.config.agent.context_tokens
    whole = sum(filled.values())
    room = f" of {most} ({100 * whole / most:.1f} %)" if most else "; the configuration names no limit"
    lines = [f"about {whole} tokens go with the next message{room}"]
    lines += [f"  {name:<11}{tokens:>9}" for name, tokens in filled.items()]
    return SlashResult("\n".join(lines), data={"tokens": dict(filled), "limit": most or None})


async def _config(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Show the values that are not the default, or those whose key begins so, with where each was set."""
    lines = config_lines(runtime.loaded, argument)
    what = f"no key begins with {visible(argument)}" if argument else "every value is the default"
    return SlashResult("\n".join(lines) or what, failed=bool(argument) and not lines)


async def _todo(runtime: RuntimeSession, _argument: str) -> SlashResult:
    return SlashResult("\n".join(map(visible, runtime.todo.lines())) or "the model has no task list")


async def _exit(_runtime: RuntimeSession, _argument: str) -> SlashResult:
    return SlashResult(exit=True)


def _text_handler(tell: Callable[[RuntimeSession, str], Awaitable[str]]) -> Handler:
    """Return a command that has something to say, or fails with why it has not."""

    async def handler(runtime: RuntimeSession, argument: str) -> SlashResult:
        try:
            return SlashResult(await tell(runtime, argument))
        except (CliError, ToolError) as error:
            return failed(visible(str(error)))

    return handler


SUBJECTS: Mapping[str, tuple[SlashCommandSpec, ...]] = {
    "session": (
        SlashCommandSpec(
            "help", "/help [SUBJECT | COMMAND]", "what may be typed, by subject", _help, ("h", "?")
        ),
        SlashCommandSpec("clear", "/clear", "forget conversation, URLs, labels and grants", _clear),
        SlashCommandSpec("new", "/new", "begin another session", _new),
        SlashCommandSpec("sessions", "/sessions", "the sessions of this workspace", _sessions),
        SlashCommandSpec(
            "resume", "/resume [ID]", "resume a session; without an ID, choose from a list", _resume
        ),
        SlashCommandSpec(
            "fork", "/fork [TURN]", "go on from an earlier turn, in a session of its own", _fork
        ),
        SlashCommandSpec("compact", "/compact", "summarise the conversation, so that more fits", _compact),
        SlashCommandSpec("context", "/context", "what fills the model's context", _context),
        SlashCommandSpec("cost", "/cost", "tokens and cost of the last turn and of the session", _cost),
        SlashCommandSpec(
            "export",
            "/export [FILE]",
            "write this session to a page, or to Markdown (.md)",
            _text_handler(export_text),
        ),
        SlashCommandSpec("copy", "/copy", "the last answer, to the clipboard of the terminal", _copy),
        SlashCommandSpec("exit", "/exit", "leave", _exit, ("quit", "q", "bye")),
    ),
    "work": (
        SlashCommandSpec(
            "browse",
            "/browse [URL [QUESTION] | --forget URL]",
            "open a page, and ask about it; list known URLs, forget one",
            _browse,
            ("open",),
        ),
        SlashCommandSpec(
            "editor",
            "/editor",
            "write the next message in your editor (also Ctrl-X Ctrl-E)",
            _editor,
            ("edit",),
        ),
        SlashCommandSpec(
            "init", "/init [WISHES]", "have AGENTS.md written, or the one there improved", _init
        ),
        SlashCommandSpec(
            "plan",
            "/plan WHAT | accept | drop",
            "have a plan made while nothing can be changed; have it carried out; drop it",
            plan,
        ),
        SlashCommandSpec("todo", "/todo", "the tasks the model works through, and which are done", _todo),
        SlashCommandSpec(
            "skill", "/skill [NAME [WORDS] | off]", "go on by a skill; the skills there are", _skill
        ),
        SlashCommandSpec(
            "undo", "/undo [force]", "take back what the last call changed", _text_handler(undo_text)
        ),
        SlashCommandSpec("redo", "/redo [force]", "do again what was taken back", _text_handler(redo_text)),
        SlashCommandSpec(
            "diff", "/diff [all]", "what the last call changed, or all calls", _text_handler(diff_text)
        ),
        SlashCommandSpec(
            "jobs",
            "/jobs [ID | stop ID]",
            "commands in the background; see one, end one",
            _text_handler(jobs_text),
        ),
        SlashCommandSpec(
            "memory",
            "/memory [ID | delete ID | everywhere ID]",
            "notes for later sessions; read, delete, let one hold everywhere",
            _text_handler(notes_text),
        ),
    ),
    "settings": (
        SlashCommandSpec(
            "model", "/model [PROVIDER:NAME]", "which model answers; have another one answer", _model
        ),
        SlashCommandSpec("tools", "/tools", "the tools, their trust and their effects", _tools),
        SlashCommandSpec(
            "mcp", "/mcp [NAME | end NAME]", "servers and their tools; end one", _text_handler(servers_text)
        ),
        SlashCommandSpec(
            "config", "/config [KEY]", "values that are set, and where; all below a key", _config
        ),
        SlashCommandSpec(
            "doctor", "/doctor", "what protection rests on: what is well, and what is not", _doctor
        ),
        SlashCommandSpec(
            "status",
            "/status",
            "model, limits, breaker, windows, labels, output filters and what they save",
            _status,
        ),
    ),
    "rights": (
        SlashCommandSpec(
            "permissions",
            "/permissions [allow TOOL [PATTERN] | revoke ID]",
            "the rules and grants; allow something for this session, take a grant back",
            set_permissions,
            ("perms",),
        ),
        SlashCommandSpec(
            "autonomy",
            "/autonomy [LEVEL]",
            "how much is done without asking; switch it for now",
            set_autonomy,
        ),
        SlashCommandSpec(
            "trust", "/trust [TOOL LEVEL | reset]", "trust of tools; lift a block, or the breaker", set_trust
        ),
        SlashCommandSpec(
            "labels",
            "/labels [VALUE | files | endorse FILE|all] [--json]",
            "whose words were read, where a value was first seen, which files hold words of others",
            set_labels,
        ),
    ),
    "record": (
        SlashCommandSpec(
            "audit", "/audit [NUMBER | show CALL | why CALL]", "what was decided and done", _audit
        ),
        SlashCommandSpec(
            "why",
            "/why [CALL | NUMBER | last]",
            "why the last call was refused or asked about, or this one",
            _why,
        ),
        SlashCommandSpec("show", "/show [NUMBER]", "all of a result, or of the latest, in a pager", _show),
        SlashCommandSpec("overflow", "/overflow", "outputs that were too long to show", _overflow),
    ),
}
"""Every command by its subject, in the order in which `/help` lists them."""

COMMANDS = tuple(command for commands in SUBJECTS.values() for command in commands)

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
