"""Find the lines no filter may drop: failures, what they refer to, and the final status.

The patterns are held against a whole block of lines at once, by RE2 in linear time. They know words that
programs of all kinds use, never a program: a rule for one program cannot forget them.
"""

from __future__ import annotations

from collections.abc import Iterator

from leeward.memory.patterns import LinearPattern, line_pattern, linear_pattern

__all__ = [
    "changed_lines",
    "find_important",
    "important_lines",
    "matching_lines",
    "reference_lines",
    "warning_lines",
]

# A word of its own: not a part of a path, of an option or of a name (`thiserror`, `errors.py`).
_BEFORE = r"(?:^|[^\w/.-])"
_AFTER = r"(?:$|[^\w:./-]|[:.]+(?:$|[^\w:./-])|:[\w./-]|-(?:$|\s))"
_WORDS = (
    r"err(?:or(?:s|ed)?|s)?|erroneous|fail(?:s|ed|ing|ures?)?|fatal|panic(?:s|k?ed|king)?|exceptions?|traceback"
    r"|assert(?:s|ed|ions?)?|abort(?:s|ed|ing)?|crash(?:es|ed)?|segfault|segmentation\s+fault|bus\s+error"
    r"|core\s+dumped|backtrace|stack\s*trace|stack\s+overflow|out\s+of\s+memory|oom(?:-?killed)?|deadlock(?:ed)?"
    r"|denied|refused|forbidden|unauthori[sz]ed|not\s+(?:authori[sz]ed|permitted|allowed)|reject(?:s|ed)?"
    r"|disallowed|prohibited|violat(?:es|ed|ions?)|blocked|unreachable|unavailable|unhealthy|timed?[\s-]?out"
    r"|unable|cannot|can't|could(?:n't|\s+not)|won't|not\s+(?:found|supported|possible|ok|an?|defined|installed)"
    r"|not\s+(?:recogni[sz]ed|available|implemented|exist|valid|enough|accessible|writable|readable|running)"
    r"|not\s+(?:assignable|known|reachable|match)|read-only|busy|in\s+use|incorrect|unknown\s+\w+|crit"
    r"|detached|diverged|clobber(?:ed)?|roll(?:ed)?\s?back|bail\s+out|smashing|data\s+race|evicted|deny|denies"
    r"|no\s+(?:rule|such|match\w*|space|route|module|valid|suitable|solution|access|permission)|non-?zero"
    r"|exceed(?:s|ed)?|too\s+(?:many|large|long|few)|reset\s+by|disconnected|hung|stalled|does(?:n't|\s+not)\s+\w+|missing|invalid|illegal|malformed|undefined|unresolved"
    r"|unexpected|unhandled|uncaught|unrecogni[sz]ed|unsatisf\w+|mismatch(?:es|ed)?|incompatible"
    r"|conflict(?:s|ed|ing)?|corrupt(?:s|ed|ion)?|broken|bad|wrong|lost|killed|terminated|interrupted"
    r"|critical|severe|emerg(?:ency)?|alert|oops|cve-\d+-\d+|ghsa-[\w-]+|vulnerab\w+|securit(?:y|ies)"
    r"|insecure|unsafe|malware|malicious|compromised|exploit(?:s|ed|able)?|leak(?:s|ed)?|expos(?:ed|ure)"
    r"|danger(?:ous)?|attack(?:s|ed|er)?|suspicious|tamper\w*|injection|backdoor|credentials?|plaintext"
    r"|fehler\w*|fehlgeschlagen|erreurs?|échec|errores|fallo|untrusted|unverified|self[\s-]signed|hard-?coded|expired|revoked|undefined\s+reference|multiple\s+definition"
    r"|ld\s+returned|exit(?:ed)?\s+with|regression|overflow(?:ed)?|signal\s*:?\s*\d+"
    r"|(?:exit(?:\s+(?:status|code))?|return\s+(?:status|code))\s*[:=]?\s*-?\d+|status\s*[:=]?\s*-?[1-9]\d*"
)
_FORMS = (
    rf"(?i:{_BEFORE}(?:{_WORDS}){_AFTER})",
    # A part of a name counts before a message: `build_error: …`, `ValueError: …`.
    r"(?i:(?:error|err|fail\w*|fatal|panic\w*|exception|denied|assert\w*)\w*[\])]?[:=!](?:$|[^:]))",
    r"[A-Za-z]\w*(?:Error|Exception|Failure|Fault|Panic|NotFound|Interrupt|Sanitizer|Rejection\w*|Back[Oo]ff)(?:$|[^\w:./-]|:(?:$|[^:])|\.(?:$|\s))",
    r"(?:^|\W)(?:ERR|ERROR|FATAL|CRITICAL|PANIC|DENY|BLOCK|FAIL|FAILED|FAILURE|FAILURES|DENIED)(?:$|[^\w.-])",
    r"(?:^|\W)BUG(?:\s+(?:at|in)\s|:)",
    r"\b(?:ERR_[A-Z_]+|E(?:NOENT|ACCES|PERM|EXIST|NOSPC|PIPE|IO|NOMEM|RESOLVE|INTEGRITY|INVAL)|errno)\b",
    r"\b(?:E(?:NOTFOUND|TIMEDOUT|ADDRINUSE|CONN[A-Z]+|AI_AGAIN|BADENGINE|OTP|USAGE)|SIG[A-Z]{3,6})\b",
    r"\bTS\d{4}:|\b(?:rc|code|status)=-?[1-9]|\breturned -?[1-9]|\b[Hh]as changed!|HAS CHANGED!|^\s*×",
    r"^\s*(?:Expected|Received|Actual|expected|actual|got|want)\b.*:",
    r"ошибк|错误|失败|エラー|失敗|오류",
    # Marks of test runners, compilers, package managers and traces.
    r"^E(?:   |:? )|^W: |^FAIL\b|^---? FAIL|^\s*not ok\b|[✗✘✖✕❌⨯]|^\s*[●‼⚠]|^\*\*\*|\*\*\* \[",
    r"^\s*\^[\^~]*\s*$|^goroutine \d+|^thread '.*' |^[Cc]aused by|^\s*\.\.\. \d+ more$|HTTP/[\d.]+ [45]\d\d",
    # What a program prints in the end.
    r"\b\d+\s+(?:passed|failed|failures?|errors?|errored|warnings?|skipped|problems?|issues?)\b",
    r"\b\d+\s+(?:broken|vulnerabilit(?:y|ies)|tests?(?:\s|,)|failing|passing)\b",
    r"^\W*(?:test result|Tests|Test Suites|Test Files|Summary|Results?|BUILD|Finished|Total|Found|Ran)\b",
    r"^(?:added|removed|changed|updated|installed|Successfully|Successfully installed)\b",
    r"^(?:CONFLICT|UU|AA|DD|AU|UA|DU|UD) |\bboth (?:modified|added|deleted)\b",
)
_IMPORTANT = line_pattern("|".join(_FORMS))
_WORD = linear_pattern(f"(?m){'|'.join(_FORMS)}", within_lines=True)
_WARNING = line_pattern(r"(?i:(?:^|[^\w/.-])warn(?:ing|ings)?(?:$|[^\w./-]))")
_FRAMES = tuple(
    map(
        line_pattern,
        (
            r"^\s*File \".+\", line \d+",
            r"^\s*(?:-->|╭─\[|│.*─\[|:::) ?\S+:\d+",
            r"^\s*at .*[:(]\S*:\d+",
        ),
    )
)
_CHANGED = line_pattern(r"^\s*[-+] +\S|^[-+]\S")
_PLACE = line_pattern(r"(?:^|[\s(\"'`\[<=])[^\s:(\"'`\[<]+\.[A-Za-z]\w{0,9}(?::\d+|\(\d+(?:,\d+)?\))")

