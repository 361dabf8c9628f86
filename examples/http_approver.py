r"""Have questions answered over HTTP: whoever has the key gives work, sees what waits, and answers it.

    APPROVER_KEY=… uvicorn --factory http_approver:make_app
    curl http://127.0.0.1:8000/questions -H "Authorization: Bearer $APPROVER_KEY"
    curl http://127.0.0.1:8000/answers -H "Authorization: Bearer $APPROVER_KEY" \
        -H 'Content-Type: application/json' -d '{"token": "…", "digest": "…", "answer": "yes"}'

A token is good for one answer, and ends with its question. The digest is the SHA-256 of the text that the
person was shown, computed where it was shown: so a yes is to that text and nothing else. What is replayed,
late, altered or made up is refused with 409 and on record (`leeward audit list --kind refused_answer`).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

from leeward import aio


class Prompt(BaseModel):
    """What is asked of the model."""

    text: str


class PersonsAnswer(BaseModel):
    """An answer to a question: "yes" or "no", and why not."""

    token: str
    digest: str
    answer: str
    words: str = ""


def make_app(key: str = "", **options: Any) -> FastAPI:
    """Return the service; `key` is what the person proves to be it with, by default APPROVER_KEY."""
    wanted = f"Bearer {key or os.environ['APPROVER_KEY']}".encode()
    questions = aio.PendingQuestions(seconds=300)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with aio.Runtime.open(approver=questions, **options) as app.state.runtime:
            yield

    def person(request: Request) -> None:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), wanted):
            raise HTTPException(401, "the key of the person who answers is needed")

    app = FastAPI(lifespan=lifespan)

    @app.post("/turns", dependencies=[Depends(person)])
    async def turn(prompt: Prompt, request: Request) -> dict[str, str]:
        async with request.app.state.runtime.session() as session:
            return {"session": session.session_id, "answer": (await session.turn(prompt.text)).text}

    @app.get("/questions", dependencies=[Depends(person)])
    async def waiting() -> list[dict[str, Any]]:
        return [question.as_json() for question in questions.open]

    @app.post("/answers", dependencies=[Depends(person)])
    async def answer(given: PersonsAnswer) -> dict[str, str]:
        try:
            await questions.answer(
                given.token, given.digest, given.answer, by="the key's owner", words=given.words
            )
        except aio.AnswerRefused as error:
            raise HTTPException(409, error.why) from None
        return {"taken": given.answer}

    return app
