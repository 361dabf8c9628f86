"""Every text passes every filter: whole, in pieces, and while a tool runs."""

from __future__ import annotations

import re

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.call import Status
from leeward.security.filters import HARD_BOUND, Screened, Source, fence, redact, strip
from leeward.security.filters.screened import Stepwise
from leeward.security.kinds import Effect
from leeward.security.outcome import Output
from leeward.security.output import OutputStream, source_of
from leeward.security.pipeline import FILTERS, screen
from leeward.security.text import mask_of, without_margins
from leeward.security.trust import Origin, TrustLevel

KEY = "sk-test-" + "0" * 32
OWN = "correct-horse-battery"
SPAN = re.compile(r"«UNTRUSTED:([0-9a-f]{32}):([a-z0-9_-]+)»(.*)«END:\1»(.*)", re.DOTALL)
SOURCE = Source("tool", Origin.WEB, secrets=frozenset({OWN}), threshold=1000)


def never(text):
    raise AssertionError("nothing is stored that is shown whole")


def upper(screened, source):
    return Screened(screened.text.upper(), screened.notices)


def broken(screened, source):
    raise ValueError(screened.text)


async def test_a_short_text_is_fenced_and_not_kept() -> None:
    nonce, kind, text, rest = SPAN.fullmatch((await screen(Screened("hello\n"), SOURCE, never)).text).groups()
    assert (kind, text, rest) == ("tool", "hello\n", "")


async def test_every_filter_has_its_say_in_order() -> None:
    kept = []

    async def keep(text):
        kept.append(text)
        return "kept as o_1"

    text = f"\x1b[31mred\x1b[0m {KEY} {OWN} a\u202eb\n" + "line\n" * 1000
    screened = await screen(Screened(text, ("ours",)), SOURCE, keep)
    _, _, inside, rest = SPAN.fullmatch(screened.text).groups()
    assert inside.startswith("red [REDACTED:") and "characters left out" in inside
    assert len(kept) == 1 and kept[0].startswith("red [REDACTED:") and kept[0].endswith("line\n" * 1000)
    for secret in (KEY, OWN, "\x1b", "\u202e"):
        assert secret not in screened.text + screened.plain + kept[0]
    said = rest.splitlines()[1:]
    assert [said[0], said[-1]] == ["[ours]", "[kept as o_1]"]
    assert any("terminal escape" in line for line in said) and any(
        "masked as secret" in line for line in said
    )


async def test_the_filters_are_those_it_is_given_and_a_broken_one_lets_nothing_through() -> None:
    assert (await screen(Screened("a"), SOURCE, never, (upper,))).text == "A"
    with pytest.raises(ValueError, match="A"):
        await screen(Screened("a"), SOURCE, never, (upper, broken, fence))


async def test_nothing_but_the_fence_ends_the_chain() -> None:
    assert FILTERS[-1] is fence and [isinstance(step, Stepwise) for step in FILTERS] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("size", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 300_000])
