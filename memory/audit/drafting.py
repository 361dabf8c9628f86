"""What goes into the row of a record, and under which name, so that none stands there twice?

Rows are named by who writes them: a mark that no other process has, and a number.
"""

from __future__ import annotations

import secrets
from itertools import count

from leeward.security.kinds import Json
from leeward.security.session import Event

from ..database import Body, Draft, storable, stored_json
from .events import body_of, kind_of

__all__ = ["Drafting"]


class Drafting:
    """Makes the drafts of one who writes."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(8)
        self._numbers = count()
        self._unsure: dict[int, tuple[Event, str]] = {}

    def of_fact(self, at: float, session: str, kind: str, body: dict[str, Json] | Body) -> Draft:
        """Return the draft of a record that no session is folded from.

        Raises:
            RecordError: JSON cannot say it.
        """
        text = stored_json(body) if isinstance(body, dict) else body
        return Draft(at, storable(session), kind, None, None, text, self._new_name())

    def of_event(self, session: str, event: Event) -> Draft:
        """Return the draft of an event; the same event gets the same name until it is `settled`.

        Raises:
            RecordError: JSON cannot say it.
        """
        call, tool = getattr(event, "call", None), getattr(event, "tool", None)
        body = body_of(event)
        # The event is kept beside its name: another one cannot come to have the same identity meanwhile.
        _, name = self._unsure.setdefault(id(event), (event, self._new_name()))
        return Draft(
            event.at,
            storable(session),
            kind_of(event),
            None if call is None else storable(call),
            None if tool is None else storable(tool),
            body,
            name,
        )

    def settled(self, *events: Event) -> None:
        """Forget the names of events that are known to be on record."""
        for event in events:
            self._unsure.pop(id(event), None)

    def _new_name(self) -> str:
        return f"{self.mark}{next(self._numbers):x}"
