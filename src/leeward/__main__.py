"""The console script `leeward`.

In a folder that is not trusted use it, not `python -m leeward`, which would look for modules in that
folder first.
"""

from __future__ import annotations

import gc

# Imports make hundreds of thousands of objects that stay: looking through them again and again while
# they are made costs more than it finds. `cli/main.py` switches the collector on again.
gc.disable()

from leeward.runtime.cli.main import run  # noqa: E402 - after the collector was stopped

__all__ = ["main"]


def main() -> int:
    """Run the command line and return the exit code."""
    return run()


if __name__ == "__main__":
    raise SystemExit(main())
