"""Measure the cost of tracking where values were first seen. Prints one JSON line.

    python bench/provenance.py [MEGABYTES | --smoke]

Shows a session that much text in results of 16 KB, half of it prose and half of it ids that no two results
share; then asks for values that were seen, that were not, and for runs of tokens, and has `flow` and `leaks`
judge a mail of 900 characters that ends in an address. Sizes are what the session holds, as `tracemalloc`
counts it; times are microseconds in the same run.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from dataclasses import replace

import trio
from scale import SMOKE, scaled

from leeward.runtime.grounding import given_in_turn
from leeward.security.call import Action, ToolCall
from leeward.security.checks import let_out
from leeward.security.gates import flow, leaks
from leeward.security.judge import read_call
from leeward.security.kinds import Effect, Kind
from leeward.security.policy import Policy
from leeward.security.provenance import forms_of, text_marks
from leeward.security.session import Session, TextSeen, apply_events
from leeward.security.trust import Origin
from leeward.security.url import parse_url
from leeward.tools.composite import CompositeExecutor
from leeward.tools.declare import Destination, Text, tool
from leeward.tools.survey import Surveyor

_RESULT = 16 * 1024
_ASKED = 2_000
_WORDS = 60_000
_CALLS = 500


@tool(effects=Effect.SEND)
async def send_mail(to: Destination, subject: Text, body: Text, urgent: bool = False) -> str:
    """Send a mail."""
    return "sent"


def _results(count: int) -> list[str]:
    draw = random.Random(7)  # noqa: S311 - the same texts each time
    words = [f"{draw.choice('abcdefgh')}{number:x}word" for number in range(_WORDS)]
    found = []
    for number in range(count):
        rows, size = [f"mail from user{number}@example.com, Anna Berg{number} said"], 0
        while size < _RESULT:
            row = f"id-{draw.getrandbits(48):x} " + " ".join(
                draw.choices(words[: draw.choice((900, _WORDS))], k=6)
            )
            rows.append(row)
            size += len(row)
        found.append("\n".join(rows))
    return found


def _microseconds(session: Session, values: list[tuple[Kind, object, str]]) -> float:
    began = time.perf_counter()
    for kind, canonical, raw in values:
        forms = forms_of(kind, canonical, raw)
        session.values.is_given(forms, session.values_key)
        session.values.seen_in(forms, session.values_key)
    return round((time.perf_counter() - began) / len(values) * 1e6, 1)


async def _mail(session: Session) -> Action:
    """Return a mail as a model would send it: to whom the person named, with much that it read."""
    words = "The order of last week is on its way and the papers are with it. " * 14
    body = f"{words[:880]} anna@example.com"
    arguments = {"to": "kim@harbour.example", "subject": "The order", "body": body, "urgent": False}
    call = ToolCall("call", "send_mail", json.dumps(arguments))
    specs = {spec.name: spec for spec in CompositeExecutor([send_mail]).specs()}
    return await read_call(call, specs, session.policy, Surveyor())


def _judged(session: Session) -> dict[str, float]:
    """Return what it takes the two gates to judge one call, each time one with a text of its own."""
    actions = [trio.run(_mail, session) for _ in range(_CALLS)]
    took = {}
    for gate in (flow, leaks):
        gate(actions[0], session)
        began = time.perf_counter()
        for action in actions:
            gate(action, session)
        took[f"{gate.__name__}_us"] = round((time.perf_counter() - began) / _CALLS * 1e6, 1)
    began = time.perf_counter()
    for action in actions:
        let_out(action, session)
    took["let_out_us"] = round((time.perf_counter() - began) / _CALLS * 1e6, 1)
    return took


def main() -> int:
    """Show the texts, ask for the values, and print what both took."""
    count = 4 if SMOKE else scaled(10, 1, 0) * 1024 * 1024 // _RESULT
    session = Session("bench", Policy("/ws", "/home/ada"))
    key = session.values_key
    texts = _results(count)
    began = time.perf_counter()
    events = [TextSeen(0, (), (), text_marks(text, key), Origin.WEB, "mail") for text in texts]
    marked = time.perf_counter()
    tracemalloc.start()
    session = apply_events(session, *events)
    held, _ = tracemalloc.get_traced_memory()
    folded = time.perf_counter()
    tracemalloc.stop()
    asked = [number * count // _ASKED for number in range(_ASKED)]
    seen = [(Kind.DESTINATION, "", f"user{number}@example.com") for number in asked]
    unseen = [(Kind.URL, parse_url(f"https://evil{number}.example/x"), "") for number in asked]
    runs = [(Kind.DESTINATION, "", f"Anna Berg{number}") for number in asked]
    broken = [(Kind.DESTINATION, "", f"said Berg{number}") for number in asked[:200]]
    told = {
        "megabytes": round(sum(map(len, texts)) / 2**20, 1),
        "tokens": len(session.values.seen),
        "full": session.values.seen.is_full,
        "held_mib": round(held / 2**20, 1),
        "mark_us_per_kb": round((marked - began) * 1e6 / (sum(map(len, texts)) / 1024), 1),
        "fold_us_per_kb": round((folded - marked) * 1e6 / (sum(map(len, texts)) / 1024), 1),
        "seen_us": _microseconds(session, seen),
        "unseen_us": _microseconds(session, unseen),
        "run_us": _microseconds(session, runs),
        "broken_run_us": _microseconds(session, broken),
    }
    words = given_in_turn("send a summary of my mails to kim@harbour.example", session)
    secrets = frozenset({f"fake-token-{number}-of-a-bench" for number in range(3)})
    session = replace(apply_events(session, *words), labels=frozenset({Origin.WEB}), secrets=secrets)
    print(json.dumps(told | _judged(session)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
