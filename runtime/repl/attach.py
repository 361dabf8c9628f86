"""What is sent along with a message: files named with `@`, and long pastes.

Both are fenced text, and not the person's words: they cannot ask for anything. A file is read by a call of
the person, through the pipeline like any call. A picture is sent as it is, to a model that takes pictures: no
filter reads what is drawn in it. A URL in a paste grounds that exact URL and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import trio

from leeward.security.call import Asker
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.outcome import Picture
from leeward.security.text import visible

from ..app import Runtime
from ..exits import CliError, Exit
from ..grounding import shown_by_paste
from ..providers.interface import takes_pictures
from .keys import NO_MENTION_BEHIND
from .terminal import Typed

__all__ = ["Mention", "attachments", "mentions"]

# A quote that is not closed goes to the end of its line, as after the completion of a folder's name.
_MENTION = re.compile(rf"{NO_MENTION_BEHIND}@(\"[^\"\n]+\"?|[^\s\"@]+)")
_RANGE = re.compile(r"(.+?)(?::|#L)(\d{1,7})(?:-L?(\d{1,7}))?")
_BEHIND = ".,;:!?)]}'"
_MOST = 20
_MOST_PICTURES = 15_000_000  # bytes of a conversation; in base64 20 MB, which services take as one request


@dataclass(frozen=True, slots=True)
class Mention:
    """A file or folder named in a message; `first` to `last` are lines counted from 1, 0 all of them."""

    path: str
    first: int = 0
    last: int = 0

    @property
    def arguments(self) -> Mapping[str, Json]:
        """The arguments of the call that reads it."""
        if not self.first:
            return {"path": self.path}
        return {"path": self.path, "offset": self.first, "limit": self.last - self.first + 1}


def mentions(typed: Typed) -> Iterator[Mention]:
    """Yield what a message names; pasted text names nothing, but for the path of a picture alone."""
    seen: set[str] = set()
    for found in _MENTION.finditer(typed.text):
        if found[0] in seen or any(found[0] in pasted for pasted in typed.pasted):
            continue
        seen.add(found[0])
        name = found[1].strip('"') if found[1].startswith('"') else found[1].rstrip(_BEHIND)
        lines = _RANGE.fullmatch(name)
        if not name:
            continue
        if lines is None:
            yield Mention(name)
        else:
            first = max(int(lines[2]), 1)
            yield Mention(lines[1], first, max(int(lines[3] or first), first))


async def attachments(typed: Typed, runtime: Runtime) -> tuple[list[str], tuple[Picture, ...]]:
    """Return the texts that go along with a message, fenced, and the pictures.

    What cannot be read is shown as any refusal, and goes along as what it is: the model learns that too.

    Raises:
        CliError: more is named than goes along, or a picture that the model does not take.
    """
    texts: list[str] = []
    pictures: list[Picture] = []
    named = [*mentions(typed)]
    if len(named) > _MOST:
        why = f"{len(named)} files are named, and {_MOST} at most go along with a message"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion="name a folder, or send several messages")
    workspace = Path(runtime.pipeline.session.policy.workspace)
    for mention in named:
        # What is no folder now is read, and refused as any other file where it may not be. A file system that
        # does not answer is left waiting in its thread.
        looked = partial(_is_folder, workspace, mention.path)
        if await trio.to_thread.run_sync(looked, abandon_on_cancel=True):
            called = await runtime.call("list_directory", {"path": mention.path}, Asker.PERSON)
        else:
            called = await runtime.call("read", mention.arguments, Asker.PERSON)
        texts.append(called.text)
        if called.picture is not None:
            pictures.append(called.picture)
            _must_be_taken(pictures, runtime)
            texts.append(f"(this is picture {len(pictures)} of the message)")
    for name, text in typed.folded:
        await runtime.pipeline.note(*shown_by_paste(text, runtime.pipeline.session))
        texts.append(await runtime.admit(text, "paste", name))
    return texts, tuple(pictures)


def _is_folder(workspace: Path, name: str) -> bool:
    try:
        return (workspace / Path(name).expanduser()).is_dir()
    except (OSError, RuntimeError, ValueError):
        # No name of a file, too long, of a user there is not, or not to be looked at.
        return False


def _must_be_taken(pictures: Sequence[Picture], runtime: Runtime) -> None:
    if not takes_pictures(runtime.provider):
        why = f"{visible(runtime.provider.name)} takes no pictures, so nothing was sent"
        hint = 'name another model (/model), or set pictures = "on" of its [[llm.providers]] if it does'
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion=hint)
    earlier = [picture for message in runtime.talk.conversation.messages for picture in message.pictures]
    if sum(len(picture.data) for picture in (*earlier, *pictures)) > _MOST_PICTURES:
        why = f"the pictures of a conversation have {_MOST_PICTURES // 1_000_000} MB together at most"
        hint = "/compact sends those of earlier messages no more; /clear begins anew"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion=hint)
