"""Lines that ended the process under the parser's versions 0.25.0 to 0.26.0, each read in a process of its
own.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Found by chance and made short: backquotes that open where others close, and builtins with `--` among them.
CRASHES = [
    "-- export ` $x read ` read ` -- ` read x=1 export export ` ` export $x set read",
    "$x ` ` ` ; ` x=1 -- -- set -- $x `",
    "-- set export ` -- ` export ` ; -- a x=1 -- -- export -- ` set --",
    "` x=1 ` ` ; ` read ` read ` ` export `",
    "read $x export -- export set export ` -- ` export ` ; -- a x=1 -- -- export -- ` set --",
    "; ` $x ` ` ` ; a export ; ` x=1 -- -- set ` -- $x ` --",
]


@pytest.mark.parametrize("line", CRASHES)
def test_a_line_never_ends_the_process(line):
    code = (
        "import sys; from leeward.security.command.expand.parse import parse_command; "
        "parse_command(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_dry_run_of_such_a_line_asks(tmp_path):
    call = ["check", "shell", json.dumps({"command": CRASHES[1]})]
    around = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "leeward", *call],
        cwd=tmp_path, env=around, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout[:4], done.stderr) == (4, "ask ", "")
