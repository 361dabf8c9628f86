"""Pictures named in a message: they go to a model that takes them, as they are, and are kept nowhere."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import pytest

from chat_model import serving
from leeward.runtime.exits import CliError
from leeward.runtime.providers.anthropic.request import MessageWriter
from leeward.runtime.providers.interface import Message, Request
from leeward.runtime.providers.openai.request import ChatCompletions
from leeward.runtime.repl.attach import attachments
from leeward.runtime.repl.keys import picture_path
from leeward.runtime.repl.terminal import Typed
from leeward.security.call import Asker
from leeward.security.outcome import Picture

ENTER = "\r"


def png(size: int = 0) -> bytes:
    """A picture of one red point, with so many bytes of a comment."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    drawn = zlib.compress(b"\0\xff\0\0")
    parts = (chunk(b"IHDR", head), chunk(b"tEXt", bytes(size)), chunk(b"IDAT", drawn), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture
def model():
    with serving() as server:
        yield server


def joined(text: str) -> str:
    """What is on a screen, without where its lines are broken."""
    return " ".join(text.split())


def sent(request: dict) -> list[bytes]:
    """The pictures of a request."""
    parts = [part for m in request["messages"] if isinstance(m["content"], list) for part in m["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in urls]


def test_a_picture_goes_along_and_is_kept_nowhere(tty, leeward, model):
    (leeward.workspace / "a chart.png").write_bytes(png())
    leeward.configure(model.config() + 'pictures = "on"\n')
    at = tty()
    at.prompt()
    at.type('what is in @"a chart.png"?', ENTER)
    at.see("You said: what is in")
    at.prompt()
    assert sent(model.requests[-1]) == [png()]
    text = model.requests[-1]["messages"][-1]["content"][0]["text"]
    assert "[binary file: image/png," in text and "(this is picture 1 of the message)" in text
    at.type("and what else?", ENTER)
    at.see("You said: and what else?")
    at.prompt()
    assert sent(model.requests[-1]) == [png()], "it goes along with what follows, too"
    at.type("/exit", ENTER)
    at.ended()
    for file in leeward.data.rglob("*"):
        if file.is_file():
            assert png() not in file.read_bytes() and base64.b64encode(png()) not in file.read_bytes(), file


def test_a_model_that_takes_none_gets_the_text_alone_and_that_is_told(tty, leeward, model):
    (leeward.workspace / "chart.png").write_bytes(png())
    other = f'[[llm.providers]]\nname = "other"\nbase_url = "{model.url}"\n'
    leeward.configure(f'{model.config()}pictures = "on"\n{other}')
    at = tty()
    at.prompt()
    at.type("what is in @chart.png?", ENTER)
    at.see("You said: what is in")
    at.prompt()
    at.say("/model other:m")
    at.type("go on", ENTER)
    at.see("You said: go on")
    assert "other:m takes no pictures: it is sent the text of this conversation alone" in joined(at.prompt())
    assert not sent(model.requests[-1])
    at.say("/model ours:m")
    at.type("once more", ENTER)
    at.see("You said: once more")
    assert sent(model.requests[-1]) == [png()]
    at.prompt()
    assert "1 of their pictures are not sent any more" in joined(at.say("/compact"))
    at.type("and now", ENTER)
    at.see("You said: and now")
    assert not sent(model.requests[-1])


def test_a_model_that_takes_none_is_not_sent_any_and_the_person_reads_why(tty, leeward, model):
    (leeward.workspace / "chart.png").write_bytes(png())
    leeward.configure(model.config())
    at = tty()
    at.prompt()
    at.type("what is in @chart.png?", ENTER)
    at.see("ours:m takes no pictures, so nothing was sent")
    assert 'set pictures = "on" of its [[llm.providers]] if it does' in " ".join(at.prompt().split())
    assert not model.requests


@pytest.mark.parametrize("accepted", [False, True], ids=["at once", "later"])
def test_pictures_that_a_service_refuses_are_not_sent_again(tty, leeward, model, accepted):
    (leeward.workspace / "chart.png").write_bytes(png())
    leeward.configure(model.config() + 'pictures = "on"\n')
    at = tty()
    at.prompt()
    if accepted:
        at.type("what is in @chart.png?", ENTER)
        at.see("You said: what is in")
        at.prompt()
    model.refuses_pictures = True
    at.type("well, look", ENTER) if accepted else at.type("what is in @chart.png?", ENTER)
    at.see("this model takes no images")
    assert "pictures of this conversation are not sent any more" in joined(at.prompt())
    for words in ("then read its name", "and again"):
        at.type(words, ENTER)
        at.see(f"You said: {words}")
        assert not sent(model.requests[-1])
        at.prompt()


def test_a_model_that_is_not_there_says_nothing_of_pictures(tty, leeward, model):
    (leeward.workspace / "chart.png").write_bytes(png())
    leeward.configure(model.config() + 'pictures = "on"\n')
    at = tty()
    at.prompt()
    at.type("what is in @chart.png?", ENTER)
    at.see("You said: what is in")
    at.prompt()
    model.status = 404
    at.type("well, look", ENTER)
    at.see("knows no such model")
    model.status = 0
    assert "not sent any more" not in joined(at.prompt())
    at.type("once more", ENTER)
    at.see("You said: once more")
    assert sent(model.requests[-1]) == [png()]


@pytest.mark.parametrize(
    ("name", "data", "notice"),
    [
        ("large.png", png(4_000_000), "a picture cannot be attached to a message"),
        ("no.png", b"text that is no picture", "text that is no picture"),
        ("other.png", b"\0\1\2", "[binary file: image/png, 3 bytes]"),
        ("name.txt", png(), "[binary file: image/png,"),
    ],
)
async def test_what_is_a_picture_is_told_by_its_bytes(sessions, tmp_path, name, data, notice):
    async with sessions.session(tmp_path) as runtime:
        (runtime.places.workspace / name).write_bytes(data)
        read = await runtime.call("read", {"path": name}, Asker.PERSON)
        assert notice in read.text
        assert (read.picture is not None) is (name == "name.txt")
        models = await runtime.call("read", {"path": name})
        assert models.picture is None, "only the person's own call has one"


async def test_a_picture_that_may_not_be_read_goes_nowhere(sessions, tmp_path):
    async with sessions.session(tmp_path) as runtime:
        (runtime.places.workspace / ".env").write_bytes(png())
        read = await runtime.call("read", {"path": ".env"}, Asker.PERSON)
        assert read.picture is None and read.error is not None


def test_both_dialects_write_pictures_behind_the_text():
    message = Message("user", "look", pictures=(Picture("image/png", b"one"), Picture("image/gif", b"two")))
    request = Request((Message("system", "s"), message))
    chat = json.loads(ChatCompletions().writer("m", "o").write(request))["messages"][-1]["content"]
    assert [part["type"] for part in chat] == ["text", "image_url", "image_url"]
    assert chat[2]["image_url"]["url"] == "data:image/gif;base64,dHdv"
    blocks = json.loads(MessageWriter({}, "m", "o").write(request))["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "image"]
    assert blocks[1]["source"] == {"type": "base64", "media_type": "image/png", "data": "b25l"}


def test_a_file_that_is_dropped_on_the_terminal_is_named(tty, leeward, model, tmp_path):
    (leeward.workspace / "a chart.png").write_bytes(png())
    leeward.configure(model.config() + 'pictures = "on"\n')
    at = tty(columns=200)
    at.prompt()
    at.type("what is in ")
    at.paste(str(leeward.workspace / "a chart.png").replace(" ", "\\ "))
    at.see(f'@"{leeward.workspace}/a chart.png"')
    at.type(ENTER)
    at.see("You said: what is in")
    assert sent(model.requests[-1]) == [png()]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("{}/a b.png", False),
        ("{}/a\\ b.png ", True),
        ("'{}/a b.png'", True),
        ("file://{}/a%20b.png", True),
        ("{}/none.png", False),
        ("{}/notes.txt", False),
        ("see '{}/a b.png'", False),
        ("'{}/a b.png'\n'{}/a b.png'", False),
        ("a b.png", False),
        ("it's", False),
        ("", False),
        ("/" + "a" * 300 + ".png", False),
        ("x" * 1_000_000, False),
        ("x" * 1_000_000 + ".png", False),
        ("{}/x\\0.png", False),
        ("'{}/a @~ b/c.png'", False),
        ("'{}/quo\"te.png'", False),
    ],
)
def test_only_the_path_of_a_picture_alone_is_taken_for_one(tmp_path, text, is_one):
    (tmp_path / "a b.png").write_bytes(png())
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "a @~ b").mkdir()
    for name in ("a @~ b/c.png", 'quo"te.png'):
        (tmp_path / name).write_bytes(png())
    found = picture_path(text.replace("{}", str(tmp_path)))
    assert found == (f"{tmp_path}/a b.png" if is_one else None)


def test_a_name_that_is_dropped_or_completed_stays_one_name(tty, leeward, model):
    (leeward.workspace / "a chart.png").write_bytes(png())
    folder = leeward.workspace / "x y"
    folder.mkdir()
    (folder / "inside.txt").write_text("what is inside")
    leeward.configure(model.config() + 'pictures = "on"\n')
    at = tty(columns=200)
    at.prompt()
    at.type("look.")
    at.paste(f"'{leeward.workspace / 'a chart.png'}'")
    at.see('look. @"/')
    at.type(ENTER)
    at.see("You said: look.")
    assert sent(model.requests[-1]) == [png()]
    at.prompt()
    # A name that ends in a folder, with the quote still open.
    at.type('see @"x y/', ENTER)
    at.see("inside.txt")
    at.prompt()
    at.type("!ls ")
    at.paste(str(leeward.workspace / "a chart.png").replace(" ", "\\ "))
    at.type(ENTER)
    at.see(lambda text: text.count("a chart.png") > 3)
    assert "cannot access" not in at.prompt()


@pytest.mark.parametrize("name", ["~nosuchuser/x", "a" * 300, "/proc/1/root/x", "\u2028"])
async def test_what_cannot_be_looked_at_is_refused_and_the_chat_stays(sessions, tmp_path, name):
    async with sessions.session(tmp_path) as runtime:
        texts, pictures = await attachments(Typed(f"see @{name} now"), runtime)
        assert not pictures and len(texts) == (name != "\u2028")


async def test_a_conversation_has_a_bound_of_pictures(sessions, tmp_path, monkeypatch):
    async with sessions.session(tmp_path) as runtime:
        runtime.talk.conversation.say("look", "", (Picture("image/png", bytes(14_990_000)),))
        monkeypatch.setattr("leeward.runtime.repl.attach.takes_pictures", lambda _: True)
        (runtime.places.workspace / "one.png").write_bytes(png(20_000))
        with pytest.raises(CliError, match="15 MB together"):
            await attachments(Typed("see @one.png"), runtime)
