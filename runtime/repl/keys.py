"""Which key does what, and which parts of a message were typed and which pasted.

Enter sends; Alt-Enter, or a backslash before Enter, begins a new line. Only typed text can be a command, a
line for the shell, a note or the name of a file to attach, so that a pasted page cannot command anything. A
long paste is shown as a placeholder in the message, and sent as a text of its own. Terminals paste the
path of a file that is dropped on them: that of a picture becomes its name with an `@`, to be seen and sent.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from urllib.parse import unquote

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import Condition, emacs_insert_mode, has_completions, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent, merge_key_bindings
from prompt_toolkit.key_binding.bindings.open_in_editor import load_open_in_editor_bindings
from prompt_toolkit.keys import Keys

from leeward.security.filters import Source, strip
from leeward.security.trust import Origin

from .desk import Desk
from .terminal import Closed, Interrupt, Typed

__all__ = ["NO_MENTION_BEHIND", "SIGNS", "Editing", "bindings", "editing_keys", "picture_path"]

SIGNS = "/!#"
"""What a message begins with that is no question to the model: a command, a line for the shell, a note."""

_LONG_PASTE, _PASTE_LINES = 1000, 10
NO_MENTION_BEHIND = r"(?<![\w@\\/.])"
"""What must not be before the `@` of a name, as a pattern: an address has a letter there."""

_LONGEST_PATH = 4096
_MENTION = re.compile(r"(?<![\w@\\])@(?=\S)")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_TWICE = 3.0  # seconds within which a second Ctrl-C leaves


class Editing:
    """What is known of the message that is being edited."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.last_key: float = 0.0
        self.folded: dict[str, str] = {}
        self._pasted: list[str] = []
        self._has_typed_sign = False
        self._begins_pasted = False
        buffer.on_text_changed += self._look_at_sign

    def key_pressed(self, _processor: object) -> None:
        """Remember when the latest key was pressed."""
        self.last_key = time.monotonic()

    def typed_sign(self, sign: str) -> None:
        """Insert a sign that was typed."""
        is_first = self.buffer.cursor_position == 0
        self.buffer.insert_text(sign)
        self._has_typed_sign |= is_first

    def paste(self, text: str) -> None:
        """Insert what was pasted, without anything a terminal would obey; a long text as a placeholder."""
        stripper = strip.start(Source("paste", Origin.WEB))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        before = self.buffer.document.text_before_cursor
        if before[:1] not in SIGNS and (picture := picture_path(text)) is not None:
            is_apart = re.search(rf"{NO_MENTION_BEHIND}$", before) is not None
            self.buffer.insert_text(f'{"" if is_apart else " "}@"{picture}" ')
            return
        text = stripper.feed(text) + stripper.flush()
        if self.buffer.cursor_position == 0:
            self._has_typed_sign, self._begins_pasted = False, True
        lines = text.count("\n") + 1
        if lines <= _PASTE_LINES and len(text) <= _LONG_PASTE:
            self._pasted.append(text)
        else:
            size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
            name = f"[paste {len(self.folded) + 1}: {size}]"
            self.folded[name], text = text, name
        self.buffer.insert_text(text)

    def take(self) -> Typed:
        """Return what is sent, and begin another message."""
        # Bytes that are no UTF-8 come in as halves of surrogate pairs, which nothing can store.
        text = self.buffer.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        is_recalled = self._is_recalled and not self._begins_pasted
        is_pasted = text[:1] in SIGNS and bool(text) and not (self._has_typed_sign or is_recalled)
        folded = tuple((name, kept) for name, kept in self.folded.items() if name in text)
        pasted = tuple(self._pasted)
        # Remembered with a blank before it, and no bare @, it is none either when it is called back.
        self.buffer.text = _MENTION.sub(r"\\@", text) if any("@" in one for one in pasted) else text
        if is_pasted:
            self.buffer.text = f" {self.buffer.text}"
        self.buffer.reset(append_to_history=bool(text.strip()))
        self._pasted, self._has_typed_sign, self._begins_pasted = [], False, False
        # A person who sent it is not typing any more.
        self.last_key = 0.0
        return Typed(text, is_pasted, pasted, folded)

    def restore(self, typed: Typed) -> None:
        """Edit a message again that was sent."""
        self.buffer.text = typed.text
        self.buffer.cursor_position = len(typed.text)
        self._pasted = [*typed.pasted]
        self._has_typed_sign, self._begins_pasted = not typed.is_pasted, typed.is_pasted

    def clear(self) -> None:
        """Begin another message."""
        self.buffer.reset()
        self._pasted, self._has_typed_sign, self._begins_pasted = [], False, False

    @property
    def _is_recalled(self) -> bool:
        """Whether the message came out of the history."""
        return self.buffer.working_index < len(self.buffer._working_lines) - 1

    def _look_at_sign(self, buffer: Buffer) -> None:
        self._has_typed_sign &= buffer.text[:1] in SIGNS and bool(buffer.text)


def picture_path(text: str) -> str | None:
    """Return the path of a picture that a pasted text is, and nothing else; None for any other text.

    A path with a quote or an `@` would not be one name in the message.
    """
    if len(text) > _LONGEST_PATH or not text.rstrip("'\"\n ").lower().endswith(_PICTURES):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    name = words[0] if len(words) == 1 else ""
    if name.startswith("file://"):
        name = unquote(name.removeprefix("file://"))
    is_named = name.lower().endswith(_PICTURES) and name.isprintable() and not {*name} & {*'"@'}
    return name if is_named and name.startswith("/") and os.path.isfile(name) else None  # noqa: PTH113 — no raise


