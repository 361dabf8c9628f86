"""Output while a tool runs: screened, excerpted, stored whole, within bounded memory."""

from __future__ import annotations

import math
import re
import tracemalloc

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Status
from leeward.security.filters import Excerpt, Screened, Source, redact, strip
from leeward.security.kinds import Effect
from leeward.security.outcome import Output, PermanentFailure, ToolTimeout
from leeward.security.output import OutputStream
from leeward.security.policy import Autonomy
from leeward.security.session import Finished
from leeward.security.text import mask_of
from leeward.security.trust import Origin, TrustLevel

KEY = "sk-test-" + "0" * 32
OWN = "correct-horse-battery"
LINES = "".join(f"line {number}\n" for number in range(5_000))
SPAN = re.compile(r"«UNTRUSTED:([0-9a-f]{32}):([a-z0-9_-]+)»(.*)«END:\1»(.*)", re.DOTALL)


def source(**fields) -> Source:
    return Source("tool", Origin.WEB, **{"secrets": frozenset({OWN}), "threshold": 1000, **fields})


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def talking(text: str, size: int = 700, **output):
    """A tool that hands out a text and says that this was its output."""

    async def talk(cleared):
        for chunk in cut(text, size):
            await cleared.emit(chunk)
        return Output("", emitted=True, **output)

    return talk


async def shown(make, chunks: list[str], found: Source) -> str:
    with OutputStream(make.action(make.spec()), found, make.observer(), make.store(), "s") as live:
        for chunk in chunks:
            await live.emit(chunk)
        await live.close()
        return (await live.finish(Origin.WEB)).text


# ------------------------------------------------------------------ what is shown and what is kept


async def test_what_was_emitted_is_the_output_by_its_ends_and_whole_in_the_store(make) -> None:
    desk = make.desk(make.spec(), secrets={OWN}, threshold=1000)
    desk.executor.does["tool"] = talking(
        f"\x1b[31mfirst\x1b[0m {OWN} {KEY}\n" + LINES + "the last one\n", exit_code=3, notices=("ours",)
    )
    result = await desk.run()
    _, _, inside, rest = SPAN.fullmatch(result.text).groups()
    [(key, kept)] = desk.store.texts.items()
    first = f"first {mask_of('known-secret', OWN)}"
    assert inside.startswith(f"{first} [REDACTED:") and inside.endswith("the last one\n")
    assert "characters left out" in inside and len(inside) < 1000
    assert kept.startswith(first) and kept.count("\n") == 5_002
    assert not any(secret in result.text + result.shown + kept for secret in (OWN, KEY, "\x1b"))
    said = rest.splitlines()[1:]
    assert (
        said[0] == "[ours]"
        and any("masked as secret" in line for line in said)
        and any("escape sequences" in line for line in said)
    )
    assert said[-1] == (
        f"[the whole text, {len(kept)} characters in 5002 lines, is kept as {key}; read_overflow reads "
        f"it by page]"
    )
    assert (result.overflow_id, result.outcome.exit_code, desk.store.origins) == (
        key,
        3,
        {key: Origin.WORKSPACE},
    )
    assert desk.audit.of(Finished)[0].overflow == key
    assert "".join(desk.observer.chunks) == kept, "the person saw it all"


@pytest.mark.parametrize("size", [1, 64, 10_000])
async def test_a_short_one_is_shown_whole_and_not_kept(make, size) -> None:
    desk = make.desk(make.spec(), threshold=1000)
    desk.executor.does["tool"] = talking("hello\n" * 100, size)
    result = await desk.run()
    assert SPAN.fullmatch(result.text)[3] == "hello\n" * 100
    assert result.overflow_id is None and desk.store.texts == {} and desk.store.spools == []


async def test_the_text_of_an_output_that_was_emitted_is_not_looked_at(make) -> None:
    desk = make.desk(make.spec())

    async def talk(cleared):
        await cleared.emit("this")
        return Output("not that", emitted=True)

    desk.executor.does["tool"] = talk
    result = await desk.run()
    assert "this" in result.shown and "not that" not in result.text + result.shown


