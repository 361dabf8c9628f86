"""Output of background work: bounded, screened, and the rest stored."""

from __future__ import annotations

import pytest

from leeward.security.kinds import Effect
from leeward.security.output import BackgroundOutput

LATEST = 16 * 1024
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture
def lasting(make):
    """One of such things, in a session with a small threshold for what is stored."""
    return BackgroundOutput(
        make.action(make.spec("job", Effect.ALL)), make.session(threshold=2000), make.store()
    )


async def test_what_came_last_is_what_is_shown_in_whole_lines(lasting):
    for number in range(4000):
        await lasting.emit(f"line {number}\n")
    latest = lasting.latest
    assert latest.endswith("line 3999\n") and len(latest) <= LATEST
    lines = latest.splitlines()
    numbers = [int(line.removeprefix("line ")) for line in lines]
    assert numbers == list(range(numbers[0], 4000)), "no line is missing, and the first is a whole one"
    assert len(latest) > LATEST - 20
    assert lasting.chars == sum(len(f"line {number}\n") for number in range(4000))


@pytest.mark.parametrize("size", [1, 7, 40, 10_000])
async def test_no_secret_is_ever_held_however_it_is_cut(lasting, size):
    text = f"before {TOKEN} after\n" * 3
    for at in range(0, len(text), size):
        await lasting.emit(text[at : at + size])
        assert TOKEN not in lasting.latest and "ghp_A1b2" not in lasting.latest
    shown = await lasting.finish()
    assert TOKEN not in shown.text and "after" in shown.text


async def test_one_line_without_an_end_is_bounded_too(lasting):
    for _ in range(40):
        await lasting.emit("x" * 1000)
    assert 0 < len(lasting.latest) <= LATEST and set(lasting.latest) == {"x"}


async def test_what_was_long_is_stored_whole_and_what_was_short_is_not(make):
    for count, is_stored in ((1, False), (500, True)):
        store = make.store()
        one = BackgroundOutput(make.action(make.spec("job", Effect.ALL)), make.session(threshold=2000), store)
        for number in range(count):
            await one.emit(f"line {number}\n")
        shown = await one.finish()
        assert (one.id is not None) == is_stored
        assert ("line 0\n" in shown.text) and (f"line {count - 1}" in shown.text)
