"""Lay out a question: what would happen, which gate asks and why, and what "always" would grant.

What is shown is the canonical action, which is what runs, in full; a command line appears as the tree of the
commands it runs. Other long values are cut, with a notice. Every value is escaped visibly and keeps to its
own column, so that it cannot look like a line of ours. For an "always" the person edits the rule, and chooses
where and how long it holds. The rule is tried on the call at once. Cancelling any step returns to the
question without granting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from leeward.security import command
from leeward.security.call import Action, Atom
from leeward.security.kinds import CommandLine, Kind, Unreadable
from leeward.security.lazy import dataclass, regex
from leeward.security.permissions import Always
from leeward.security.policy import KEEP
from leeward.security.ports import Answer, DetailedAnswer, Question, Reply
from leeward.security.question import ACTS, Ends, arguments_of, ends_of, flags_of, is_act, quoted_name
from leeward.security.session import ENDORSEMENT, Grant, Scope
from leeward.security.text import visible
from leeward.security.url import Url, host_facts

from .differences import diff_lines, folded, is_diff, sections_of
from .results import sections
from .screen import Line, Screen, within
from .terminal import Closed, Interrupt, Section

__all__ = [
    "CHOICES",
    "LineEditor",
    "choice",
    "choose_always",
    "chosen_lines",
    "granted_lines",
    "is_cut",
    "offer",
    "question_lines",
    "question_sections",
    "seconds_of",
    "trusted_values",
    "why_lines",
]


CHOICES = {
    "y": Answer.YES,
    "n": Answer.NO,
    "d": Answer.NO,
    "a": Answer.ALWAYS,
    "A": Answer.ALWAYS,
    "t": Answer.ALWAYS,
    "w": Answer.ALWAYS,
    "r": Answer.REAL,
}
"""What a key answers; `A` and `w` ask for more first, `d` for the words that go to the model."""

_FACT_NAME = regex(r"[a-z]+(?: [a-z]+)*")
_LONG_QUESTION = 40
_NEXT_LINE, _SAME_LINE = "    │ ", "    ┊ "
_WIDE = 400  # columns that lines of a question are folded to where a pager folds them itself


def question_lines(question: Question, width: int = 80, *, in_full: bool = False) -> Iterator[Line]:
    """Yield the lines of a question, none wider than the terminal, free of anything it would obey.

    Why it is asked comes first. `width` is in columns. With `in_full` nothing is cut.
    """
    action = question.action
    for gate, ask in question.asks:
        for line in within(width, f"? {gate} asks: ", visible(ask.question), "    ", by_words=True):
            yield [(line, "bold yellow")]
        for name, value in ask.facts:
            yield from _value(name if _FACT_NAME.fullmatch(name) else quoted_name(name), value, width)
    tool = visible(action.call.tool if action.of is None else action.of.call.tool)
    tool = " › ".join((*(f"sub-agent {visible(one.name)}" for one in action.call.through), tool))
    ran = "ran for real; the workspace is not changed yet:" if action.covered_by else _AFTER[_is_keep(action)]
    what = "wants to run:" if action.of is None else ran
    yield from ([(line, "bold")] for line in within(width, "", f"{tool} {what}", "  "))
    lines = [line for name, value in _acts(question) for line in _value(name, value, width)]
    for name, value in arguments_of(question.action):
        lines += _argument(name, value, width, in_full=in_full, by_file=_is_keep(action))
    for flag in flags_of(question.action):
        lines += _value("flag", flag, width)
    if question.uncovered:
        lines += _value("/undo would not cover", question.uncovered, width)
    yield from lines
    if len(lines) > _LONG_QUESTION:
        yield [(f"  (all of the {len(lines)} lines above belong to it)", "dim")]
    listed: set[tuple[str, ...]] = set()
    for name, rules in (("always would allow", question.always), ("or, wider", question.wider)):
        for what in _together(question.grants(Always(rules or ())), listed):
            yield from _value(name, what, width)


def _together(grants: Iterable[Grant], listed: set[tuple[str, ...]]) -> Iterator[str]:
    """Yield what is granted; several commands that may change a path are listed once, then in `listed`."""
    changed: dict[str, list[str]] = {}
    for grant in grants:
        path = replace(grant, command=None, folder=None).what
        changed.setdefault(path, []).append(grant.what.removeprefix(path))
    for commands in dict.fromkeys(map(tuple, changed.values())):
        paths = [path for path, by in changed.items() if tuple(by) == commands]
        if len(commands) == 1:
            yield from (f"{path}{commands[0]}" for path in paths)
        elif commands in listed:
            yield "\n".join((*paths, "  changed by the same commands"))
        else:
            listed.add(commands)
            yield "\n".join((*paths, *(f" {command}" for command in commands)))


def _argument(name: str, value: str, width: int, *, in_full: bool, by_file: bool) -> Iterator[Line]:
    """Yield an argument; of changes that are too many the list of files, of another value both ends."""
    ends = Ends(value) if in_full else ends_of(value)
    if ends.missing and by_file:
        files = [*sections_of(value)]
        yield from _value(name, f"{len(files)} paths; [s] opens them with what changes", width)
        for title, lines in files:
            yield from _lines([f"{title}{_counts(lines)}"], width)
        return
    yield from _value(name, ends.head, width)
    if ends.missing:
        yield [(f"    … {ends.missing} more characters; it ends with", "dim")]
        yield from _lines(ends.tail.split("\n"), width)


def _counts(lines: list[str]) -> str:
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f" (+{added} -{removed})" if added or removed else ""


def question_sections(question: Question) -> Iterator[Section]:
    """Yield all of a question for a pager: what would run and why, then each long value, file by file."""
    long = [(name, value) for name, value in arguments_of(question.action) if ends_of(value).missing]
    yield Section("the question", [*question_lines(question, _WIDE)])
    for name, value in long:
        yield from sections(name, value)


def is_cut(question: Question) -> bool:
    """Whether something is not shown in full unless that is asked for."""
    return any(ends_of(value).missing for _, value in arguments_of(question.action))


def trusted_values(question: Question) -> Always | None:
    """Return the answer that trusts the values a question is about, for this session, where that is one."""
    rules = tuple(rule for rule in question.always or () if rule[0].startswith(ENDORSEMENT))
    always = Always(rules)
    return always if rules and question.problem(always) is None else None


def offer(question: Question, *, in_full: bool = False) -> str:
    """Return the prompt that names the answers there are: no yes to what was not shown in full."""
    no = ("[n] discard" if _is_keep(question.action) else "[n]o", "[d] no, and why")
    if not in_full and is_cut(question):
        return f"  {' / '.join(('[s]how all', *no, '[?]'))} "
    yes = "[y] keep" if _is_keep(question.action) else "[y]es"
    offered = [f"on disk: {yes} / for [r]eal" if question.or_real else yes, no[0]]
    offered += ["[a]lways in this session / [A]lways, edited"] if question.always is not None else []
    offered += ["[w]ider"] if question.wider is not None else []
    offered += ["[t]rust the value"] if trusted_values(question) is not None else []
    return f"  {' / '.join((*offered, no[1], '[s]how all', '[?]'))} "


def chosen_lines(key: str, reply: Reply, question: Question) -> Iterator[str]:
    """Yield what an answer was, for a later reader, and what it has granted."""
    yes = "[y] keep" if _is_keep(question.action) else "[y]es"
    labels = {"y": yes, "n": "[n] discard" if _is_keep(question.action) else "[n]o", "r": "for [r]eal"}
    labels |= {"a": "[a]lways in this session", "t": "[t]rust the value in this session"}
    if isinstance(reply, DetailedAnswer) and reply.reason:
        yield f"[d] no, because: {visible(reply.reason)}"
    elif key in labels:
        yield labels[key]
    if key in {"a", "t"} and isinstance(reply, DetailedAnswer) and isinstance(reply.answer, Always):
        yield from granted_lines(reply.answer, question)


def choice(key: str, question: Question) -> Answer | None:
    """Return what a key answers, or None where it means nothing or is not on offer."""
    is_offered = {
        "a": question.always is not None,
        "A": question.always is not None,
        "w": question.wider is not None,
        "t": trusted_values(question) is not None,
        "r": question.or_real,
    }
    return CHOICES.get(key) if is_offered.get(key, True) else None


def why_lines(question: Question, width: int) -> Iterator[Line]:
    """Yield what is behind a question: the rule of each gate, and what would pass without one."""
    for gate, ask in question.asks:
        lines = [f"{gate}, rule {ask.rule}: {ask.question}"]
        lines += [f"this passes without a question: {ask.suggestion}"] if ask.suggestion is not None else []
        lines += ["only a person who is present can answer this; no rule or level does"] if ask.force else []
        lines += [f"about: {', '.join(atom.shown for atom in ask.about)}"] if ask.about else []
        for text in lines:
            yield from ([(line, "dim")] for line in within(width, "  ", visible(text), "    ", by_words=True))
    ends = ["the model learns of a no, with your words after [d]; /why explains it afterwards"]
    if question.always is None:
        ends.insert(0, "no rule can answer this for longer than this call")
    for text in ends:
        yield from ([(line, "dim")] for line in within(width, "  ", text, "    ", by_words=True))


_AFTER = {True: "ran on trial; nothing is changed yet:", False: "ran without what it tried to reach:"}


def _is_keep(action: Action) -> bool:
    return action.call.tool == KEEP


def _acts(question: Question) -> Iterator[tuple[str, str]]:
    """Yield what the call would do, as it was read: commands, paths, URLs, and what is odd about a host."""
    # A trial run's changes are shown with their paths; it is the command that did something.
    for atom in (question.action.of or question.action).atoms:
        if not is_act(atom):
            continue
        if atom.kind is Kind.COMMAND and isinstance(atom.canonical, Unreadable):
            yield "not understood", atom.canonical.reason
            yield "runs as written", atom.raw
            continue
        yield ("ran" if question.action.of is not None else ACTS[atom.kind]), _canonical(atom)
        if isinstance(atom.canonical, Url):
            yield from host_facts(atom.canonical)


def _canonical(atom: Atom) -> str:
    """Return what is shown of an atom: a command line as the tree of what it runs, all else canonical."""
    if isinstance(atom.canonical, CommandLine):
        return "\n".join(command.explain(atom.canonical, atom.raw))
    return atom.shown


def _value(name: str, value: str, width: int) -> Iterator[Line]:
    """Yield a value behind its name, line by line."""
    first, *rest = value.split("\n")
    head = f"  {name}: "
    yield from ([(line, "")] for line in within(width, head, visible(first), _SAME_LINE, by_words=True))
    yield from _lines(rest, width)


def _lines(lines: list[str], width: int) -> Iterator[Line]:
    """Yield further lines of a value, those of a diff with their colours."""
    styled = diff_lines(lines) if is_diff("\n".join(lines)) else ([(visible(line), "")] for line in lines)
    for line in styled:
        yield from folded(line, width, _NEXT_LINE, _SAME_LINE)


_SCOPES = {
    "": Scope.SESSION,
    "s": Scope.SESSION,
    "session": Scope.SESSION,
    "w": Scope.WORKSPACE,
    "workspace": Scope.WORKSPACE,
    "e": Scope.EVERYWHERE,
    "everywhere": Scope.EVERYWHERE,
}
_ONCE = frozenset({"o", "once"})
_NO_END = frozenset({"", "never"})
_SPAN = regex(r"([1-9][0-9]{0,4}) ?([mhd])")
_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS = ("day", "hour", "minute")


class LineEditor(Protocol):
    """What reads a short line, which may begin with a text."""

    async def answer(self, prompt: str, text: str = "") -> str:
        """Read a line."""
        ...


async def choose_always(
    question: Question, rules: tuple[tuple[str, str | None], ...], editor: LineEditor, screen: Screen
) -> Reply | None:
    """Have the rules edited, and return the answer they make, or None where the person went back."""
    asking = _Asking(question, editor, screen)
    try:
        edited = await asking.edited(rules)
        if edited is None:
            return None
        scope = await asking.scope()
        if scope is None:
            return Answer.YES
        always = await asking.lasting(edited, scope)
    except (Interrupt, Closed):
        asking.say("nothing is granted; the question is still open")
        return None
    for line in granted_lines(always, question):
        asking.say(line)
    return always


def seconds_of(text: str) -> float | None:
    """Return a span such as 30m, 12h or 7d in seconds, None for what is none."""
    found = _SPAN.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


@dataclass(frozen=True, slots=True)
class _Asking:
    question: Question
    editor: LineEditor
    screen: Screen

    async def edited(
        self, rules: tuple[tuple[str, str | None], ...]
    ) -> tuple[tuple[str, str | None], ...] | None:
        """Return the rules as the person wants them, once they can be granted; None where one was emptied."""
        while True:
            typed: list[tuple[str, str | None]] = []
            for number, (tool, match) in enumerate(rules, 1):
                if match is None:
                    self.say(f"this allows every call of {tool}")
                    typed.append((tool, None))
                    continue
                of = f"{number} of {len(rules)}: " if len(rules) > 1 else ""
                line = (await self.editor.answer(f"  rule {of}allow {tool} ", match)).strip()
                if not line:
                    return None
                typed.append((tool, line))
            problem = self.question.problem(Always(tuple(typed)))
            if problem is None:
                return tuple(typed)
            self.say(f"✗ {problem}")
            if all(match is None for _, match in rules):
                return None
            rules = tuple(typed)

    async def scope(self) -> Scope | None:
        """Return where the rules hold; None for this call only."""
        while True:
            prompt = "  where: this [s]ession / this [w]orkspace / [e]verywhere / [o]nce? "
            typed = (await self.editor.answer(prompt)).strip().lower()
            if typed in _ONCE:
                return None
            if typed in _SCOPES:
                return _SCOPES[typed]
            self.say("✗ one of the four letters, please; Enter is s")

    async def lasting(self, rules: tuple[tuple[str, str | None], ...], scope: Scope) -> Always:
        """Return the rules with the time after which they end."""
        while True:
            typed = (await self.editor.answer("  until: 30m, 12h, 7d, or never? ")).strip().lower()
            seconds = seconds_of(typed)
            always = Always(rules, scope, seconds)
            problem = self.question.problem(always)
            if seconds is None and typed not in _NO_END:
                problem = "minutes, hours or days, as in 30m, 12h and 7d; Enter is never"
            if problem is None:
                return always
            self.say(f"✗ {problem}")

    def say(self, text: str) -> None:
        for line in within(self.screen.width, "  ", visible(text), "    ", by_words=True):
            self.screen.line(line, "dim")


def _duration(seconds: float) -> str:
    """Return a span that `seconds_of` read in the largest unit that it is a number of."""
    name, unit = next((name, _SECONDS[name[0]]) for name in _UNITS if seconds % _SECONDS[name[0]] == 0)
    number = round(seconds / unit)
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def granted_lines(always: Always, question: Question) -> Iterator[str]:
    """Yield what an answer that lasts has granted, and where that is taken back."""
    span = "" if always.seconds is None else f" for {_duration(always.seconds)}"
    grants = question.grants(always)
    for where in dict.fromkeys(grant.holds for grant in grants):
        for what in _together((grant for grant in grants if grant.holds == where), set()):
            yield from f"allowed in {where}{span}: {what}".split("\n")
    yield "/permissions lists it, /permissions revoke takes it back"
