"""Filtered output: the original is stored first, the rest is fenced as usual."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from leeward.security.call import Status
from leeward.security.filters import Distilled
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.pipeline import Pipeline
from leeward.security.policy import Autonomy
from leeward.security.session import Finished
from leeward.security.text import without_margins

KEY = "sk-test-" + "0" * 32
SPAN = re.compile(r"«UNTRUSTED:([0-9a-f]{32}):shell»(.*)«END:\1»(.*)", re.DOTALL)
SHORT = "".join(f"step {number}\n" for number in range(40)) + f"token {KEY}\n"


class Distiller:
    """Shows the last line of whatever it is fed; `begun` and `ended` are what it was told."""

    def __init__(self, found: Distilled | BaseException | None = None) -> None:
        self.found, self.fed, self.begun, self.ended = found, "", [], []

    def begin(self, line):
        self.begun.append(str(line))
        return SimpleNamespace(feed=self.feed, finish=self.finish)

    def feed(self, piece):
        self.fed += piece

    def finish(self, exit_code, room):
        self.ended.append((exit_code, room))
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


@pytest.fixture
def printing(make):
    """A desk whose shell prints a text, by pieces or at once, with a distiller."""

    def made(distiller, output=SHORT, *, emits=True, code=0, fails=False, **policy):
        command = {"type": "string", "x-leeward-kind": Kind.COMMAND}
        schema = {"type": "object", "properties": {"command": command}}
        desk = make.desk(make.spec("shell", Effect.ALL, schema=schema), autonomy=Autonomy.FULL, **policy)
        ports = make.replace(desk.pipeline._ports, distiller=distiller)
        desk.pipeline = Pipeline(desk.session, ports)

        async def run(cleared):
            if not emits:
                return Output(output, exit_code=code)
            for start in range(0, len(output), 100):
                await cleared.emit(output[start : start + 100])
            done = Output("", exit_code=code, emitted=True)
            if fails:
                raise PermanentFailure("killed", done)
            return done

        desk.executor.does["shell"] = run
        return desk

    return made


@pytest.mark.parametrize("emits", [True, False])
async def test_the_whole_is_stored_redacted_however_short_and_its_id_is_told(printing, emits) -> None:
    distiller = Distiller(Distilled("step 39\n", ("shown: 1 of 41 lines",)))
    desk = printing(distiller, emits=emits, code=3)
    result = await desk.run("shell", {"command": "make -j4"})
    _, inside, rest = SPAN.fullmatch(without_margins(result.text)).groups()
    assert inside == "step 39\n" and "[shown: 1 of 41 lines]" in rest
    [(key, text)] = desk.store.texts.items()
    assert key == result.overflow_id and key in rest
    assert text == distiller.fed and text.startswith("step 0\nstep 1\n") and KEY not in text
    assert distiller.begun == ["make -j4"] and distiller.ended == [(3, 50_000)] and result.truncated
    [finished] = [event for event in desk.audit.committed if isinstance(event, Finished)]
    assert (finished.chars_in, finished.chars_out) == (len(text), len("step 39\n"))
    assert (desk.session.chars_in, desk.session.chars_out) == (len(text), len("step 39\n"))


@pytest.mark.parametrize("emits", [True, False])
async def test_what_they_leave_alone_is_shown_whole_and_not_stored(printing, emits) -> None:
    desk = printing(Distiller(None), emits=emits)
    result = await desk.run("shell", {"command": "make"})
    assert "step 0\n" in result.text and "step 39\n" in result.text
    assert desk.store.texts == {} and result.overflow_id is None and not result.truncated
    assert desk.session.chars_in == desk.session.chars_out > 0


async def test_what_cannot_be_stored_is_not_left_out(printing) -> None:
    desk = printing(Distiller(Distilled("step 39\n")))
    desk.store.is_broken = True
    result = await desk.run("shell", {"command": "make"})
    assert "step 0\n" in result.text and "could not be stored: the disk is full" in result.text
    assert desk.session.chars_in == desk.session.chars_out


async def test_filters_that_fail_let_nothing_through(printing) -> None:
    desk = printing(Distiller(ValueError("no")))
    result = await desk.run("shell", {"command": "make"})
    assert result.outcome.status is Status.ERROR and "step 0" not in result.text


async def test_what_a_killed_program_printed_is_filtered_as_that_of_a_failure(printing) -> None:
    distiller = Distiller(Distilled("step 39\n"))
    result = await printing(distiller, code=None, fails=True).run("shell", {"command": "make"})
    assert distiller.ended == [(None, 50_000)]
    assert "step 39\n" in result.text and "step 1\n" not in result.text and result.overflow_id is not None


async def test_what_is_still_long_is_shown_by_its_ends(printing) -> None:
    left = "".join(f"left {number}\n" for number in range(9_000))
    result = await printing(Distiller(Distilled(left))).run("shell", {"command": "make"})
    _, inside, rest = SPAN.fullmatch(without_margins(result.text)).groups()
    assert "characters left out …]" in inside and "in the middle are not shown" in rest
    assert inside.startswith("left 0\n") and inside.endswith("left 8999\n")


async def test_the_end_of_what_is_too_long_to_keep_is_filtered_as_well(printing) -> None:
    distiller = Distiller(Distilled("step 39\n"))
    desk = printing(distiller, max_bytes=100)
    result = await desk.run("shell", {"command": "make"})
    assert distiller.fed.startswith("step 0\n") and "step 39\n" in distiller.fed
    assert "characters were dropped" in result.text and len(*desk.store.texts.values()) <= 100


async def test_no_other_tools_output_is_filtered(make, printing) -> None:
    distiller = Distiller(Distilled("gone"))
    desk = make.desk(make.spec("tool"))
    desk.pipeline = Pipeline(desk.session, make.replace(desk.pipeline._ports, distiller=distiller))
    desk.executor.does["tool"] = Output(SHORT)
    assert "step 0\n" in (await desk.run("tool", {})).text
    assert distiller.begun == []
