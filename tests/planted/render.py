"""Wrong: what a model says is printed as it is, and what a program says piece by piece."""

from rich.text import Text as Styled

from leeward.runtime.events import LiveOutput, Text
from leeward.runtime.repl.render import Renderer as Right


class Renderer(Right):
    def __call__(self, event):
        match event:
            case Text(text):
                self.screen._console.print(Styled(text), end="", soft_wrap=True)
            case LiveOutput(text=text):
                for line in text.splitlines():
                    self.screen._console.print(f"  │ {line}", markup=False, soft_wrap=True)
            case _:
                super().__call__(event)
