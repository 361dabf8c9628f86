"""A model server on loopback for chats at a terminal: streams Markdown, reasoning and parallel calls.

    python tests/support/chat_model.py      prints its base URL on a line, and serves until it is ended

Chat Completions over HTTP/1.1. What it answers is told by the first word of the person's last message
(`STORIES`) and by how many replies it gave since; what it does not know it repeats. A story is a list of
replies, a reply a list of steps: a text is said in pieces, `think` is reasoning, `call` a tool call, `wait`
a pause in seconds, `held` waits until `ChatModel.release` is set.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MARKDOWN = """\
# The ferry

It leaves at **seven**, see [the plan](https://ferry.example/plan) and `notes.md`.

| pier | time | 名前 |
|------|-----:|------|
| east | 7:00 | 東 |
| west | 19:30 | 西 |

```python
def leaves(hour: int) -> bool:
    return hour == 7  # sharp
```

1. be early
2. bring a coat
   - and a hat

> The sea is wide.
"""

HOSTILE = "A\x1b]0;pwned\x07B\x1b[2JC\x9b31mD\u202eE &#x202e;F &#27;[2JG [x](http://h.example/\u202e)"


@dataclass(frozen=True)
class Step:
    kind: str
    text: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def say(text: str) -> Step:
    return Step("say", text)


def think(text: str) -> Step:
    return Step("think", text)


def call(tool: str, **arguments: Any) -> Step:
    return Step("call", tool, arguments)


def wait(seconds: float) -> Step:
    return Step("wait", seconds=seconds)


HELD = Step("held")

STORIES: dict[str, list[list[Step]]] = {
    "ferry": [[think("The person asks about the ferry. " * 3), say(MARKDOWN)]],
    "hostile": [[think(HOSTILE), say(HOSTILE)]],
    "empty": [[]],
    "slow": [[say("First paragraph.\n\nSecond, which is not "), HELD, say("finished.\n")]],
    "ponder": [[think("Let me think about it."), HELD, say("Done.")]],
    "long": [[*(say(f"Line {number} of many.\n\n") for number in range(1, 61))]],
    "look": [[call("read", path="notes.md"), call("list_directory", path=".")], [say("Two looked at.")]],
    "touch": [[call("shell", command="touch made")], [say("Made.")]],
    "write": [
        [call("write", path="poem.txt", content="roses are red\nviolets are blue\n")],
        [say("Written.")],
    ],
    "edit": [
        [call("read", path="notes.md")],
        [call("edit", path="notes.md", old_string="seven", new_string="eight")],
        [say("Edited.")],
    ],
    "big": [[call("write", path="big.txt", content="a line of a long file\n" * 200)], [say("Written.")]],
    "three": [
        [
            call("write", path="a.txt", content="a\n"),
            call("write", path="b.txt", content="b\n"),
            call("write", path="c.txt", content="c\n"),
        ],
        [say("Three written.")],
    ],
    "both": [[call("read", path="/etc/hostname"), call("read", path="/etc/os-release")], [say("Both read.")]],
    "link": [
        [call("read", path="links.md")],
        [call("fetch", url="https://docs.example/guide")],
        [say("Tried.")],
    ],
    "run": [[call("shell", command="{rest}")], [say("That ran.")]],
}


class ChatModel(ThreadingHTTPServer):
    """The server. `requests` are the bodies it was sent; a `held` step waits for `release`.

    It refuses pictures where `refuses_pictures` is set, as a service does whose model takes none, and all
    with `status` where that is one.
    """

    daemon_threads = True

    def __init__(self, pause: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pause = pause
        self.refuses_pictures = False
        self.status = 0
        self.requests: list[dict[str, Any]] = []
        self.release = threading.Event()
        self.dropped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def config(self, model: str = "m") -> str:
        """Configuration that makes this the model."""
        return f'[llm]\nmodel = "ours:{model}"\n[[llm.providers]]\nname = "ours"\nbase_url = "{self.url}"\n'


@contextmanager
def serving(pause: float = 0.0) -> Iterator[ChatModel]:
    """Serve for as long as the block lasts."""
    server = ChatModel(pause)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def reply_to(body: dict[str, Any]) -> list[Step]:
    """Return the steps of the next reply."""
    messages = body["messages"]
    last = max(number for number, message in enumerate(messages) if message["role"] == "user")
    content = messages[last]["content"]
    if not isinstance(content, str):
        content = " ".join(part.get("text", "") for part in content)
    word, _, rest = content.partition(" ")
    story = STORIES.get(word.strip().lower())
    if story is None:
        return [say(f"You said: {content.splitlines()[0] if content else ''}")]
    done = sum(message["role"] == "assistant" for message in messages[last:])
    steps = story[min(done, len(story) - 1)]
    fill = rest.split("\n\n")[0]
    return [
        Step(step.kind, step.text, {k: v.replace("{rest}", fill) if isinstance(v, str) else v
                                    for k, v in step.arguments.items()}, step.seconds)
        for step in steps
    ]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    server: ChatModel
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(body)
        if self.server.status:
            self._refuse("there is nothing here", self.server.status)
            return
        if self.server.refuses_pictures and "image_url" in json.dumps(body):
            self._refuse("this model takes no images")
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            self._stream(reply_to(body))
        except OSError:
            self.server.dropped.set()
        self.close_connection = True

    def _refuse(self, why: str, status: int = 400) -> None:
        body = json.dumps({"error": {"message": why, "type": "invalid_request_error"}}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, steps: list[Step]) -> None:
        calls = 0
        for step in steps:
            match step.kind:
                case "say":
                    for start in range(0, len(step.text), 7):
                        self._delta({"content": step.text[start : start + 7]})
                case "think":
                    self._delta({"reasoning_content": step.text})
                case "call":
                    function = {"name": step.text, "arguments": json.dumps(step.arguments)}
                    self._delta({"tool_calls": [{"index": calls, "id": f"c{calls}", "function": function}]})
                    calls += 1
                case "wait":
                    time.sleep(step.seconds)
                case "held":
                    while not self.server.release.wait(0.2):
                        self._send(b": still here\n\n")
        self._delta({}, "tool_calls" if calls else "stop")
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        self._event({"choices": [], "usage": usage})
        self._send(b"data: [DONE]\n\n")

    def _delta(self, delta: dict[str, Any], finish: str | None = None) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        if self.server.pause:
            time.sleep(self.server.pause)

    def _event(self, data: dict[str, Any]) -> None:
        self._send(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    with serving(pause=0.02) as running:
        sys.stdout.write(f"{running.url}\n")
        sys.stdout.flush()
        threading.Event().wait()
