"""Events of a session: each is recorded, and a session is a fold over them.

The fold is in `state.py`, the values within a decision in `evidence.py`, the JSON form in the audit in
`memory/audit/events.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Self, TypeAlias

from ..call import Status
from ..kinds import Json, Runs
from ..lazy import dataclass
from ..outcome import Category
from ..policy import Autonomy
from ..trust import Origin, TrustLevel
from ..url import Known, Provenance, parse_place
from .evidence import ActionRecord, GateVerdict
from .grant import Grant, GrantEntry

__all__ = [
    "COUNTING",
    "THE_PERSON",
    "Asked",
    "AutonomySet",
    "BreakerReset",
    "Configured",
    "ConversationCleared",
    "Decided",
    "Egress",
    "Event",
    "FilesEndorsed",
    "Finished",
    "Granted",
    "JobChanged",
    "LevelSet",
    "ModelSet",
    "RefusedAnswer",
    "Restored",
    "Resumed",
    "Revoked",
    "ServerAsked",
    "SkillUsed",
    "TextSeen",
    "TurnStarted",
    "UrlsAdded",
    "UrlsRemoved",
    "Use",
    "WordsGiven",
]


COUNTING = 1
"""The rules by which denials and failures count today; 0 are those of records that do not name any."""

THE_PERSON = "the person"
"""The approver where a person answered a question; who answered others beforehand follows behind `;`."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message of the person: a turn begins. Times are seconds since the epoch, everywhere below.

    `turn` counts the turns of the conversation from 1; it is 0 in records of earlier releases.
    """

    at: float
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session was taken up again after it had ended, however it had.

    `lapsed` tells that the workspace or the configuration is another one than before.
    """

    at: float
    lapsed: bool


@dataclass(frozen=True, slots=True)
class _OfPlaces:
    """URLs and destinations by their canonical texts, which alone are recorded and compared.

    `places` are the parsed ones that the event was made of; one read from a record parses its texts, once.
    """

    at: float
    urls: tuple[str, ...]
    _places: tuple[Known, ...] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def places(self) -> tuple[Known, ...]:
        """The values of the texts; one that cannot be read any more grounds nothing."""
        if self._places is None:
            self._keep(place for place in map(parse_place, self.urls) if place is not None)
        return self._places or ()

    def _keep(self, places: Iterable[Known]) -> Self:
        object.__setattr__(self, "_places", tuple(places))
        return self


@dataclass(frozen=True, slots=True)
class UrlsAdded(_OfPlaces):
    """URLs and destinations became known, in canonical form, and how."""

    provenance: Provenance

    @classmethod
    def of(cls, at: float, places: Sequence[Known], provenance: Provenance) -> Self:
        """Return the event by which these become known."""
        return cls(at, tuple(place.text for place in places), provenance)._keep(places)


@dataclass(frozen=True, slots=True)
class UrlsRemoved(_OfPlaces):
    """`/browse --forget`: these URLs or destinations are known no longer, however they became known."""

    @classmethod
    def of(cls, at: float, places: Sequence[Known]) -> Self:
        """Return the event by which these are forgotten."""
        return cls(at, tuple(place.text for place in places))._keep(places)


@dataclass(frozen=True, slots=True)
class WordsGiven:
    """The person's words, as keyed hashes: `negated` are those of sentences that say no, `marked` short ones.

    They are a yes in this turn where they are its `own`; `acts` is what they ask to be done.
    """

    at: float
    values: str
    negated: str = ""
    marked: str = ""
    own: bool = False
    acts: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """What a call that may run does with values; they and paths are keyed hashes (`provenance/values.py`).

    `values` nobody had given or shown before, `written` are the paths it writes, `above` the folders these
    lie in. `executes`: what it brings back is the output of something it ran. `let_out` are the keyed marks
    of pieces of secrets that it carries outward, `sent` that of its tool and those it sends to.
    """

    values: str = ""
    written: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    executes: bool = False
    let_out: tuple[str, ...] = ()
    sent: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return it in the form of a record."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True)
class ConversationCleared:
    """`/clear`: conversation, URLs, labels, grants of the session and repeat counters are gone."""

    at: float


