"""Print the decision table: origin read, effect, URL, autonomy, and who is present.

    python tests/security/policy_table.py > docs/policy.md

Every cell is asked of the pipeline itself, so a change of policy is a change of that file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby, product

import trio

from leeward.security.call import Checked, Status, ToolCall, ToolSpec
from leeward.security.kinds import KIND_KEY, CommandFacts, Effect, Kind, Wanted
from leeward.security.outcome import Output
from leeward.security.pipeline import GATES, Pipeline
from leeward.security.policy import Autonomy, Policy
from leeward.security.ports import Answer, Ports
from leeward.security.provenance import act_marks, text_marks, word_marks
from leeward.security.session import Event, Session, TextSeen, UrlsAdded, WordsGiven, apply_events
from leeward.security.trust import Origin
from leeward.security.url import Provenance

INTRODUCTION = """\
# What is allowed, asked and denied

This table is printed by `tests/security/policy_table.py`, which asks the pipeline itself, and a test
compares the two. It holds for a trusted tool, arguments that fit, a path in the workspace, and no
permission rules; rules and grants answer some of the questions, see the user guide.

* **does**: the effects a tool declares. One that declares none has all of them. *undeclared*: a string
  of the call is of a kind that nobody declared.
* *run*: a tool whose only argument is this command line.
* *own words*: all that the call says stands in the person's words, which ask for what the tool is named
  for. *given*, of a place to send to: it does.
* **URL**: what is known of the one it is called with. *given*: the person gave it. *query added*: the
  person gave it without the query. *in a file*, *on a page*: a text showed it. *not given*: nobody did.
* **read before**: whose words have reached the model in this session.
* The six columns are the autonomy levels, with a person there to ask and without one.

