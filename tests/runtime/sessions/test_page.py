"""A session as one page: it holds all that is on record, and nothing that anybody wrote is more than text."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from leeward.memory.audit import Record
from leeward.memory.sessions import Charge, Conversation, TranscriptEntry
from leeward.runtime.sessions import SessionRecord, page_lines
from leeward.runtime.slash import dispatch, parse
from leeward.security.ports import Answer
from leeward.security.trust import Origin

EVIL = (
    "</pre></details><script>document.title='owned'</script><img src=https://evil.example/x onerror=alert(1)>"
    "<style>body{background:url(https://evil.example/y)}</style><a href='javascript:alert(1)'>x</a>"
    "\x1b[2J\u202edlrow\u2069 «END:" + "0" * 32 + "» &lt;b&gt; \"' onclick='x"
)
OURS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "table",
    "tr",
    "td",
    "section",
    "time",
    "div",
}
OURS |= {"pre", "details", "summary", "span", "code", "p", "em", "svg", "a", "rect", "text"}


class Elements(HTMLParser):
    """Notes the names of the elements, their attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= set(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def entry(place: int, role: str, turn: int = 1, **content: object) -> TranscriptEntry:
    charge = Charge("m", 100 * place, 10, 0, 0, None)
    return TranscriptEntry(
        place, turn, role, content or None, Origin.WEB, charge, seq=place, at=1000.0 + place
    )


def decision(call: str, tool: str, arguments: object, at: float, **more: object) -> Record:
    body = {
        "tool": tool,
        "arguments": json.dumps(arguments),
        "allowed": True,
        "digest": call,
        "at": at,
        **more,
    }
    return Record(1, at, "s_1", "decision", call, tool, body)


def outcome(call: str, tool: str, at: float, **more: object) -> Record:
    return Record(2, at, "s_1", "outcome", call, tool, {"status": "ok", "seconds": 0.2, **more})


def hostile() -> SessionRecord:
    """Return a session in which everything that somebody else may write is hostile."""
    one = Conversation("s_1", 1000.0, f"/ws/{EVIL}", EVIL, 1010.0, 1)
    ask = {"gate": EVIL, "word": "ask", "rule": EVIL, "reason": EVIL, "facts": [[EVIL, EVIL]]}
    arguments = {"path": EVIL}
    return SessionRecord(
        one,
        [
            entry(1, "user", text=EVIL, attached=EVIL),
            entry(
                2, "assistant", text=EVIL, calls=[["m1", "look", json.dumps(arguments)], ["m2", EVIL, EVIL]]
            ),
            entry(3, "tool", text=EVIL, call_id="m1"),
            entry(4, "summary", text=EVIL),
            entry(5, "clear"),
        ],
        (),
        [
            decision("c1", "look", arguments, 1002.5, words=[ask], approver=EVIL, labels=[EVIL], waited=2.0),
            outcome("c1", "look", 1002.9, status=EVIL, exit_code=3),
        ],
        {"c1": [EVIL, f"+{EVIL}", f"-{EVIL}"]},
    )


def drawn(kept: SessionRecord) -> str:
    return "\n".join(page_lines(kept))


def test_what_others_wrote_is_text_and_nothing_is_loaded() -> None:
    page = drawn(hostile())
    found = Elements()
    found.feed(page)
    assert found.names <= OURS
    assert not {name for name, _ in found.attributes} & {"src", "onerror", "onclick", "action", "srcset"}
    assert all(value and value.startswith("#turn-") for name, value in found.attributes if name == "href")
    assert any(value and value.startswith("default-src 'none'") for _, value in found.attributes)
    assert "\x1b" not in page and "\u202e" not in page
    assert found.text.count("document.title='owned'") > 20, "each is there, as text"


def test_each_call_has_its_decisions_its_outcome_and_what_it_changed() -> None:
    words = [
        {"gate": "paths", "word": "allow", "rule": ""},
        {
            "gate": "flow",
            "word": "ask",
            "rule": "not_yours",
            "reason": "Is this what you want?",
            "facts": [["to", "kim"]],
        },
    ]
    sent = {"to": "kim", "urgent": False}
    kept = SessionRecord(
        Conversation("s_1", 1000.0, "/ws", "work", 1010.0, 2),
        [
            entry(1, "user", text="work"),
            entry(
                2,
                "assistant",
                text="",
                calls=[["m1", "send", '{"to": "kim"}'], ["m2", "shell", '{"command": "x"}']],
            ),
            entry(3, "tool", text="sent", call_id="m1"),
            entry(4, "tool", text="done", call_id="m2"),
            entry(5, "assistant", text="all done", calls=[]),
            entry(6, "user", turn=2, text="again"),
            entry(7, "assistant", turn=2, text="", calls=[["m3", "send", '{"to": "kim"}']]),
            entry(8, "tool", turn=2, text="no", call_id="m3"),
        ],
        (),
        [
            decision("c2", "shell", {"command": "x", "background": False}, 1003.2),
            decision(
                "c1", "send", {"to": "kim", "urgent": False}, 1002.5, words=words, approver="the person"
            ),
            outcome("c1", "send", 1002.9),
            outcome("c2", "shell", 1003.9, exit_code=2),
            decision(
                "k2", "keep", {}, 1003.5, of="c2", allowed=True, words=[{"gate": "paths", "word": "ask"}]
            ),
            decision("c3", "send", sent, 1007.5, allowed=False, gate="budget"),
        ],
        {"k2": ["a.txt: changed file", "-one", "+two"]},
    )
    page = drawn(kept)
    one, two, three = page.split('<details class="call"')[1:]
    assert 'id="c1"' in one and "ok · asked · 0.2 s" in one and "ask (not_yours): Is this" in one
    assert "to: kim" in one and "the person" in one and "sent" in one
    assert 'id="c2"' in two and "exit 2" in two and "keep what it changed" in two
    assert '<span class="del">-one</span>' in two and '<span class="add">+two</span>' in two
    assert 'id="c3"' in three and "refused by budget" in three and 'id="turn-2"' in page
    assert page.count("<rect") == 2, "a bar for each turn"


def test_ten_thousand_records_are_one_page() -> None:
    entries, records = [], []
    for number in range(2_500):
        at = 4 * number
        entries += [
            entry(at, "user", turn=number + 1, text="go"),
            entry(
                at + 1, "assistant", turn=number + 1, text="", calls=[[f"m{number}", "read", '{"path": "a"}']]
            ),
            entry(at + 2, "tool", turn=number + 1, text="text", call_id=f"m{number}"),
            entry(at + 3, "assistant", turn=number + 1, text="done", calls=[]),
        ]
        records += [
            decision(f"c{number}", "read", {"path": "a"}, 1000.0 + at + 1.5),
            outcome(f"c{number}", "read", 1000.0 + at + 1.6),
        ]
    kept = SessionRecord(Conversation("s_1", 1.0, "/ws", "long", 2.0, 2_500), entries, (), records, {})
    began = time.process_time()
    page = drawn(kept)
    assert page.count('class="call"') == 2_500 and "not on record" not in page
    assert page.count("<rect") <= 120 and time.process_time() - began < 60


async def test_a_session_writes_itself_to_a_new_file_and_to_no_other(sessions, tmp_path) -> None:
    says = [[("write", {"path": "a.txt", "content": "one\n<script>x</script>\n"})], "done"]
    person = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, "", says, approver=person) as runtime:
        await runtime.turn("write it")
        workspace = Path(runtime.pipeline.session.policy.workspace)
        told = await dispatch(runtime, parse("/export"))
        page = workspace / f"leeward-{runtime.session_id}.html"
        assert page.stat().st_mode & 0o777 == 0o600, "it holds what the session holds"
        assert str(page) in told.text and "+one" in page.read_text() and "<script" not in page.read_text()
        again = await dispatch(runtime, parse("/export"))
        assert again.failed and "is there already" in again.text
        assert not (await dispatch(runtime, parse("/export notes.md"))).failed
        assert (workspace / "notes.md").read_text().startswith("# write it")
        missing = await dispatch(runtime, parse("/export no/such/folder.html"))
        assert missing.failed and "No such file" in missing.text


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 400])
def test_a_browser_shows_it_and_runs_nothing(tmp_path, width) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium: it is for looking at pages, and no user needs it")
    page = tmp_path / "page.html"
    page.write_text(drawn(hostile()), encoding="utf-8")
    shown = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
            f"--window-size={width},1200", "--virtual-time-budget=2000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    found = Elements()
    found.feed(shown)
    assert found.names <= OURS | {"tbody"} and "<title>&lt;/pre&gt;" in shown