@dataclass(frozen=True, slots=True)
class TextSeen:
    """Text of these origins reached the model; `marks` are the fingerprints of private values in it.

    `values` are the keyed hashes of its tokens (`provenance/values.py`), where it makes values known: then
    `origin` is whose words it is, `source` what it was (a tool, a file), `by` which call brought it. With
    `private` the text was confidential; its tokens are there whatever it makes known, which `shows` tells.
    `suspicion` names what in it looks like orders to an assistant; nothing is decided by that.
    """

    at: float
    labels: tuple[Origin, ...]
    marks: tuple[str, ...] = ()
    values: str = ""
    origin: Origin | None = None
    source: str = ""
    by: str = ""
    suspicion: tuple[str, ...] = ()
    private: bool = False
    shows: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A call waits for a person; it is booked already. `of` is as in `Decided`."""

    at: float
    call: str
    tool: str
    digest: str
    questions: tuple[tuple[str, str], ...] = ()
    of: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """A call was allowed or denied.

    `digest` is the keyed hash of the tool and its arguments, `arguments` the redacted canonical JSON,
    `reading` what they were read as, and `words` the answer of every gate at `judged`, with the
    `labels` and the `trust` (and where it came from) of that moment. `asker` is who asked for the call,
    and `model` who answered then, if that was it. `approver` names the rule, grant, autonomy level or
    person that answered the Asks, or "nobody" where an Ask found none; `grants` are the ids of the grants
    among them; `waited` is how many seconds the question was open, and `always` the rules that the answer
    "always" would have been, each with the folder it would hold in (None: the workspace's root) and, for
    what a trial run changed, a pattern of the command that ran.
    `hop` is not 0 where the decision is about a redirect, or a second try, of a call that runs: such a
    decision neither books a call nor counts as a refusal of one. `led` is then the URL that was known for
    this one request because it was led to. `runs` is what command lines run in, and `rung` the strictest
    that could be had; what was written before either was recorded ran for real. With `overlay` what they
    changed of the workspace was held apart until they had ended. `hosts` are the rules for what they may
    reach, where they have no network, `lends` the secrets they are lent and to what (`NAME to PROGRAM`).
    `of` is the call whose run changed what the decision is about: such a decision counts as little as one
    about a redirect. `use` is what a call that was allowed does with values, None where that is nothing.
    """

    at: float
    call: str
    tool: str
    digest: str
    allowed: bool
    gate: str | None = None
    rule: str = ""
    code: str = ""
    reason: str = ""
    category: Category | None = None
    arguments: str = ""
    words: tuple[GateVerdict, ...] = ()
    approver: str = ""
    hop: int = 0
    grants: tuple[str, ...] = ()
    judged: float = 0.0
    waited: float = 0.0
    asker: str = ""
    model: str = ""
    labels: tuple[Origin, ...] = ()
    trust: str = ""
    trust_from: str = ""
    always: tuple[tuple[str, str | None, str | None, str | None], ...] = ()
    led: str = ""
    reading: ActionRecord | None = None
    runs: Runs = Runs.REAL
    rung: Runs = Runs.REAL
    of: str = ""
    overlay: bool = False
    use: Use | None = None
    hosts: tuple[str, ...] = ()
    lends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Egress:
    """An attempt to open a URL: once when it was decided, and once more when it had `ended`.

    `hop` counts the attempts of a call from 0. `url` is canonical, its secrets masked; `rule` is what
    allowed or refused it. The rest is reported by the client, and present only where it ended;
    sizes are bytes on the wire.
    """

    at: float
    call: str
    tool: str
    hop: int
    url: str
    allowed: bool
    gate: str | None = None
    rule: str = ""
    ended: bool = False
    method: str = ""
    address: str = ""
    http_status: int | None = None
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """A call that was allowed came to an end.

    `result` is the keyed hash of what came back, redacted; `size` is its bytes, `truncated` tells that
    the model was shown less than that, and `overflow` names the whole where it was stored. `caches` counts
    the paths of caches that a trial run changed, which are never kept. `chars_in` are the characters that
    its tool brought, `chars_out` those of them the model was shown.
    """

    at: float
    call: str
    tool: str
    digest: str
    status: Status
    category: Category | None = None
    exit_code: int | None = None
    result: str = ""
    size: int = 0
    overflow: str | None = None
    seconds: float = 0.0
    detail: str = ""
    truncated: bool = False
    caches: int = 0
    chars_in: int = 0
    chars_out: int = 0


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A command that a call left running began, or came to its end.

    `state` is "running", or how it ended: "ended", "stopped", "timeout" or "failed"; `detail` says more of
    that. `size` is the characters it printed, `overflow` names them where they are kept.
    """

    at: float
    call: str
    job: str
    state: str
    exit_code: int | None = None
    seconds: float = 0.0
    size: int = 0
    overflow: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """The person took back what a call had changed in the workspace ("undo"), or did it again ("redo").

    Recorded before anything is touched, with the number of `paths`, and once more when it was `done`;
    `left` then tells how many stayed as they were. `forced`: what had changed since were no obstacle.
    """

    at: float
    call: str
    step: int
    direction: str
    paths: int
    done: bool = False
    left: int = 0
    forced: bool = False


@dataclass(frozen=True, slots=True)
class FilesEndorsed:
    """The person took the labels off files, relative to the workspace: what they hold is theirs from here on.

    `cause` says how; "" in the place of a path is all of the workspace.
    """

    at: float
    files: tuple[str, ...]
    cause: str


@dataclass(frozen=True, slots=True)
class LevelSet:
    """A tool's trust level changed for this session, by `/trust` or by the anomaly window.

    `definition` is the one of the tool it is about: for another one, it can only weaken what holds.
    """

    at: float
    tool: str
    level: TrustLevel
    cause: str
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """The person's "always"; in a record the fields of the grant are beside those of the event.

    `call` is the one it was given in answer to, `workspace` the only one it holds in. A `stored` one was
    given in an earlier session and is only taken in.
    """

    at: float
    grant: Grant
    workspace: str | None = None
    call: str | None = None
    stored: bool = False

    @classmethod
    def taken_in(cls, entry: GrantEntry, now: float) -> Granted:
        """Return the event by which a session takes in a grant that outlived another."""
        return cls(now, entry.grant, entry.workspace, stored=True)

    @property
    def tool(self) -> str:
        """The tool it is about, by which its record is found."""
        return self.grant.tool


@dataclass(frozen=True, slots=True)
class Revoked:
    """The person took a grant back: it answers nothing more, in this session or a later one."""

    at: float
    id: str


@dataclass(frozen=True, slots=True)
class BreakerReset:
    """`/trust reset`: the breaker starts counting anew."""

    at: float


@dataclass(frozen=True, slots=True)
class ModelSet:
    """Another model answers from here on: `cause` says whether the person chose it or it is a fallback."""

    at: float
    model: str
    cause: str


@dataclass(frozen=True, slots=True)
class AutonomySet:
    """The person switched how much is done without asking, for as long as this session is at work."""

    at: float
    autonomy_now: Autonomy
    cause: str


@dataclass(frozen=True, slots=True)
class SkillUsed:
    """The model follows a skill from now on, or none any more where `skill` is "".

    `digest` is that of its folder. `uses` are the tools it names, each with a pattern of what it calls them
    for or None; None where it names none, and so narrows nothing.
    """

    at: float
    skill: str
    digest: str = ""
    uses: tuple[tuple[str, str | None], ...] | None = None


@dataclass(frozen=True, slots=True)
class ServerAsked:
    """A server asked the person for something in the middle of a call.

    `wants` is "values" or "model", `message` its words, `answer` as for a question of a call. What
    the person typed is the server's, and not kept.
    """

    at: float
    call: str
    server: str
    wants: str
    message: str
    answer: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """An answer to a question that came from elsewhere, over HTTP for one, did not count.

    `why` is "replayed", "late", "altered", "unknown" or "malformed". `call` is the one that was asked about,
    None where no question is known for the answer; `digest` is the hash of the question as it was shown,
    `how` says who gave the answer.
    """

    at: float
    call: str | None
    why: str
    digest: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class Configured:
    """Under which configuration a session goes on.

    `digest` is the hash of all values, `files` were read, and `sources` are (key, where it was set) of
    each that is not the default. What else judging rests on is beside it: folders, whether anybody
    can be asked, and which gates are switched off. `counting` is as in `Session`; a record that does not
    say was written under the rules 0.
    """

    at: float
    digest: str
    files: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    autonomy: str = ""
    workspace: str = ""
    home: str = ""
    headless: bool = False
    off: tuple[str, ...] = ()
    counting: int = COUNTING


Event: TypeAlias = (
    TurnStarted
    | Resumed
    | UrlsAdded
    | UrlsRemoved
    | ConversationCleared
    | TextSeen
    | WordsGiven
    | Asked
    | Decided
    | Egress
    | Finished
    | JobChanged
    | Restored
    | FilesEndorsed
    | LevelSet
    | Granted
    | Revoked
    | BreakerReset
    | ModelSet
    | AutonomySet
    | SkillUsed
    | ServerAsked
    | RefusedAnswer
    | Configured
)
