"""A chat in a real terminal: keys of vi, and a bell at the end of a long turn."""

from __future__ import annotations

import re

import pytest

from chat_model import STORIES, say, serving, wait

ENTER, ESC = "\r", "\x1b"

STORIES["late"] = [[wait(11), say("At last.")]]
STORIES["brief"] = [[say("At once.")]]


@pytest.fixture
def model():
    with serving() as server:
        yield server


def test_vi_keys_edit_a_message(tty, leeward, model):
    leeward.configure(model.config() + '[terminal]\nediting = "vi"\n')
    at = tty()
    at.prompt()
    at.type("brxef")
    at.see("› brxef")
    at.type(ESC)
    at.type("0llxA!")
    at.see("› bref!")
    at.type(ESC)
    at.type("x0fri")
    at.type("r")
    at.see("› brref")
    at.type(ESC)
    at.type("0cwbrief", ENTER)
    at.see("At once.")


@pytest.mark.slow
@pytest.mark.parametrize(("notify", "rung"), [("bell", b"\x07"), ("osc9", b"\x1b]9;"), ("off", b"")])
def test_a_long_turn_rings_where_that_is_wanted_and_a_short_one_never(tty, leeward, model, notify, rung):
    leeward.configure(model.config() + f'[terminal]\nnotify = "{notify}"\n')
    at = tty()
    at.prompt()
    at.type("brief", ENTER)
    at.see("At once.")
    at.prompt()
    assert not re.search(rb"\x07|\x1b\]9", at.raw)
    at.type("late", ENTER)
    at.see("At last.")
    at.prompt()
    assert rung in at.raw and (rung or not re.search(rb"\x07|\x1b\]9", at.raw))
