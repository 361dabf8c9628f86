"""`leeward filters`: list the rules for outputs, and try them on the output of a program.

A tried output passes the same filters as in a session, but for the marks around it; nothing is stored.
"""

from __future__ import annotations

from leeward.security import command
from leeward.security.filters import Screened, Source, cap, distill, redact, strip
from leeward.security.kinds import CommandLine, Json
from leeward.security.trust import Origin
from leeward.tools.distill import Engine

from ..console import Startup, look
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer, plain
from .batch_lines import contents_of

__all__ = ["filters"]


async def filters(options: Options, printer: Printer) -> Exit:
    """List the rules, or show what they leave of an output.

    Raises:
        CliError: the configuration, the command line or the file cannot be read.
    """
    start = look(options)
    engine = Engine(start.loaded.filters)
    if options.action == "list":
        return _listed(engine, printer)
    return await _tested(engine, start, options, printer)


def _listed(engine: Engine, printer: Printer) -> Exit:
    rows: list[dict[str, Json]] = []
    for name, rule in engine.rules.rules.items():
        kinds: list[Json] = [strategy.kind for strategy in rule.strategy]
        rows.append(
            {
                "name": name,
                "layer": engine.rules.layers[name],
                "enabled": rule.enabled,
                "on_exit": rule.on_exit,
                "commands": list(rule.match.words),
                "strategies": kinds,
            }
        )
        off = "" if rule.enabled else "  (off)"
        line = f"{name:<16} {engine.rules.layers[name]:<10} {', '.join(map(str, kinds))}{off}"
        printer.answer(f"{plain(line)}\n{'':<17}{plain(', '.join(rule.match.words))}\n")
        printer.event({"schema": 1, "type": "filter", **rows[-1]})
    return printer.finish(Exit.SUCCESS, {"filters": list(rows)})


async def _tested(engine: Engine, start: Startup, options: Options, printer: Printer) -> Exit:
    line = command.parse_command(options.line)
    if not isinstance(line, CommandLine):
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"--as cannot be read as a command line: {line.reason}")
    overflow = start.loaded.config.tools.overflow
    source = Source(
        "shell",
        Origin.WORKSPACE,
        max_bytes=overflow.max_overflow_bytes,
        threshold=overflow.threshold,
        begin=lambda: engine.begin(line),
        exit_code=options.exit_code,
    )
    before = Screened(await contents_of(options.name))
    for step in (cap, strip, redact):
        before = step(before, source)
    after = distill(before, source)
    saved = 1 - len(after.text) / len(before.text) if before.text else 0.0
    answer: dict[str, Json] = {
        "rules": [rule.name for rule in engine.fitting(line)],
        "before": {"characters": len(before.text), "lines": len(before.text.splitlines())},
        "after": {"characters": len(after.text), "lines": len(after.text.splitlines()), "text": after.text},
        "saved": round(saved, 4),
        "notices": list(after.notices),
    }
    printer.answer(after.text)
    printer.end_answer()
    for name, text in (("before", before.text), ("after", after.text)):
        printer.note(f"{name:<7} {len(text)} characters in {len(text.splitlines())} lines")
    printer.note(f"saved   {saved:.0%}")
    printer.note(f"rules   {', '.join(rule.name for rule in engine.fitting(line)) or 'none'}")
    for notice in after.notices:
        printer.note(notice)
    printer.event({"schema": 1, "type": "filtered", **answer})
    return printer.finish(Exit.SUCCESS, answer)
