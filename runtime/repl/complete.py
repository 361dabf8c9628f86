"""Complete what is typed: commands and their arguments, models, tools, and file names after `@`.

Names of secret files are not offered, nor names that a terminal would not show as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from leeward.security.paths import secret_reason
from leeward.security.policy import Autonomy
from leeward.security.text import visible
from leeward.security.trust import TrustLevel

from ..app import Runtime
from ..config import KEYS, dotted, trust_in
from ..slash import COMMANDS, own_commands, project_commands

__all__ = ["ChatCompleter"]

_MOST = 60
_MENTION = re.compile(r"(?:^|(?<=\s))@(\"[^\"\n]*|[^\s@\"]*)$")


class ChatCompleter(Completer):
    """Completes the message before the cursor."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._arguments: dict[str, Callable[[list[str]], Iterable[str]]] = {
            "help": self._commands,
            "model": self._models,
            "trust": self._trust,
            "permissions": self._permissions,
            "jobs": self._jobs,
            "autonomy": lambda words: () if words else Autonomy,
            "undo": lambda words: ("force",) if not words else (),
            "redo": lambda words: ("force",) if not words else (),
            "diff": lambda words: ("all",) if not words else (),
            "why": lambda words: ("last",) if not words else (),
            "audit": lambda words: ("show", "why") if not words else (),
            "labels": lambda words: ("--json",) if not words else (),
            "browse": lambda words: ("--forget",) if not words else (),
            "memory": lambda words: ("delete", "everywhere") if not words else (),
            "config": lambda words: map(dotted, KEYS) if not words else (),
            "skill": lambda words: ("off", *self._runtime.skills.folders()) if not words else (),
            "mcp": lambda words: self._runtime.servers.servers if words in ([], ["end"]) else (),
            "plan": lambda words: ("accept", "drop") if not words else (),
        }

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterator[Completion]:
        """Yield what may follow the text before the cursor."""
        before = document.text_before_cursor
        mention = _MENTION.search(before)
        if before.startswith("/") and "\n" not in before:
            yield from self._of_command(before)
        elif mention is not None:
            yield from self._files(mention[1])

    def _of_command(self, before: str) -> Iterator[Completion]:
        if " " not in before:
            built_in = {command.name: command.summary for command in COMMANDS}
            for name, summary in (self._files_of_commands() | built_in).items():
                if f"/{name}".startswith(before):
                    yield Completion(f"/{name}", -len(before), display_meta=summary)
            return
        name, *words = before.split(" ")
        begun = words.pop()
        found = self._arguments.get(name.removeprefix("/"))
        for word in found([word for word in words if word]) if found is not None else ():
            if word.startswith(begun) and visible(word) == word:
                yield Completion(word, -len(begun))

    def _files_of_commands(self) -> dict[str, str]:
        """Return what commands that are files are for, those of a trusted workspace among them."""
        places, policy = self._runtime.places, self._runtime.pipeline.session.policy
        try:
            brought = project_commands(trust_in(places), policy)
        except OSError:
            brought = []
        return {one.name: visible(one.summary) for one in (*brought, *own_commands(places.config))}

    def _commands(self, words: list[str]) -> Iterable[str]:
        return () if words else (command.name for command in COMMANDS)

    def _models(self, words: list[str]) -> Iterable[str]:
        config = self._runtime.config.llm
        named = [f"{provider.name}:" for provider in config.providers]
        return (
            ()
            if words
            else dict.fromkeys(filter(None, (self._runtime.provider.name, config.model, "offline", *named)))
        )

    def _trust(self, words: list[str]) -> Iterable[str]:
        if not words:
            return (*(spec.name for spec in self._runtime.tools.specs()), "reset")
        return (name.lower() for name in TrustLevel.__members__) if len(words) == 1 else ()

    def _permissions(self, words: list[str]) -> Iterable[str]:
        match words:
            case []:
                return ("allow", "revoke")
            case ["allow"]:
                return (spec.name for spec in self._runtime.tools.specs())
            case ["revoke"]:
                return (grant.id for grant in self._runtime.pipeline.session.grants)
        return ()

    def _jobs(self, words: list[str]) -> Iterable[str]:
        ids = [job.id for job in self._runtime.jobs.all()]
        return ("stop", *ids) if not words else ids if words == ["stop"] else ()

    def _files(self, begun: str) -> Iterator[Completion]:
        """Yield names below the workspace, folders with a slash behind them; names with blanks in quotes."""
        policy = self._runtime.pipeline.session.policy
        quote = '"' if begun.startswith('"') else ""
        parent, slash, name = begun.removeprefix('"').rpartition("/")
        folder = parent + slash
        root = os.path.realpath(policy.workspace)
        within = os.path.realpath(os.path.join(root, folder))  # noqa: PTH118 — a text that was typed
        if within != root and not within.startswith(f"{root}/"):
            return
        try:
            entries = sorted(os.scandir(within), key=lambda entry: entry.name)
        except (OSError, ValueError):
            return
        for entry in [entry for entry in entries if _is_offered(entry.name, name)][:_MOST]:
            if secret_reason(entry.path, policy) is None:
                yield from _completed(entry, folder, begun, quote)


def _completed(entry: os.DirEntry[str], folder: str, begun: str, quote: str) -> Iterator[Completion]:
    is_folder = entry.is_dir()
    if not quote and any(char.isspace() for char in entry.name):
        # What was typed is taken back for the quote before it.
        yield Completion(
            f'"{folder}{entry.name}{"/" if is_folder else chr(34)}', -len(begun), display=entry.name
        )
    else:
        end = "/" if is_folder else quote
        yield Completion(f"{entry.name}{end}", -len(begun.removeprefix('"').rpartition("/")[2]))


def _is_offered(name: str, begun: str) -> bool:
    is_plain = visible(name) == name and '"' not in name and " @" not in name
    return is_plain and name.startswith(begun) and (begun.startswith(".") or not name.startswith("."))
