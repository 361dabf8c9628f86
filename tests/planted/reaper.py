"""Wrong: ends the program's group, which whoever makes a session of its own has left."""

import os
import signal


def end_all(root, spared=()):
    os.killpg(root, signal.SIGKILL)
    return True