async def test_pieces_end_nowhere_in_the_text(size) -> None:
    """A secret and an escape sequence across the edge of a piece are seen all the same."""
    for middle in (KEY, OWN, "\x1b[1;31m"):
        text = "x" * (size - len(middle) // 2) + f" {middle} " + "y" * 100
        source = Source("tool", Origin.WEB, secrets=frozenset({OWN}), threshold=10**7)
        inside = SPAN.fullmatch((await screen(Screened(text), source, never)).text)[3]
        assert middle not in inside and inside.startswith("x" * 100) and inside.endswith("y" * 100)


async def test_others_go_on_while_a_long_text_is_screened() -> None:
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await screen(Screened("ordinary text\n" * 100_000), Source("t", Origin.WEB, threshold=10**8), never)
        nursery.cancel_scope.cancel()
    assert turns > 40


def test_nobody_screens_more_than_the_hard_bound(make) -> None:
    tool = make.action(make.spec())
    assert source_of(tool, Output(""), make.session()).max_bytes <= HARD_BOUND


# ------------------------------------------------------------------ whose words they are


@pytest.mark.parametrize(
    ("effects", "level", "claims", "origin"),
    [
        (Effect.READ, 0, None, Origin.WORKSPACE),
        (Effect.EXECUTE, 0, None, Origin.WORKSPACE),
        (Effect.READ | Effect.BRING_IN, 0, None, Origin.WEB),
        (Effect.SEND, 0, None, Origin.WEB),
        (Effect.ALL, 0, None, Origin.WEB),
        (Effect.ALL, 0, Origin.TOOL, Origin.TOOL),
        (Effect.READ, 0, Origin.MCP, Origin.MCP),
        (Effect.ALL, 1, Origin.TOOL, Origin.WEB),
        (Effect.ALL, 2, Origin.PERSON, Origin.WEB),
        (Effect.READ, 2, Origin.PERSON, Origin.WORKSPACE),
        (Effect.READ, 1, Origin.WEB, Origin.WEB),
        (Effect.READ, 1, Origin.MODEL, Origin.MODEL),
    ],
)
def test_only_a_trusted_tool_can_claim_better_than_its_effects_say(
    make, effects, level, claims, origin
) -> None:
    action = make.action(make.spec(effects=effects, level=TrustLevel(level)))
    assert source_of(action, Output("", claims), make.session()).origin is origin


@pytest.mark.parametrize(
    ("fields", "outside"), [({}, True), ({"levels": {"tool": TrustLevel.QUARANTINED}}, False)]
)
async def test_only_a_trusted_tools_notices_stand_outside_the_fence(make, fields, outside) -> None:
    desk = make.desk(make.spec(), **fields)
    desk.executor.does["tool"] = Output("text", notices=("truly from leeward",))
    inside, rest = SPAN.fullmatch((await desk.run()).text).group(3, 4)
    assert ("truly" in rest, "truly" in inside) == (outside, not outside)


# ------------------------------------------------------------------ while it runs


async def live(make, chunks, **fields):
    observer = make.observer()
    with OutputStream(make.action(make.spec()), SOURCE, observer, make.store(), "s") as found:
        for chunk in chunks:
            await found.emit(chunk)
        await found.close()
    return observer.chunks


async def test_live_output_is_stripped_and_redacted_wherever_it_was_cut(make) -> None:
    text = f"one \x1b[31mtwo {KEY} three {OWN}\x1b[0m\nfour\u202e"
    whole = "".join(await live(make, [text]))
    for size in (1, 2, 3, 7, 16):
        assert (
            "".join(await live(make, [text[start : start + size] for start in range(0, len(text), size)]))
            == whole
        )
    assert whole == redact(strip(Screened(text), SOURCE), SOURCE).text
    assert not any(secret in whole for secret in (KEY, OWN, "\x1b", "\u202e"))


async def test_what_a_tool_puts_out_is_seen_before_it_ends(make) -> None:
    desk = make.desk(make.spec(), secrets={OWN})
    seen_early = []

    async def talk(cleared):
        await cleared.emit("step one\n" * 300)
        seen_early.extend(desk.observer.chunks)
        await cleared.emit(f"step two {OWN}\n")
        return Output("done")

    desk.executor.does["tool"] = talk
    await desk.run()
    assert "".join(seen_early).startswith("step one\n")
    assert "".join(desk.observer.chunks) == "step one\n" * 300 + f"step two {mask_of('known-secret', OWN)}\n"


async def test_an_observer_that_breaks_stops_no_call(make) -> None:
    desk = make.desk(make.spec())
    desk.observer.is_broken = True

    async def talk(cleared):
        await cleared.emit("x" * 10_000)
        return Output("done")

    desk.executor.does["tool"] = talk
    with pytest.warns(RuntimeWarning, match="observer"):
        assert (await desk.run()).outcome.status is Status.OK


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(1, 9))
@settings(max_examples=settings().max_examples // 2)
def test_live_and_whole_are_one_implementation(text, size) -> None:
    for step in (strip, redact):
        feeder = step.start(SOURCE)
        fed = (
            "".join(feeder.feed(text[start : start + size]) for start in range(0, len(text), size))
            + feeder.flush()
        )
        assert fed == step(Screened(text), SOURCE).text


# ------------------------------------------------------------------ the other door


async def test_admitted_text_passes_the_same_filters_and_labels_the_session(make) -> None:
    desk = make.desk(make.spec(), secrets={OWN}, threshold=1000)
    marked = await desk.pipeline.admit(f"\x1b[2J{OWN} {KEY}\n" + "x\n" * 1000, Source("note", Origin.MCP))
    _, kind, inside, rest = SPAN.fullmatch(marked).groups()
    assert kind == "note" and not any(secret in marked for secret in (OWN, KEY, "\x1b"))
    [stored] = desk.store.texts.values()
    assert (
        without_margins(inside).startswith(mask_of("known-secret", OWN))
        and "kept as o_" in rest
        and OWN not in stored
    )
    assert desk.session.labels == {Origin.MCP}


async def test_a_text_that_cannot_be_screened_is_not_admitted(make, monkeypatch) -> None:
    desk = make.desk(make.spec())
    with pytest.raises(TypeError):
        await desk.pipeline.admit(None, Source("note", Origin.WEB))
    assert desk.session.labels == frozenset()