async def test_what_was_said_on_the_way_to_another_output_is_not_kept(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def talk(cleared):
        await cleared.emit(LINES)
        return Output("the result")

    desk.executor.does["tool"] = talk
    result = await desk.run()
    assert "the result" in result.shown and "line 7" not in result.text
    assert (
        result.overflow_id is None
        and desk.store.texts == {}
        and [spool.is_abandoned for spool in desk.store.spools] == [True]
    )


def whole(text: str, found: Source) -> str:
    return redact(strip(Screened(text), found), found).text


@pytest.mark.parametrize("around", range(280, 312))
async def test_a_secret_across_the_edge_of_what_is_shown_is_no_secret_any_more(make, planted, around) -> None:
    """The head ends at character 300, the tail begins 200 before the end: wherever one stands, no half of it
    is shown.
    """
    text = "x" * (around - 15) + f" {KEY} " + "y" * 3_000 + f" {KEY} " + "z" * (around - 115)
    found = await shown(make, cut(text, 97), source())
    assert not re.search("sk-|0{8}", found)
    wrong = await planted("live").shown(cut(text, 97), source())
    assert around not in {290, 300} or re.search("sk-|0{8}", wrong), (
        "the obvious wrong version shows half of it"
    )


@given(
    st.lists(st.text(st.sampled_from("ab\né😀\x1b[31m_\x08\r"), max_size=60), max_size=30),
    st.integers(1, 120),
)
def test_pieces_and_whole_show_and_keep_the_same(make, pieces, threshold) -> None:
    store, found = make.store(), source(threshold=threshold)

    async def main() -> Screened:
        with OutputStream(make.action(make.spec()), found, make.observer(), store, "s") as live:
            for piece in pieces:
                await live.emit(piece)
            await live.close()
            return await live.finish(Origin.WEB)

    screened, text = trio.run(main), whole("".join(pieces), found)
    excerpt = Excerpt(threshold)
    excerpt.feed(text)
    assert screened.text == excerpt.text
    assert list(store.texts.values()) == ([text] if len(text) > threshold else [])


# ------------------------------------------------------------------ bounds


@pytest.mark.parametrize("size", [50, 100_000])
async def test_over_the_cap_the_rest_is_dropped_and_said_and_the_end_is_shown_all_the_same(
    make, size
) -> None:
    desk = make.desk(make.spec(), threshold=1000, max_bytes=10_000)
    desk.executor.does["tool"] = talking(LINES + "the last one\n", size)
    result = await desk.run()
    [kept] = desk.store.texts.values()
    assert 9_000 < len(kept.encode()) <= 10_000 and LINES.startswith(kept) and kept.endswith("\n")
    dropped = len(LINES) + len("the last one\n") - len(kept)
    assert f"the first {len(kept)} characters in {kept.count(chr(10))} lines, are kept as" in result.text
    assert f"the other {dropped} characters were dropped" in result.text
    assert SPAN.fullmatch(result.text)[3].endswith("the last one\n")


@pytest.mark.parametrize(
    ("text", "bound", "left"),
    [("é" * 3_000, 2_001, "é" * 1_000), ("a\n" + "b" * 9_000, 5_000, "a\n"), ("x" * 9_000, 0, "")],
)
async def test_the_cap_counts_bytes_and_cuts_no_character(make, text, bound, left) -> None:
    desk = make.desk(make.spec(), threshold=1000, max_bytes=bound)
    desk.executor.does["tool"] = talking(text, 100_000)
    await desk.run()
    assert list(desk.store.texts.values()) == ([left] if left else [])


async def test_however_much_comes_little_of_it_is_held(make) -> None:
    """The store takes it, the observer has seen it; 64 MiB leave less than one behind."""
    store, observer, peak = make.store(), make.observer(), 0

    class Nowhere:
        async def write(self, _):
            await trio.lowlevel.checkpoint()

        async def finish(self, _):
            return "of_1"

        def abandon(self):
            pass

    store.spool = lambda _: Nowhere()
    observer.live = lambda *_: None
    line = "0123456789abcde\n" * 4096
    with OutputStream(
        make.action(make.spec()), source(threshold=50_000, max_bytes=1 << 40), observer, store, "s"
    ) as live:
        await live.emit(line)
        tracemalloc.start()
        try:
            for _ in range(1024):
                await live.emit(line)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        await live.close()
        screened = await live.finish(Origin.WEB)
    assert peak < 1024 * 1024 and "kept as of_1" in screened.notices[-1]


# ------------------------------------------------------------------ what goes wrong


async def test_a_store_that_fails_half_way_costs_the_copy_and_not_the_call(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def talk(cleared):
        await cleared.emit(LINES[:5_000])
        desk.store.is_broken = True
        await cleared.emit(LINES[5_000:])
        desk.store.is_broken = False
        await cleared.emit("the last one\n")
        return Output("", emitted=True)

    desk.executor.does["tool"] = talk
    result = await desk.run()
    assert result.outcome.status is Status.OK and result.overflow_id is None and desk.store.texts == {}
    assert "[the whole text could not be stored: the disk is full]" in result.text
    assert SPAN.fullmatch(result.text)[3].endswith("the last one\n")
    assert [spool.is_abandoned for spool in desk.store.spools] == [True]


async def test_a_store_that_fails_at_the_end_costs_the_copy_and_not_the_call(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def talk(cleared):
        await cleared.emit(LINES)
        await cleared.emit("\n" * 2_000)
        desk.store.is_broken = True
        return Output("", emitted=True)

    desk.executor.does["tool"] = talk
    result = await desk.run()
    assert (result.outcome.status, result.overflow_id) == (
        Status.OK,
        None,
    ) and "could not be stored" in result.text


async def test_a_failure_takes_along_what_was_emitted(make) -> None:
    desk = make.desk(make.spec(effects=Effect.EXECUTE), threshold=1000, autonomy=Autonomy.FULL)

    async def talk(cleared):
        await cleared.emit(LINES)
        raise ToolTimeout("stopped at its deadline", Output("", emitted=True, notices=("half of it",)))

    desk.executor.does["tool"] = talk
    result = await desk.run()
    [(key, kept)] = desk.store.texts.items()
    assert (result.outcome.status, result.overflow_id, kept) == (Status.TIMEOUT, key, LINES)
    assert "[half of it]" in result.text and "line 4999" in result.text


async def test_a_failure_without_its_output_keeps_nothing(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def talk(cleared):
        await cleared.emit(LINES)
        raise PermanentFailure("it broke")

    desk.executor.does["tool"] = talk
    assert (await desk.run()).overflow_id is None
    assert desk.store.texts == {} and [spool.is_abandoned for spool in desk.store.spools] == [True]


async def test_a_call_that_is_cancelled_keeps_nothing(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def talk(cleared):
        await cleared.emit(LINES)
        scope.cancel()
        await trio.sleep(math.inf)

    desk.executor.does["tool"] = talk
    with trio.CancelScope() as scope:
        await desk.run()
    assert desk.store.texts == {} and [spool.is_abandoned for spool in desk.store.spools] == [True]


async def test_an_emit_that_is_cancelled_leaves_no_hole(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def talk(cleared):
        for chunk in cut(LINES, 5_000):
            with trio.CancelScope() as scope:
                scope.cancel()
                await cleared.emit(chunk)
        return Output("", emitted=True)

    desk.executor.does["tool"] = talk
    await desk.run()
    assert list(desk.store.texts.values()) == [LINES]


async def test_eight_writers_at_once_lose_nothing(make) -> None:
    desk = make.desk(make.spec(), threshold=1000)

    async def one(cleared, number):
        for _ in range(100):
            await cleared.emit(f"{number}" * 79 + "\n")

    async def talk(cleared):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(one, cleared, number)
        return Output("", emitted=True)

    desk.executor.does["tool"] = talk
    await desk.run()
    [kept] = desk.store.texts.values()
    assert sorted(kept.splitlines()) == sorted(f"{number}" * 79 for number in range(8) for _ in range(100))


async def test_whoever_kept_the_leave_adds_nothing_to_a_text_that_is_finished(make) -> None:
    desk, taken = make.desk(make.spec(), threshold=1000), []

    async def talk(cleared):
        taken.append(cleared)
        await cleared.emit(LINES)
        return Output("", emitted=True)

    desk.executor.does["tool"] = talk
    await desk.run()
    seen = len(desk.observer.chunks)
    await taken[0].emit("afterwards\n" * 1000)
    assert list(desk.store.texts.values()) == [LINES] and len(desk.observer.chunks) == seen


async def test_an_untrusted_tools_remarks_stand_inside_and_ours_outside(make) -> None:
    desk = make.desk(make.spec(), threshold=1000, levels={"tool": TrustLevel.QUARANTINED})
    desk.executor.does["tool"] = talking(LINES, notices=("truly from leeward",))
    _, _, inside, rest = SPAN.fullmatch((await desk.run()).text).groups()
    assert "truly" in inside and "truly" not in rest and "kept as o_" in rest and "kept as o_" not in inside


@pytest.mark.parametrize("chunk", [7, None, b"bytes"])
async def test_what_is_no_text_is_a_failure_of_the_tool(make, chunk) -> None:
    desk = make.desk(make.spec())

    async def talk(cleared):
        await cleared.emit(chunk)
        return Output("", emitted=True)

    desk.executor.does["tool"] = talk
    assert (await desk.run()).outcome.status is Status.ERROR