A word in brackets is the gate that decides. Without a person, every question is a refusal.
"""
COLUMNS = tuple(product(Autonomy, (False, True)))
HEADINGS = (
    "does",
    "URL",
    "read before",
    *(f"{level}{', alone' if alone else ''}" for level, alone in COLUMNS),
)

KNOWN = "https://docs.example/guide"
WORDS = "tell #team about the weather"
SHOWN = {
    "in a file": ("https://file.example/", Origin.WORKSPACE),
    "on a page": ("https://page.example/", Origin.WEB),
}
DOES = {
    "read": (Effect.READ, {"path": "notes.txt"}),
    "bring in": (Effect.BRING_IN, {"query": "weather"}),
    "bring in, undeclared": (Effect.BRING_IN, {"words": "weather"}),
    "create": (Effect.CREATE, {"query": "rain"}),
    "create, own words": (Effect.CREATE, {"query": "weather"}),
    "write": (Effect.WRITE, {"path": "notes.txt"}),
    "run git status": (Effect.ALL, {"command": "git status"}),
    "run make test": (Effect.ALL, {"command": "make test"}),
    "run sudo make": (Effect.ALL, {"command": "sudo make"}),
    "run curl, given": (Effect.ALL, {"command": f"curl {KNOWN}"}),
    "run curl, not given": (Effect.ALL, {"command": "curl https://elsewhere.example/"}),
    "run rm -rf /": (Effect.ALL, {"command": "rm -rf /"}),
    "send": (Effect.SEND, {"to": "#general"}),
    "send, given": (Effect.SEND, {"to": "#team"}),
    "send and bring in": (Effect.SEND | Effect.BRING_IN, {"query": "weather"}),
    "everything": (Effect.ALL, {"path": "notes.txt"}),
}
KINDS = {
    "path": Kind.PATH,
    "query": Kind.TEXT,
    "words": Kind.UNDECLARED,
    "command": Kind.COMMAND,
    "to": Kind.DESTINATION,
    "url": Kind.URL,
}
URLS = {
    "none": None,
    "given": KNOWN,
    "query added": f"{KNOWN}?page=2",
    **{name: url for name, (url, _) in SHOWN.items()},
    "not given": "https://elsewhere.example/",
}
IN_FORCE: tuple[Event, ...] = ()
"""What else happened before each call; a test puts skills here."""
READ_BEFORE = {
    "nothing": (),
    "workspace": (Origin.WORKSPACE,),
    "web": (Origin.WEB,),
    "mcp": (Origin.MCP,),
    "secret": (Origin.SECRET,),
}


class _World:
    """Every port at once: nobody to ask, nothing to fail, links that lead nowhere else."""

    def __init__(self, tool: ToolSpec) -> None:
        self.tool = tool

    def specs(self) -> list[ToolSpec]:
        return [self.tool]

    def spec(self, name: str) -> ToolSpec | None:
        return self.tool if name == self.tool.name else None

    async def execute(self, _cleared: object) -> Output:
        return Output("")

    async def resolve(self, paths: tuple[str, ...]) -> dict[str, str]:
        return {path: path for path in paths}

    async def look_up(self, wanted: Wanted, _policy: Policy) -> CommandFacts:
        programs = {name: f"/usr/bin/{name}" for name in wanted.programs}
        return CommandFacts({path: path for path in wanted.real}, programs=programs)

    async def ask(self, _question: object) -> Answer:
        return Answer.NOBODY

    async def append(self, _session: str, *_events: object) -> None: ...

    async def put(self, _session: str, _text: str, _origin: object) -> str:
        return ""

    def spool(self, _session: str) -> _World:
        return self

    async def write(self, _text: str) -> None: ...

    async def finish(self, _origin: object) -> str:
        return ""

    def abandon(self) -> None: ...

    async def states(self, _paths: tuple[str, ...], _policy: Policy) -> dict[str, object]:
        return {}

    def now(self) -> float:
        return 0.0


def pipeline(effects: Effect, arguments: dict[str, str], session: Session) -> Pipeline:
    """Return a pipeline whose one tool takes these arguments."""
    properties = {name: {"type": "string", KIND_KEY: KINDS[name]} for name in arguments}
    world = _World(ToolSpec("tell", "", {"type": "object", "properties": properties}, Checked, effects))
    return Pipeline(session, Ports(world, world, world, world, world, world, world))


async def word(does: str, url: str, read: str, autonomy: Autonomy, *, alone: bool) -> str:
    """Return the word for one case: allow, or ask or deny with the gates that say it."""
    effects, arguments = DOES[does]
    if URLS[url] is not None:
        arguments = {**arguments, "url": URLS[url]}
    session = Session("s", Policy("/ws", "/home/ada", autonomy=autonomy, headless=alone))
    key = session.values_key
    given = (
        UrlsAdded(0, (KNOWN,), Provenance.PERSON),
        WordsGiven(0, *word_marks(WORDS, key), own=True, acts=act_marks(WORDS, key)),
    )
    shown = (TextSeen(0, (), (), text_marks(text, key), origin, "read") for text, origin in SHOWN.values())
    session = apply_events(session, *given, *shown, TextSeen(0, READ_BEFORE[read]), *IN_FORCE)
    judging = pipeline(effects, arguments, session)
    call = ToolCall("c", "tell", json.dumps(arguments))
    if alone:
        outcome = (await judging.run(call)).outcome
        return "allow" if outcome.status is Status.OK else f"deny ({outcome.gate})"
    found = judging.judge.rule(await judging.judge.read(call))
    decision, left = found.decision, found.open_asks
    if decision.denial is not None:
        return f"deny ({decision.denial[0]})"
    return f"ask ({', '.join(gate for gate, _ in left)})" if left else "allow"


async def rows() -> list[tuple[str, ...]]:
    """Return a row for every case; origins that make no difference share one."""
    found = []
    for does, url in product(DOES, URLS):
        if "command" in DOES[does][1] and url != "none":
            continue
        cells = [
            (tuple([await word(does, url, read, level, alone=alone) for level, alone in COLUMNS]), read)
            for read in READ_BEFORE
        ]
        for words, group in groupby(sorted(cells, key=lambda cell: cell[0]), key=lambda cell: cell[0]):
            origins = [read for _, read in group]
            found.append(
                (does, url, "anything" if len(origins) == len(READ_BEFORE) else ", ".join(origins), *words)
            )
    return found


def table(cells: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a Markdown table whose columns are aligned."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def page() -> str:
    """Return the whole file."""
    gates = ", ".join(f"`{gate.__name__}`" for gate in GATES)
    return "\n".join(
        (INTRODUCTION, f"The gates, in order: {gates}.\n", *table([HEADINGS, *trio.run(rows)]), "")
    )


if __name__ == "__main__":
    sys.stdout.write(page())
