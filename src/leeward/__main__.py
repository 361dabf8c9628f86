"""The console script `leeward`.

In a folder that is not trusted use it, not `python -m leeward`, which would look for modules in that
folder first.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from leeward.runtime.version import tell_version
from leeward.security.lazy import LazyModule

# Imports make hundreds of thousands of objects that stay: looking through them again and again while
# they are made costs more than it finds. `cli/main.py` switches the collector on again.
gc.disable()

if TYPE_CHECKING:
    from leeward.runtime.cli import main as cli
else:
    cli = LazyModule("leeward.runtime.cli.main")

__all__ = ["main"]


def main() -> int:
    """Run the command line and return the exit code."""
    # Where the answer cannot be written, the usual way tells why.
    if sys.argv[1:] == ["--version"] and tell_version():
        return 0
    # pydantic would look through every installed package for plug-ins of its own, and run them.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    return cli.run()


if __name__ == "__main__":
    raise SystemExit(main())
