"""The commands that judge or run one call without a model: `call` and `check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leeward.security.call import Status
from leeward.security.kinds import Json, Runs
from leeward.security.session import TextSeen
from leeward.security.text import visible
from leeward.security.trust import Origin

from ..app import Runtime
from ..console import begin, exit_of_denial, exit_of_result
from ..dry_run import DryRun, DryRunCall, Judged
from ..events import Alert, RunEvent, result_json
from ..exits import Exit, to_json
from ..grounding import given_as_such, places_in
from ..options import Options
from ..printer import Printer
from ..providers.offline import Offline
from ..script import RunPrinter
from .check_batch import run_batch

__all__ = ["call", "check"]


async def call(options: Options, printer: Printer) -> Exit:
    """Run one call through the pipeline, as if a model had asked for it.

    Raises:
        CliError: it could not be judged at all.
    """
    start = begin(options)
    _warn_of_unread(options, printer)
    account = RunPrinter(printer)

    def hear(event: RunEvent) -> None:
        """Under jsonl every event is a line; otherwise only the answer is, and what the person must see."""
        if options.output == "jsonl" or isinstance(event, Alert):
            account.hear(event)

    async with Runtime.open(start.loaded, places=start.places, provider=Offline(), listener=hear) as runtime:
        session = runtime.pipeline.session
        await runtime.pipeline.note(*given_as_such(options.urls, session))
        if options.seen:
            await runtime.pipeline.note(TextSeen(session.now, tuple(map(Origin, options.seen))))
        result = await runtime.call(options.tool, options.arguments)
    code = exit_of_result(result)
    output = result.shown if result.outcome.status is Status.OK else (result.error or {}).get("output")
    if isinstance(output, str):
        printer.answer(output)
        printer.end_answer()
    data = result_json(result) if code is Exit.SUCCESS else None
    error = result.error if code is not Exit.SUCCESS else None
    if error is not None and "gate" in error and "suggestion" not in error and printer.is_text:
        why = f"leeward audit why {result.call.id}"
        error = {**error, "suggestion": "leeward tools" if error["gate"] == "known" else why}
    return printer.finish(code, data, error, session=runtime.session_id, call=result.call.id)


def _warn_of_unread(options: Options, printer: Printer) -> None:
    for text in options.urls:
        if not places_in(text):
            printer.warn(f"--url {text}: this cannot be read as a URL, so it permits nothing")


async def check(options: Options, printer: Printer) -> Exit:
    """Say what would be decided about a call, or about each of a batch; nothing runs, nothing is written.

    Raises:
        CliError: it could not be judged at all.
    """
    if options.batch is not None:
        return await run_batch(options, printer)
    dry = DryRun(begin(options, works=False), Runs(options.rung) if options.rung else None)
    _warn_of_unread(options, printer)
    seen = frozenset(map(Origin, options.seen))
    asked = DryRunCall(options.tool, options.arguments, urls=tuple(options.urls), seen=seen)
    judged = await dry.judge(asked)
    code = _exit(judged)
    if printer.is_text:
        printer.answer("".join(f"{line}\n" for line in _lines(judged)))
        return code
    data = judged.as_json()
    printer.event({"schema": 1, "type": "decision", **data})
    return printer.finish(code, data, judged.error)


def _exit(judged: Judged) -> Exit:
    if judged.decision == "allow":
        return Exit.SUCCESS
    return exit_of_denial(judged.code or "")


def _lines(judged: Judged) -> Iterator[str]:
    """Yield a decision as lines for people."""
    if judged.decision == "allow":
        runs = {Runs.TRIAL: " (trial run)", Runs.READ_ONLY: " (read-only run)"}
        how = runs.get(judged.runs, "") if judged.runs is not None else ""
        yield f"allow{how}, answered by {judged.rule}" if judged.rule else f"allow{how}"
        yield from (f"{what}: {visible(files)}" for what, files in judged.lapsed)
    elif judged.decision == "ask":
        yield from (f"ask {gate}: {question}" for gate, question in judged.asks)
    else:
        yield f"deny {judged.gate} ({judged.rule}): {judged.reason}"
    error = judged.error or {}
    faults = _objects(error.get("errors")) or ([error] if "rejected_pattern" in error else [])
    if faults:
        yield from (f"  {_fault(each)}" for each in faults)
        return
    facts = _objects(error.get("facts"))
    yield from (f"  {_shown(fact['name'])}: {_shown(fact['value'])}" for fact in facts)
    if "suggestion" in error:
        yield f"suggestion: {_shown(error['suggestion'])}"
    elif judged.rule == "not_provided":
        yield "suggestion: --url URL, if it is one that the person gave"


def _objects(value: Json) -> list[Mapping[str, Json]]:
    """Return the objects in a list of JSON; what is no list holds no objects."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [one for one in value if isinstance(one, Mapping)]


def _fault(error: Mapping[str, Json]) -> str:
    """Name a bad argument, the pattern or schema error found in it, and a value that would pass."""
    where = _shown(error.get("argument", error.get("pointer", ""))) or "arguments"
    why = _shown(error.get("rejected_pattern", error.get("message")))
    meant = f"; suggestion: {_shown(error['suggestion'])}" if "suggestion" in error else ""
    return f"{where}: {why}{meant}"


def _shown(value: Json) -> str:
    return visible(value) if isinstance(value, str) else to_json(value)
