"""When the disk fails: no effect without a record, nothing partial, and recovery afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

# Of each call of the system some: in the making of the file, in the middle of records, over and over.
SOME = {
    "pwrite64": ("3..5", "140..143", "250..278+7"),
    "fdatasync": ("2..4", "14..30+2"),
}


@pytest.fixture(scope="module")
def faults(script) -> ModuleType:
    return script("fuzz/faults.py")


@pytest.mark.parametrize("fault", ["size", "pages", "locked", "read-only"])
def test_what_fails_everywhere(faults: ModuleType, fault: str) -> None:
    assert fault in faults.EVERYWHERE
    problems, hit = faults.found_by(fault)
    assert problems == []
    assert hit >= 3, "calls were refused because of it"


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EINTR"])
@pytest.mark.parametrize("call", SOME)
def test_what_the_system_says(faults: ModuleType, call: str, error: str) -> None:
    """Here some; `make crash` lets every single one fail."""
    if not faults.has_strace():
        pytest.skip("strace is not there, or may not be used: only it makes a call of the system fail")
    assert (call, error) in faults.INJECTED
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda when: faults.found_by(f"{call}:{error}", when), SOME[call]))
    assert [problem for problems, _ in found for problem in problems] == []
    if (call, error) != ("pwrite64", "EINTR"):
        assert all(hit for _, hit in found), "SQLite only goes on by itself where a write was interrupted"


def test_what_is_looked_for_is_found(faults: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "effects").mkdir()
    for name, decided in (("c0", "1"), ("c1", "0"), ("c2", "1")):
        (tmp_path / "effects" / name).write_text(decided)
    told = [{"call": f"c{number}", "status": "ok", "text": ""} for number in range(faults._CALLS)]
    told[2] |= {"status": "denied", "text": "x refused: …\ngate: audit (unrecorded)"}
    told[4] |= {"status": "error", "text": "a bug"}
    found = "\n".join(faults._wrong(tmp_path, told))
    for expected in (
        "c1 ran, and its decision could not be read",
        "c2 is told as refused, and ran",
        "c3 is told as done, and was not",
        "c4 failed for another reason: a bug",
        "it did not work again when the disk did",
    ):
        assert expected in found
    assert "c0" not in found
    assert "it did not make all its calls" in "\n".join(faults._wrong(tmp_path, told[1:]))
