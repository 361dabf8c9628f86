"""The key of the audit's hashes is created once, is private, and blocks nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leeward.memory.audit import hash_key
from leeward.memory.audit.key_files import FILE
from leeward.security.ports import RecordError


def test_it_is_made_once_and_closed(tmp_path: Path) -> None:
    key = hash_key(tmp_path / "data")
    assert len(key) == 32 and hash_key(tmp_path / "data") == key
    assert (tmp_path / "data" / FILE).stat().st_mode & 0o777 == 0o600
    assert hash_key(tmp_path / "other") != key


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: os.mkfifo(path, 0o600), "is damaged"),
        (lambda path: path.touch(0o600), "is damaged"),
        (lambda path: path.write_bytes(b"x" * 33) and path.chmod(0o600), "is damaged"),
        (lambda path: path.write_bytes(b"x" * 32) and path.chmod(0o640), "may be read by others"),
        (Path.mkdir, "cannot be used"),
    ],
)
def test_what_is_no_key_is_told(tmp_path: Path, spoil: Callable[[Path], object], why: str) -> None:
    spoil(tmp_path / FILE)
    with pytest.raises(RecordError, match=why):
        hash_key(tmp_path)