def editing_keys(editing: Editing) -> KeyBindings:
    """Return the keys that edit a message."""
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def new_line(_event: KeyPressEvent) -> None:
        editing.buffer.insert_text("\n")

    @keys.add("/")
    @keys.add("!")
    @keys.add("#")
    def sign(event: KeyPressEvent) -> None:
        editing.typed_sign(event.data)

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        editing.paste(event.data)

    return keys


def bindings(desk: Desk, editing: Editing) -> KeyBindingsBase:
    """Return all keys: of the editor, of a question, and of leaving."""
    edits = Condition(lambda: desk.question is None)
    asks_key = Condition(lambda: desk.question is not None and desk.question.text is None)
    asks_line = Condition(lambda: not edits() and not asks_key())
    keys = KeyBindings()

    @keys.add("enter", filter=edits & Condition(lambda: get_app().layout.current_buffer is editing.buffer))
    def send(_event: KeyPressEvent) -> None:
        buffer = editing.buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            desk.send(editing.take())

    @keys.add("up", filter=edits & Condition(lambda: bool(desk.queued) and not editing.buffer.text))
    def take_back(_event: KeyPressEvent) -> None:
        typed = desk.take_back()
        if typed is not None:
            editing.restore(typed)

    @keys.add("tab", filter=edits & (emacs_insert_mode | vi_insert_mode))
    def complete(event: KeyPressEvent) -> None:
        _complete(event.current_buffer)

    @keys.add("s-tab", filter=edits & ~has_completions)
    def cycle(_event: KeyPressEvent) -> None:
        desk.call("cycle")

    @keys.add("c-x", "c-e", filter=edits)
    def edit(event: KeyPressEvent) -> None:
        # The binding of prompt_toolkit sends what was edited, which nobody has seen by then.
        event.current_buffer.open_in_editor()

    @keys.add("c-o", filter=edits)
    def show(_event: KeyPressEvent) -> None:
        desk.call("show")

    @keys.add("escape", filter=edits & ~vi_insert_mode & Condition(lambda: desk.is_busy))
    def stop(_event: KeyPressEvent) -> None:
        desk.call("stop")

    _add_leaving(keys, desk, editing, edits)
    _add_questions(keys, desk, asks_key, asks_line)
    editor = load_open_in_editor_bindings()
    return merge_key_bindings([editor, keys])


def _complete(buffer: Buffer) -> None:
    """Insert what all completions begin with, or else choose the next of them.

    The binding of prompt_toolkit loses a Tab that comes before the menu is there.
    """
    state, document = buffer.complete_state, buffer.document
    if state is None or state.complete_index is None:
        found = [*buffer.completer.get_completions(document, CompleteEvent(completion_requested=True))]
        if common := get_common_complete_suffix(document, found):
            buffer.insert_text(common)
            return
        buffer.complete_state = CompletionState(document, found) if found else None
    buffer.complete_next()


def _add_leaving(keys: KeyBindings, desk: Desk, editing: Editing, edits: Condition) -> None:
    last = 0.0

    def forget_hint(_buffer: Buffer) -> None:
        desk.hint = ""

    editing.buffer.on_text_changed += forget_hint

    @keys.add("c-c", filter=edits)
    def interrupt(_event: KeyPressEvent) -> None:
        nonlocal last
        if desk.is_busy:
            desk.call("stop")
        elif editing.buffer.text:
            editing.clear()
        elif time.monotonic() - last < _TWICE:
            desk.leave()
            return
        else:
            last, desk.hint = time.monotonic(), "(Ctrl-C again, Ctrl-D or /exit leaves)"

    @keys.add("c-d", filter=edits & Condition(lambda: not editing.buffer.text))
    def leave(_event: KeyPressEvent) -> None:
        desk.leave()


def _add_questions(keys: KeyBindings, desk: Desk, asks_key: Condition, asks_line: Condition) -> None:
    asks = asks_key | asks_line

    @keys.add("<any>", filter=asks_key, eager=True)
    def answer(event: KeyPressEvent) -> None:
        question, key = desk.question, event.key_sequence[0].key
        if question is None or question.ignores_until_pause or key in {Keys.BracketedPaste, Keys.CPRResponse}:
            return
        names = {"c-m": "enter", "c-i": "tab"}
        name = str(getattr(key, "value", key))
        desk.settle(names.get(name, name))

    @keys.add("c-c", filter=asks, eager=True)
    def interrupt(_event: KeyPressEvent) -> None:
        # The question is there for a moment after its answer; what the answer began is to be stopped then.
        if not desk.settle(Interrupt()):
            desk.call("stop")

    @keys.add("c-d", filter=asks, eager=True)
    def leave(_event: KeyPressEvent) -> None:
        desk.settle(Closed())

    @keys.add("enter", filter=asks_line, eager=True)
    def enter(event: KeyPressEvent) -> None:
        desk.settle(event.current_buffer.text)

    @keys.add("escape", filter=asks_line)
    def back(_event: KeyPressEvent) -> None:
        desk.settle(Interrupt())
