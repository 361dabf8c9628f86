"""Hold the style figures on standard input against their bars; print both, exit 1 where one falls short."""

from __future__ import annotations

import json
import sys

AT_MOST = {
    "fn_code_p90": 20,
    "fn_len_max": 60,
    "nesting_max": 4,
    "file_max": 600,
    "params_max": 8,
    "class_methods_max": 15,
    "cycles": 0,
    "comment_echo_pct": 3,
    "broad_except_swallowing": 3,
    "any_per_kloc": 4,
}
AT_LEAST = {"annotated_pct": 100}


def main() -> int:
    """Print one line for each figure; return how the process ends."""
    figures = json.load(sys.stdin)
    short = 0
    for bars, sign in ((AT_MOST, "at most"), (AT_LEAST, "at least")):
        for name, bar in bars.items():
            value = figures[name]
            misses = value > bar if sign == "at most" else value < bar
            where = f"  ({figures[f'{name}_at']})" if f"{name}_at" in figures else ""
            print(f"{'SHORT' if misses else 'ok':5}  {name} = {value}, {sign} {bar}{where}")
            short += misses
    if figures["generic_modules"]:
        print(f"SHORT  modules with a name that says nothing: {figures['generic_modules']}")
        short += 1
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
