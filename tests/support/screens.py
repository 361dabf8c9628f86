"""A screen of a given size that keeps what is printed on it, for tests of what is laid out."""

from __future__ import annotations

import io
from collections.abc import Callable

from leeward.runtime.repl.screen import Screen


class Sheet:
    """Takes what is printed; `obeys` tells whether styles become escape sequences."""

    def __init__(self, width: int = 80, height: int = 40, *, obeys: bool = False) -> None:
        self.size = (width, height)
        self.obeys = obeys
        self.out = io.StringIO()
        self.write: Callable[[str], object] = self.out.write

    @property
    def text(self) -> str:
        return self.out.getvalue()


def sheet(width: int = 80, height: int = 40, *, obeys: bool = False) -> tuple[Screen, Sheet]:
    """Return a screen and what it prints on."""
    made = Sheet(width, height, obeys=obeys)
    return Screen(made), made  # type: ignore[arg-type]  # what write returns is nobody's business
