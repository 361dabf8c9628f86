"""The tool `todo`: the list of tasks a model works through, which the person sees.

It is kept for the session and nowhere else. It permits nothing: it is the model's own text, shown to the
person and given back to the model.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from leeward.security.call import ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.outcome import Output
from leeward.security.trust import Origin

from .declare import Text, tool

__all__ = ["Task", "TaskState", "TodoList"]

_MOST, _LONGEST = 50, 200
_MARKS = {"open": "[ ]", "doing": "[>]", "done": "[x]"}


class TaskState(StrEnum):
    """How far a task has come."""

    OPEN = "open"
    DOING = "doing"
    DONE = "done"


class Task(BaseModel):
    """One task, in a line."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    what: Annotated[Text, Field(min_length=1, max_length=_LONGEST)]
    state: TaskState = TaskState.OPEN


class TodoList:
    """The tasks of a session, in the order in which the model wants to do them."""

    def __init__(self) -> None:
        self.tasks: tuple[Task, ...] = ()

    def lines(self) -> list[str]:
        """Return a line for each task, with a mark for how far it has come."""
        return [f"{_MARKS[task.state]} {' '.join(task.what.split())}" for task in self.tasks]

    def tools(self) -> list[ToolExecutor]:
        """Return the tool `todo`."""
        return [tool(effects=Effect.READ)(self.todo).ordered()]

    async def todo(self, tasks: Annotated[list[Task], Field(max_length=_MOST)]) -> Output:
        """Note the tasks you work through, all of them each time, so that the person sees how far you are.

        For work of several steps; one is `doing` at a time, and what is done stays on the list as `done`.
        """
        self.tasks = tuple(tasks)
        return Output("\n".join(self.lines()) or "the list is empty", Origin.MODEL)
