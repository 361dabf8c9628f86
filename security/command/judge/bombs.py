"""Does a line start itself, or something, without end?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..expand import visits
from ..syntax import Compound, Node, Word

__all__ = ["bomb", "functions", "looks_like_bomb"]

_SPREADS = frozenset({"pipeline", "start of a pipeline", "background"})
_ENDLESS = {"while": frozenset({"true", ":"}), "until": frozenset({"false"})}
_SLOWS = frozenset("sleep wait break exit return read".split())
_NAME = r"[^\s(){};|&<>$'\"`]"
_TEXT = re.compile(
    rf"(?<!{_NAME})(?P<name>{_NAME}{{1,64}})\s{{0,8}}(?:\(\s{{0,8}}\)\s{{0,8}})?[{{(]\s{{0,8}}(?P=name)\s{{0,8}}(?:\|&?|&)"
    rf"\s{{0,8}}(?P=name)(?!{_NAME})"
)


def bomb(parts: list[Node]) -> bool:
    """Whether functions among these nodes call each other without end, or an endless loop starts more."""
    calls = {
        function.name: {
            (visit.command.name, not _SPREADS.isdisjoint(visit.context)) for visit in visits(function)
        }
        for function in functions(parts)
    }
    return any(_spreads_to_itself(name, calls) for name in calls) or any(map(_floods, parts))


def functions(parts: list[Node]) -> Iterator[Compound]:
    """Yield the functions among the nodes of a line."""
    return (node for node in parts if isinstance(node, Compound) and node.kind == "function")


def looks_like_bomb(text: str) -> bool:
    """Whether a text that was not read defines a function that calls itself twice."""
    return _TEXT.search(text) is not None


def _spreads_to_itself(start: str, calls: dict[str, set[tuple[str, bool]]]) -> bool:
    """Whether a function comes back to itself by calls of which one goes on beside the others."""
    waiting, seen = [(start, False)], set[tuple[str, bool]]()
    while waiting:
        name, spread = waiting.pop()
        for called, spreads in calls[name]:
            reached = (called, spread or spreads)
            if reached == (start, True):
                return True
            if called in calls and reached not in seen:
                seen.add(reached)
                waiting.append(reached)
    return False


def _floods(node: Node) -> bool:
    """Whether a loop without end puts something into the background and never waits."""
    if not isinstance(node, Compound) or node.kind != "while":
        return False
    parts = [piece for piece in node.pieces if not isinstance(piece, (str, Word))]
    head = [visit.command for visit in visits(parts[0])] if parts else []
    body = [visit for part in parts[1:] for visit in visits(part)]
    is_endless = all(command.name in _ENDLESS.get(str(node.pieces[0]), ()) for command in head)
    starts = any("background" in visit.context for visit in body)
    return is_endless and starts and not _SLOWS & {visit.command.name for visit in body}
