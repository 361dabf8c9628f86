"""Ask questions at a terminal: one key answers, once all of the question could be seen.

Ctrl-C at a question is a no, and stops the turn. The key is recorded with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import trio

from leeward.security.lazy import dataclass
from leeward.security.permissions import Always
from leeward.security.ports import Answer, DetailedAnswer, Question, Reply

from .approve import (
    choice,
    choose_always,
    chosen_lines,
    is_cut,
    offer,
    question_lines,
    question_sections,
    trusted_values,
    why_lines,
)
from .render import Renderer
from .screen import within
from .terminal import Closed, Interrupt, Terminal

__all__ = ["TerminalApprover"]

_GATHERING = 0.1  # seconds that the first of several questions waits for the others
_AROUND = 2  # lines of the prompt that names the keys, at most
_TOGETHER = "  [y]es to all / [n]o to all / [o]ne by one "
_ALL = {"y": Answer.YES, "n": Answer.NO}
_NOT_YET = "  ✗ no yes before all of it was shown: [s]how all, or [n]o"
_NO_ANSWER = "  ✗ one of the keys in brackets, please"


@dataclass(slots=True, eq=False)
class _Open:
    """A question that is open; `seen` is whether all of it was shown."""

    question: Question
    seen: bool
    reply: Reply | None = None

    @property
    def call(self) -> str:
        """The id of the call that is asked about."""
        return self.question.action.call.id

    @property
    def briefly(self) -> Question:
        """It without what only an answer to it alone could grant."""
        return replace(self.question, always=None, wider=None)


class TerminalApprover:
    """Asks at the terminal; Ctrl-C at a question is a no, and calls `stop`.

    Questions of calls of one reply are put together, where they fit on one screen.
    """

    def __init__(self, terminal: Terminal, renderer: Renderer, stop: Callable[[], None]) -> None:
        self._terminal = terminal
        self._renderer = renderer
        self._stop = stop
        self._turn = trio.Lock()
        self._waiting: list[_Open] = []
        self._came = trio.Event()
        self._alone: set[str] = set()
        self.asks: Callable[[], None] = lambda: None
        """Called when a question is put."""

    async def ask(self, question: Question) -> Reply:
        """Show a question and return the answer; what is none is asked for again."""
        mine = _Open(question, not is_cut(question))
        self._waiting.append(mine)
        self._came.set()
        self._came = trio.Event()
        try:
            async with self._turn:
                return mine.reply or await self._put(mine)
        finally:
            self._waiting.remove(mine)
            self._alone.discard(mine.call)

    async def _put(self, mine: _Open) -> Reply:
        """Put a question, together with the others that wait, or by itself."""
        await self._gathered(mine)
        self._renderer.asks()
        self.asks()
        group = self._together(mine)
        try:
            if group and (reply := await self._asked_together(group)) is not None:
                return replace(reply, also=tuple(one.question for one in group if one not in self._waiting))
            return await self._asked(mine)
        except (Interrupt, Closed):
            self._stop()
            reply = DetailedAnswer(Answer.NO, "Ctrl-C at the question")
            for one in group:
                one.reply = reply
            return reply
        finally:
            self._renderer.answered()

    async def _gathered(self, mine: _Open) -> None:
        """Give calls that run beside this one a moment to ask, too."""
        with trio.move_on_after(_GATHERING):
            while len(self._waiting) + len(mine.question.beside()) < len(self._renderer.activity.calls):
                self._came = trio.Event()
                with trio.move_on_after(_GATHERING / 5):
                    await self._came.wait()

    def _together(self, mine: _Open) -> list[_Open]:
        """Return the questions that can be seen at once, whole, this one first; none where it is alone."""
        columns, height = self._terminal.size[0], self._terminal.room
        others = [one for one in self._waiting if one is not mine and one.reply is None]
        others += [_Open(one, not is_cut(one)) for one in mine.question.beside()]
        open_ = [one for one in (mine, *others) if one.seen and one.call not in self._alone]
        lines = sum(len([*question_lines(one.briefly, columns)]) for one in open_)
        return open_ if mine in open_ and len(open_) > 1 and lines + len(open_) + _AROUND <= height else []

    async def _asked_together(self, group: Sequence[_Open]) -> DetailedAnswer | None:
        """Return the answer to several questions, or None where each is to be put by itself."""
        while (key := await self._key_for(group)) not in _ALL:
            if key == "o":
                self._alone |= {one.call for one in group}
                return None
            self._renderer.screen.line(_NO_ANSWER, "dim")
        self._say(iter([f"[{key}]{'es' if key == 'y' else 'o'} to all"]))
        reply = DetailedAnswer(_ALL[key], f"key {key} at the terminal, for {len(group)} questions at once")
        for one in group:
            one.reply = reply
        return reply

    async def _key_for(self, group: Sequence[_Open]) -> str:
        """Show questions, and return the key that follows: what was printed since then moved them away."""
        screen = self._renderer.screen
        for number, one in enumerate(group, 1):
            screen.line(f"question {number} of {len(group)}", "bold")
            screen.put(question_lines(one.briefly, screen.width))
        return await self._terminal.key(_TOGETHER)

    async def words(self, prompt: str) -> str | None:
        """Return a line the person types, None where they go back."""
        async with self._turn:
            self._renderer.asks()
            try:
                return (await self._terminal.answer(prompt)).strip()
            except (Interrupt, Closed):
                return None
            finally:
                self._renderer.answered()

    async def _asked(self, open_: _Open) -> Reply:
        screen, question = self._renderer.screen, open_.question
        screen.put(question_lines(question, screen.width, in_full=open_.seen))
        is_early = False
        while True:
            # No key is a yes yet, so what is typed next may count at once.
            key = await self._terminal.key(offer(question, in_full=open_.seen), again=is_early)
            is_early = False
            answer = choice(key, question)
            if key == "s":
                open_.seen |= await self._terminal.page([*question_sections(question)])
            elif key == "?":
                screen.put(why_lines(question, screen.width))
            elif answer is None:
                screen.line(_NO_ANSWER, "dim")
            elif answer is not Answer.NO and not open_.seen:
                screen.line(_NOT_YET, "dim")
                is_early = True
            elif (reply := await self._reply(key, answer, question)) is not None:
                self._say(chosen_lines(key, reply, question))
                return reply

    async def _reply(self, key: str, answer: Answer, question: Question) -> Reply | None:
        """Return what a key leads to, or None where the person went back."""
        how = f"key {key} at the terminal"
        match key:
            case "d":
                words = await self._words()
                return None if words is None else DetailedAnswer(answer, how, words)
            case "a":
                always = Always(question.always or ())
            case "t":
                always = trusted_values(question) or Always(())
            case "A" | "w":
                rules = question.wider if key == "w" else question.always
                chosen = await choose_always(question, rules or (), self._terminal, self._renderer.screen)
                if chosen is None or isinstance(chosen, DetailedAnswer):
                    return chosen
                return DetailedAnswer(chosen, how)
            case _:
                return DetailedAnswer(answer, how)
        return DetailedAnswer(always, how)

    async def _words(self) -> str | None:
        """Return why the person says no, or None where they went back."""
        try:
            return (await self._terminal.answer("  no, because: ")).strip()
        except Interrupt:
            return None

    def _say(self, lines: Iterator[str]) -> None:
        screen = self._renderer.screen
        screen.put(
            [(piece, "dim")]
            for line in lines
            for piece in within(screen.width, "  ", line, "    ", by_words=True)
        )
