"""Wrong: a reaper that ends nothing of what a program left."""

import importlib
import sys
import types
from pathlib import Path

# As in the reaper itself: what started this is isolated, and knows of no package.
sys.modules["process"] = types.ModuleType("process")
sys.modules["process"].__path__ = [str(Path(__file__).parents[2] / "tools" / "process")]

reaper = importlib.import_module("process.reaper")

if __name__ == "__main__":
    reaper.end_all = lambda *_: True
    reaper._main()
