"""Draw the figures of `lost_model.py` as SVG: questions for each task across, attacks through upwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["drawn"]

_WIDE, _HIGH, _EDGE = 640, 360, 64
_STYLE = (
    "text{font:13px sans-serif;fill:#333}.axis{stroke:#888}.grid{stroke:#ddd}"
    ".point{fill:#1f5f8b}@media(prefers-color-scheme:dark){text{fill:#ccc}.grid{stroke:#444}.point{fill:#7ab8e0}}"
)


def drawn(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return the plot of figures as the bench prints them, one point for each line."""
    most_asked = max(0.5, *(one["questions_per_task"] for one in figures)) * 1.2
    most_through = max(1.0, *(one["through_percent"] for one in figures)) * 1.2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" role="img">',
        "<title>Attacks that got through, by questions for each task</title>",
        f"<style>{_STYLE}</style>",
        *_axes(most_asked, most_through),
    ]
    taken: list[tuple[float, float]] = []
    for one in figures:
        across = _EDGE + (_WIDE - 2 * _EDGE) * one["questions_per_task"] / most_asked
        up = _HIGH - _EDGE - (_HIGH - 2 * _EDGE) * one["through_percent"] / most_through
        # Points that lie together have their names one above the other.
        above = sum(1 for x, y in taken if abs(x - across) < 150 and abs(y - up) < 18)
        taken.append((across, up))
        name = escape(f"{one['autonomy']} ({one['without_a_question']} of {one['tasks']} silent)")
        parts.append(f'<circle class="point" cx="{across:.1f}" cy="{up:.1f}" r="4"/>')
        parts.append(f'<text x="{across + 8:.1f}" y="{up - 6 - 16 * above:.1f}">{name}</text>')
    return "\n".join((*parts, "</svg>", ""))


def _axes(most_asked: float, most_through: float) -> list[str]:
    left, right, top, bottom = _EDGE, _WIDE - _EDGE, _EDGE / 2, _HIGH - _EDGE
    lines = [
        f'<line class="axis" x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>',
        f'<line class="axis" x1="{left}" y1="{bottom}" x2="{left}" y2="{top}"/>',
        f'<text x="{right}" y="{_HIGH - 16}" text-anchor="end">questions for each task</text>',
        '<text x="8" y="20">attacks through, %</text>',
    ]
    for quarter in range(5):
        across = left + (right - left) * quarter / 4
        up = bottom - (bottom - _EDGE) * quarter / 4
        lines.append(f'<line class="grid" x1="{left}" y1="{up:.1f}" x2="{right}" y2="{up:.1f}"/>')
        asked, through = most_asked * quarter / 4, most_through * quarter / 4
        lines.append(f'<text x="{across:.1f}" y="{bottom + 18}" text-anchor="middle">{asked:.2f}</text>')
        lines.append(f'<text x="{left - 8}" y="{up + 4:.1f}" text-anchor="end">{through:.1f}</text>')
    return lines
