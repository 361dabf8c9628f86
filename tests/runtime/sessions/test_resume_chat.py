"""At a terminal: resume, switch, fork and compact sessions."""

from __future__ import annotations

from leeward.runtime.exits import Exit


def test_a_chat_that_is_resumed_shows_what_was_said(tty, leeward) -> None:
    at = tty()
    at.prompt()
    assert "the ferry leaves at seven" in at.say("read notes.md")
    at.type("/exit", "\r")
    assert at.ended() == Exit.SUCCESS
    at = tty("--resume")
    at.see("› read notes.md\n")
    assert "No model is configured" not in at.say("list the files"), "it was said in the first turn"
    assert "2 turns  read notes.md" in at.say("/sessions")
    forked = " ".join(at.say("/fork 1").split())
    assert "1 turn read notes.md (fork of s_" in forked and "list the files" not in forked
    assert "nothing was summed up: the offline model" in at.say("/compact")
    assert "there is no session s_none" in at.say("/resume s_none")
    assert "list the files" in at.say("/resume"), "the one that was left is the latest but this"
    assert "usage: /fork [TURN]" in at.say("/fork x")
    at.type("/exit", "\r")
    assert at.ended() == Exit.SUCCESS


def test_what_cannot_be_come_back_to_ends_the_start(tty, leeward) -> None:
    at = tty("--resume")
    at.see("there is no session to resume in this workspace")
    assert at.ended() == Exit.NOT_FOUND and at.is_restored


def test_a_session_that_is_open_at_another_terminal(tty, leeward) -> None:
    first = tty()
    first.prompt()
    first.say("read notes.md")
    second = tty("--resume")
    second.see(f"is open already, by process {first.process.pid}")
    assert second.ended() == Exit.PRECONDITION
    third = tty()
    third.prompt()
    assert "is open already" in third.say("/resume")
    first.hang_up()
    first.ended()
    assert "read notes.md" in third.say("/resume")
