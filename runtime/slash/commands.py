"""The table of slash commands, for chats and scripts; how a line is parsed, and a command carried out.

Slash commands are the person's words: the URLs in one become known before it does anything. Nothing is
printed here; the text of a command, and the turn it wants, are returned as a value. The handlers are in the
modules of their subjects, but for `/help`, which reads the table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping

import trio

from leeward.security.filters import Source
from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import ToolError
from leeward.security.text import visible
from leeward.security.trust import Origin
from leeward.security.url import Provenance

from ..app import RuntimeSession
from ..config import COMMANDS_FOLDER, trust_in
from ..exits import CliError
from . import record, rights, session, settings, skills, undo, work
from .own import own_commands, project_commands, read_own, read_project_command
from .result import Handler, Misused, SlashCommandSpec, SlashResult, failed

__all__ = ["COMMANDS", "SlashCommandSpec", "SlashLine", "SlashResult", "dispatch", "parse"]

_FORM = regex(r"/([A-Za-z?][A-Za-z0-9_?-]*)(?:\s+(.*))?", re.DOTALL)
_PROJECT_COMMAND = "This is a command of the project, which I trust: do what the marked text below asks for."
_USAGE = 27  # columns; what is longer has a line of its own
_TYPED = (
    "at a terminal:",
    *(
        f"{sign:<{_USAGE}}  {what}"
        for sign, what in (
            ("!LINE", "run a line in your shell, for real; the model hears what it put out"),
            ("#NOTE", "keep a note for later sessions"),
            ("@FILE", "let a file or a picture go along with the message"),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class SlashLine:
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


def parse(line: str) -> SlashLine | None:
    """Return the slash command in a line, or None: a path such as `/etc/hosts` is none."""
    found = _FORM.fullmatch(line.strip())
    if found is None:
        return None
    name = found[1].lower()
    return SlashLine(line.strip(), name, (found[2] or "").strip(), _BY_NAME.get(name))


async def dispatch(runtime: RuntimeSession, slash: SlashLine, *, gives_urls: bool = True) -> SlashResult:
    """Carry a command out. The URLs in it are given before anything else happens, if it `gives_urls`."""
    if gives_urls:
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


async def _own(runtime: RuntimeSession, slash: SlashLine) -> SlashResult:
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
    lines += [] if name else _TYPED
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
        SlashCommandSpec("clear", "/clear", "forget conversation, URLs, labels and grants", session.clear),
        SlashCommandSpec("new", "/new", "begin another session", session.begin_new),
        SlashCommandSpec("sessions", "/sessions", "the sessions of this workspace", session.list_sessions),
        SlashCommandSpec(
            "resume", "/resume [ID]", "resume a session; without an ID, choose from a list", session.resume
        ),
        SlashCommandSpec(
            "fork",
            "/fork [TURN]",
            "go on from an earlier turn, in a session of its own",
            session.fork_session,
        ),
        SlashCommandSpec(
            "compact", "/compact", "summarise the conversation, so that more fits", session.compact
        ),
        SlashCommandSpec("context", "/context", "what fills the model's context", session.show_context),
        SlashCommandSpec(
            "cost", "/cost", "tokens and cost of the last turn and of the session", session.show_cost
        ),
        SlashCommandSpec(
            "export",
            "/export [FILE]",
            "write this session to a page, or to Markdown (.md)",
            _text_handler(session.export_text),
        ),
        SlashCommandSpec(
            "copy", "/copy", "the last answer, to the clipboard of the terminal", session.copy_answer
        ),
        SlashCommandSpec("exit", "/exit", "leave", session.leave, ("quit", "q", "bye")),
    ),
    "work": (
        SlashCommandSpec(
            "browse",
            "/browse [URL [QUESTION] | --forget URL]",
            "open a page, and ask about it; list known URLs, forget one",
            work.browse,
            ("open",),
        ),
        SlashCommandSpec(
            "editor",
            "/editor",
            "write the next message in your editor (also Ctrl-X Ctrl-E)",
            work.edit_message,
            ("edit",),
        ),
        SlashCommandSpec(
            "init",
            "/init [WISHES]",
            "have AGENTS.md written, or the one there improved",
            work.write_instructions,
        ),
        SlashCommandSpec(
            "plan",
            "/plan WHAT | accept | drop",
            "have a plan made while nothing can be changed; have it carried out; drop it",
            rights.plan,
        ),
        SlashCommandSpec(
            "todo", "/todo", "the tasks the model works through, and which are done", work.show_todo
        ),
        SlashCommandSpec(
            "skill", "/skill [NAME [WORDS] | off]", "go on by a skill; the skills there are", skills.use_skill
        ),
        SlashCommandSpec(
            "undo", "/undo [force]", "take back what the last call changed", _text_handler(undo.undo_text)
        ),
        SlashCommandSpec(
            "redo", "/redo [force]", "do again what was taken back", _text_handler(undo.redo_text)
        ),
        SlashCommandSpec(
            "diff", "/diff [all]", "what the last call changed, or all calls", _text_handler(undo.diff_text)
        ),
        SlashCommandSpec(
            "jobs",
            "/jobs [ID | stop ID]",
            "commands in the background; see one, end one",
            _text_handler(work.jobs_text),
        ),
        SlashCommandSpec(
            "memory",
            "/memory [ID | delete ID | everywhere ID]",
            "notes for later sessions; read, delete, let one hold everywhere",
            _text_handler(work.notes_text),
        ),
    ),
    "settings": (
        SlashCommandSpec(
            "model",
            "/model [PROVIDER:NAME]",
            "which model answers; have another one answer",
            settings.set_model,
        ),
        SlashCommandSpec("tools", "/tools", "the tools, their trust and their effects", settings.list_tools),
        SlashCommandSpec(
            "mcp",
            "/mcp [NAME | end NAME]",
            "servers and their tools; end one",
            _text_handler(settings.servers_text),
        ),
        SlashCommandSpec(
            "config", "/config [KEY]", "values that are set, and where; all below a key", settings.show_config
        ),
        SlashCommandSpec(
            "doctor",
            "/doctor",
            "what protection rests on: what is well, and what is not",
            settings.show_findings,
        ),
        SlashCommandSpec(
            "status",
            "/status",
            "model, limits, breaker, windows, labels, output filters and what they save",
            settings.show_status,
        ),
    ),
    "rights": (
        SlashCommandSpec(
            "permissions",
            "/permissions [allow TOOL [PATTERN] | revoke ID]",
            "the rules and grants; allow something for this session, take a grant back",
            rights.set_permissions,
            ("perms",),
        ),
        SlashCommandSpec(
            "autonomy",
            "/autonomy [LEVEL]",
            "how much is done without asking; switch it for now",
            rights.set_autonomy,
        ),
        SlashCommandSpec(
            "trust",
            "/trust [TOOL LEVEL | reset]",
            "trust of tools; lift a block, or the breaker",
            rights.set_trust,
        ),
        SlashCommandSpec(
            "labels",
            "/labels [VALUE | files | endorse FILE|all] [--json]",
            "whose words were read, where a value was first seen, which files hold words of others",
            rights.set_labels,
        ),
    ),
    "record": (
        SlashCommandSpec(
            "audit", "/audit [NUMBER | show CALL | why CALL]", "what was decided and done", record.show_audit
        ),
        SlashCommandSpec(
            "why",
            "/why [CALL | NUMBER | last]",
            "why the last call was refused or asked about, or this one",
            record.why,
        ),
        SlashCommandSpec(
            "show", "/show [NUMBER]", "all of a result, or of the latest, in a pager", record.open_result
        ),
        SlashCommandSpec("overflow", "/overflow", "outputs that were too long to show", record.list_overflow),
    ),
}
"""Every command by its subject, in the order in which `/help` lists them."""

COMMANDS = tuple(command for commands in SUBJECTS.values() for command in commands)

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