# Of a long run of references (a trace, a listing) the guard keeps both ends; what comes of the rest is for
# the strategy to say. A trace shows code between its references, which does not end the run.
_RUN = 12
_HEAD, _TAIL = 8, 4
_GAP = 3


def matching_lines(pattern: LinearPattern, block: bytes) -> Iterator[int]:
    """Yield the number, from 0, of each line of a block that matches a pattern of `line_pattern`."""
    number = position = 0
    for match in pattern.finditer(block):
        start = match.start()
        number += block.count(b"\n", position, start)
        position = start
        yield number


def important_lines(block: bytes) -> Iterator[int]:
    """Yield the numbers of lines that speak of a failure, of security, or of how it all ended."""
    return matching_lines(_IMPORTANT, block)


def find_important(line: bytes, start: int, end: int) -> int | None:
    """Return where in a part of a line such words begin, or None."""
    match = _WORD.search(line, start, end)
    return None if match is None else match.start()


def warning_lines(block: bytes) -> Iterator[int]:
    """Yield the numbers of lines that warn."""
    return matching_lines(_WARNING, block)


def reference_lines(block: bytes) -> Iterator[int]:
    """Yield the numbers of lines that name a file and a line; of a long run of these, both ends.

    Frames of each form are a run of their own, as are places in a listing.
    """
    for pattern in (*_FRAMES, _PLACE):
        yield from _ends_of_runs(pattern, block)


def changed_lines(block: bytes) -> Iterator[int]:
    """Yield the numbers of lines that a comparison marks as changed; of a long run of these, both ends."""
    return _ends_of_runs(_CHANGED, block)


def _ends_of_runs(pattern: LinearPattern, block: bytes) -> Iterator[int]:
    run: list[int] = []
    for number in matching_lines(pattern, block):
        if run and number - run[-1] > _GAP:
            yield from _ends(run)
            run = []
        run.append(number)
    yield from _ends(run)


def _ends(run: list[int]) -> list[int]:
    return run if len(run) <= _RUN else [*run[:_HEAD], *run[-_TAIL:]]
