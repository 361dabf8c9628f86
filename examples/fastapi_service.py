"""Serve answers over HTTP: each request is a session of its own, its events are streamed as JSON lines.

    uvicorn fastapi_service:app
    curl -N http://127.0.0.1:8000/turns -H 'Content-Type: application/json' -d '{"text": "read notes.md"}'

A client that disconnects ends its turn: the response is over once no process and no task of it is left, and
each call that had begun has its outcome on record. Who may ask is for your own middleware to say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from leeward import aio
from leeward.events import as_json


class Prompt(BaseModel):
    """The body of a request."""

    text: str


class TurnResponse(StreamingResponse):
    """A stream that is over when its turn is.

    Where a client leaves while a line is being sent, nothing is raised in the generator: without `aclosing`
    its turn would outlive the response.
    """

    media_type = "application/x-ndjson"

    def __init__(self, lines: AsyncGenerator[str, None]) -> None:
        super().__init__(lines)
        self._lines = lines

    async def __call__(self, *connection: Any) -> None:
        """Send the lines until there are no more, or the client has left."""
        async with aclosing(self._lines):
            await super().__call__(*connection)


async def answer(runtime: aio.Runtime, text: str) -> AsyncGenerator[str, None]:
    """Yield the events of one turn, and first of all which session it is, as JSON lines."""
    async with runtime.session() as session, session.run(text) as events:
        yield json.dumps({"type": "session", "session": session.session_id}) + "\n"
        async for event in events:
            yield json.dumps(as_json(event)) + "\n"


def make_app(**options: Any) -> FastAPI:
    """Return the service; the options are those of `leeward.Runtime.open`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with aio.Runtime.open(**options) as app.state.runtime:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/turns")
    async def turn(prompt: Prompt, request: Request) -> TurnResponse:
        return TurnResponse(answer(request.app.state.runtime, prompt.text))

    return app


app = make_app()
