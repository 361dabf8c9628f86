"""The documented cells in a real kernel of Jupyter, and what an interrupt leaves."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

ROOT = Path(__file__).parents[3]
SECONDS = 60
CONFIG = '{"permissions.autonomy": "full", "tools.sandbox.level": "none", "tools.shell.trial": "off"}'

# A loop in which nothing else happens hears of an interrupt with its next event only, whatever it runs.
TICKING = """
import asyncio
async def tick():
    while True:
        await asyncio.sleep(0.1)
ticking = asyncio.ensure_future(tick())
"""


class Kernel:
    """A kernel at work in a folder with a note in it."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work"
        self.workspace.mkdir()
        (self.workspace / "notes.md").write_text("the ferry leaves at seven\n", encoding="utf-8")
        # The blocking client leaves loops and sockets open.
        self.runner = asyncio.Runner()
        self.manager = AsyncKernelManager(transport="ipc", ip=str(folder / "k"))
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.manager._kernel_spec = KernelSpec(argv=argv, language="python", display_name="test")
        around = {"HOME": str(folder), "PATH": os.environ["PATH"], "IPYTHONDIR": str(folder / "ipython")}
        self.runner.run(self.manager.start_kernel(cwd=self.workspace, env=around))
        self.client = self.manager.client()
        self.client.start_channels()
        self.runner.run(self.client.wait_for_ready(timeout=SECONDS))

    def run(self, cell: str) -> tuple[str, str]:
        """How a cell ends, and all that it shows."""
        shown: list[str] = []

        def show(message):
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown.append(content["text"])
            elif kind == "execute_result":
                shown.append(content["data"]["text/plain"])
            elif kind == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")

        ran = self.client.execute_interactive(cell, output_hook=show, timeout=SECONDS)
        done = self.runner.run(ran)
        return done["content"]["status"], "".join(shown)

    def close(self) -> None:
        self.client.stop_channels()
        self.runner.run(self.manager.shutdown_kernel(now=True))
        self.client.context.destroy(0)
        self.manager.context.destroy(0)
        self.runner.close()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    made = Kernel(tmp_path_factory.mktemp("jupyter"))
    yield made
    made.close()


def threads(kernel: Kernel) -> str:
    return kernel.run("import threading; [thread.name for thread in threading.enumerate()]")[1]


def test_the_documented_cells_run_one_after_the_other(kernel):
    section = (
        (ROOT / "docs/embedding.md").read_text("utf-8").partition("## Jupyter\n")[2].partition("\n## ")[0]
    )
    cells = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    shown = [kernel.run(cell) for cell in cells]
    assert [status for status, _ in shown] == ["ok"] * 3, shown
    assert ["the ferry leaves at seven" in text for _, text in shown] == [False, True, True]
    assert "'leeward'" not in threads(kernel), "the trio thread ended with the last runtime"


def test_sync_works_in_a_cell_and_the_plain_front_says_what_to_use(kernel):
    cell = 'from leeward import sync\nwith sync.open(model="offline") as runtime:\n    '
    status, shown = kernel.run(f'{cell}print(runtime.turn("read notes.md").text)')
    assert status == "ok" and "the ferry leaves at seven" in shown
    status, shown = kernel.run("from leeward import Runtime\nasync with Runtime.open(): pass")
    assert status == "error"
    assert (
        shown.startswith("RuntimeError: Runtime.open needs trio") and "use leeward.aio.Runtime.open" in shown
    )
    assert "'leeward'" not in threads(kernel)


@pytest.mark.parametrize(
    "cell",
    [
        "async with aio.Runtime.open(config={config}) as runtime: await runtime.call('shell', {line})",
        "with sync.open(config={config}) as runtime: runtime.call('shell', {line})",
    ],
    ids=["aio", "sync"],
)
def test_an_interrupted_cell_leaves_nothing_running(kernel, cell):
    marker = kernel.workspace / "pid"
    marker.unlink(missing_ok=True)

    def interrupt():
        while not (marker.exists() and marker.read_text().strip()):
            time.sleep(0.05)
        os.kill(kernel.manager.provisioner.pid, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    line = '{"command": "echo $$ > pid; sleep 1000 & sleep 1000"}'
    head = f"from leeward import aio, sync\n{TICKING}"
    status, shown = kernel.run(head + cell.replace("{config}", CONFIG).replace("{line}", line))
    interrupting.join()
    assert status == "error" and shown.startswith(("KeyboardInterrupt", "CancelledError")), shown
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)
    assert "'leeward'" not in threads(kernel)
