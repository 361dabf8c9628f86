"""Tell in lines what calls changed, from the contents that checkpoints keep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leeward.security.text import visible
from leeward.tools.files import shown_name, unified

if TYPE_CHECKING:
    from leeward.memory.checkpoints import CheckpointStore, Revision, Version

__all__ = ["difference", "differences"]


async def difference(store: CheckpointStore, one: Revision) -> Sequence[str]:
    """Return what changed at a path, and how its lines differ where their contents are kept.

    Raises:
        RecordError: it cannot be read.
    """
    name = shown_name(os.fsdecode(one.path))
    head = f"{name}: {_kinds(one.before, one.after)}"
    if not any(version is not None and version.kind == "file" for version in (one.before, one.after)):
        return [head]
    before, after = await _content(store, one.before), await _content(store, one.after)
    if before == after:
        return [head]
    return [head, *(f"  {visible(line)}" for line in unified(before, after or b"").split("\n")[1:])]


def _kinds(before: Version | None, after: Version | None) -> str:
    if before is None or after is None:
        there = before or after
        word = "" if there is None else there.kind
        return f"new {word}" if before is None else f"deleted {word}"
    if before.kind != after.kind:
        return f"{before.kind} became {after.kind}"
    mode = f", mode {before.mode:o} became {after.mode:o}" if before.mode != after.mode else ""
    kept = "" if before.kind != "file" or (before.digest and after.digest) else ", contents not kept"
    return f"changed {before.kind}{mode}{kept}"


async def _content(store: CheckpointStore, version: Version | None) -> bytes | None:
    return None if version is None or version.digest is None else await store.content(version.digest)


async def differences(store: CheckpointStore, session: str, workspace: str) -> dict[str, list[str]]:
    """Return what each call of a session changed and nobody took back, as lines, by the call.

    Raises:
        RecordError: it cannot be read.
    """
    found: dict[str, list[str]] = {}
    for step in await store.steps(session, workspace):
        if not step.undone:
            for one in await store.revisions(step.id):
                found.setdefault(step.call, []).extend(await difference(store, one))
    return found
