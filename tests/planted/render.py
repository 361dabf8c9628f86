"""Wrong: what a model says is printed as it is, and what a program says piece by piece."""

from leeward.runtime.events import LiveOutput, Text
from leeward.runtime.repl.render import Renderer as Right


class Renderer(Right):
    def __call__(self, event):
        match event:
            case Text(text):
                self.screen._sink.write(text)
            case LiveOutput(text=text):
                self.screen._sink.write("".join(f"  │ {line}\n" for line in text.splitlines()))
            case _:
                super().__call__(event)
