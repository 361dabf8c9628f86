"""`/labels`: the origins read in this session, and where a value was first seen; `--json` for programs.

The session holds keyed hashes only, so a value is asked for by name, and none can be listed. `/labels files`
lists files that hold words of others, from earlier sessions too; `/labels endorse` makes them the person's.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from leeward.memory.changes import ANYTHING, LEFT_OUT
from leeward.security.kinds import Json, Kind
from leeward.security.provenance import Sighting, forms_of
from leeward.security.session import FilesEndorsed
from leeward.security.text import visible
from leeward.security.url import parse_place

if TYPE_CHECKING:
    from leeward.memory.labels import FileLabel
    from leeward.security.session import Session

    from ..app import RuntimeSession

__all__ = ["endorsed", "files_text", "labels_text"]

_ALL = "all"


def labels_text(session: Session, argument: str) -> str:
    """Return the labels with what brought each, or what is known of the value that `argument` is."""
    words = argument.split(" ")
    value = " ".join(word for word in words if word != "--json").strip()
    answer = _of_value(session, value) if value else _of_session(session)
    if "--json" in words:
        return json.dumps(answer)
    return "\n".join(_lines(answer))


async def files_text(runtime: RuntimeSession, argument: str) -> str:
    """Return the labelled files of the workspace, each with whose words it holds and what these came from."""
    rows = (await runtime.labels.store.standing(runtime.pipeline.session.policy.workspace)).paths
    if argument.strip() == "--json":
        files = [{"path": row.path, "labels": sorted(row.labels), "source": row.source} for row in rows]
        return json.dumps({"files": files})
    lines = (f"{_path_of(row)}: {', '.join(sorted(row.labels))}, from {visible(row.source)}" for row in rows)
    return "\n".join(lines) or "no file of this workspace holds words of others"


def _path_of(row: FileLabel) -> str:
    if row.is_anything:
        return "any file"
    return "folders of tools" if row.path == LEFT_OUT else visible(row.path)


async def endorsed(runtime: RuntimeSession, name: str) -> str:
    """Let what a file, a folder or all files hold be the person's from here on, on record, and say so."""
    session, workspace = runtime.pipeline.session, runtime.pipeline.session.policy.workspace
    path = ANYTHING
    if name != _ALL:
        path = posixpath.relpath(posixpath.normpath(posixpath.join(workspace, name)), workspace)
    found = await runtime.labels.endorse(session.policy, (path,))
    if not found:
        return f"{visible(name)} has no label"
    await runtime.pipeline.note(FilesEndorsed(session.now, found, "by /labels endorse"))
    count = len([one for one in found if one != ANYTHING])
    return f"yours from here on: {visible(name)}" + (f", {count} paths" if count > 1 else "")


def _of_session(session: Session) -> dict[str, Json]:
    first: dict[str, Json] = {}
    for sighting in session.values.seen.sightings():
        first.setdefault(str(sighting.origin), _of_sighting(sighting))
    if (last := session.values.untrusted) is not None:
        first.setdefault(str(last.origin), _of_sighting(last))
    labels: list[Json] = [
        {"label": str(label), "first": first.get(str(label))} for label in sorted(session.labels)
    ]
    return {"labels": labels, "tokens": len(session.values.seen), "full": session.values.seen.is_full}


def _of_value(session: Session, value: str) -> dict[str, Json]:
    """Return where a value was first seen, whatever kind it is meant to be."""
    place = parse_place(value) or parse_place(f"https://{value}")
    read = dict.fromkeys((*forms_of(Kind.DESTINATION, value, value), *forms_of(Kind.URL, place, value)))
    known, key = session.values, session.values_key
    sighting = known.seen_in(read, key)
    return {
        "value": value,
        "given": known.is_given(read, key),
        "seen": _of_sighting(sighting) if sighting is not None else None,
        "invented": known.is_invented(read, key),
    }


def _of_sighting(sighting: Sighting) -> dict[str, Json]:
    return {"origin": str(sighting.origin), "source": sighting.label, "call": sighting.call}


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield an answer as a person reads it."""
    if "value" not in answer:
        for label in answer["labels"]:
            yield f"{label['label']}: {_where(label['first']) or 'the output of something that ran'}"
        if not answer["labels"]:
            yield "nothing was read that restricts what calls may do"
        return
    value = visible(answer["value"])
    if answer["given"]:
        yield f"{value}: you gave it"
    if answer["invented"]:
        yield f"{value}: the model used it before anything showed it"
    if answer["seen"] is not None:
        yield f"{value}: first seen in {_where(answer['seen'])}"
    elif not answer["given"]:
        yield f"{value}: nobody gave or showed it"


def _where(first: Mapping[str, str] | None) -> str:
    if first is None:
        return ""
    call = f", call {first['call']}" if first["call"] else ""
    return visible(f"{first['source'] or 'your words'} ({first['origin']}{call})")
