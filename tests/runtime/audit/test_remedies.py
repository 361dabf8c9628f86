"""Each remedy that `/why` offers is applied for real, and then allows the call."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from leeward.runtime.audit.why import remedies
from leeward.runtime.grounding import given_by
from leeward.security.action import ActionBuilder
from leeward.security.call import Again, Checked, SchemaProblem, Status, ToolCall, ToolSpec
from leeward.security.kinds import KIND_KEY, CommandFacts, Effect, HookAnswer, Runs
from leeward.security.outcome import Category
from leeward.security.permissions import resolve_asks
from leeward.security.pipeline import judge
from leeward.security.policy import (
    Autonomy,
    CallHook,
    CallLimits,
    Policy,
    Rule,
    RuleAction,
    Sandboxing,
    ShellRules,
)
from leeward.security.record.decisions import decided_event as decided
from leeward.security.session import (
    Decided,
    Finished,
    Grant,
    Granted,
    LevelSet,
    Session,
    SkillUsed,
    TurnStarted,
    UrlsAdded,
    apply_events,
)
from leeward.security.trust import TrustLevel
from leeward.security.url import Provenance
from leeward.security.verdict import Allow, Deny

SECURITY = Path(__file__).parents[3] / "security"
KINDS = {"path": "path", "url": "url", "command": "command", "to": "destination"}
LINKS = {"/ws/link": "/ws/.env"}


@dataclass(frozen=True)
class Case:
    """A call that is refused, and where; `fixed` are arguments that are right."""

    arguments: dict
    tool: str = "tool"
    effects: Effect = Effect.READ
    level: TrustLevel = TrustLevel.TRUSTED
    said: tuple[str, ...] = ()
    policy: dict = field(default_factory=dict)
    events: tuple = ()
    fixed: dict | None = None
    again: Again | None = None
    secrets: frozenset[str] = frozenset()
    hooked: tuple[HookAnswer, ...] = ()

    def action(self, session, arguments=None, tool=None):
        properties = {name: {"type": "string", KIND_KEY: kind} for name, kind in KINDS.items()}
        schema = {"type": "object", "properties": properties}
        spec = ToolSpec("tool", "a tool", schema, _checked, self.effects, self.level)
        call = ToolCall("c9", tool or self.tool, json.dumps(arguments or self.arguments))
        draft = ActionBuilder.of(call, {"tool": spec})
        wanted = draft.wanted(session.policy)
        facts = CommandFacts(
            real={path: LINKS.get(path, path) for path in wanted.real},
            matches=dict.fromkeys(wanted.matches, ()),
            programs={name: f"/usr/bin/{name}" for name in wanted.programs},
        )
        paths = {path: LINKS.get(path, path) for path in draft.paths(session.policy)}
        return replace(draft.read(session.policy, paths, facts), again=self.again, hooked=self.hooked)

    def session(self, **policy):
        held = Policy("/ws", "/home/ada", **{**self.policy, **policy})
        session = Session("s", held, secrets=self.secrets)
        given = (UrlsAdded(0.0, self.said, Provenance.PERSON),) if self.said else ()
        return apply_events(session, *given, *self.events)


def _checked(arguments):
    problems = tuple(
        SchemaProblem(f"/{name}", "is no text", Category.TYPE_MISMATCH)
        for name, value in arguments.items()
        if not isinstance(value, str)
    )
    return Checked(arguments, problems)


def rule(action, match=None):
    return Rule("tool", action, match, where="config.toml:3")


def ended(session, number=1):
    """Calls of the same digest that brought the same."""
    digest = CASES["budget repeated"].action(session).digest
    for name in (f"c{one}" for one in range(number)):
        yield Decided(0.0, name, "tool", digest, True)
        yield Finished(0.0, name, "tool", digest, Status.OK, result="r")


URL, HTTP = "https://docs.example.com/a", "http://docs.example.com/a"
WRITE, ALL = Effect.WRITE, Effect.ALL
BLOCKED = LevelSet(0.0, "tool", TrustLevel.BLOCKED, "it failed too often")
ENV = {"path": ".env"}

SECRET = "zk-4Qm9Lx7Tp2Vw8Rb3Ny"

CASES = {
    "leaks known_secret": Case({"x": SECRET}, effects=Effect.SEND, secrets=frozenset({SECRET})),
    "known unknown_tool": Case({"path": "a"}, tool="tol"),
    "known schema": Case({"path": 3}, fixed={"path": "a"}),
    "arguments path_traversal": Case({"path": "../../../x"}, fixed={"path": "a"}),
    "permissions deny tool": Case({"path": "a"}, policy={"rules": (rule(RuleAction.DENY),)}),
    "permissions deny tool a": Case({"path": "a"}, policy={"rules": (rule(RuleAction.DENY, "a"),)}),
    "permissions readonly": Case({"path": "a"}, effects=WRITE, policy={"autonomy": Autonomy.READONLY}),
    "permissions skill": Case({"path": "a"}, events=(SkillUsed(0.0, "s", "d", (("other", None),)),)),
    "anomaly blocked": Case({"path": "a"}, events=(BLOCKED,)),
    "trust blocked": Case({"path": "a"}, level=TrustLevel.BLOCKED),
    "trust blocked by the configuration": Case(
        {"path": "a"}, policy={"levels": {"tool": TrustLevel.BLOCKED}},
    ),
    "trust quarantined": Case({"path": "a"}, effects=WRITE, level=TrustLevel.QUARANTINED),
    "paths unreadable": Case({"path": "a\0"}, fixed={"path": "a"}),
    "paths secret by name": Case(ENV),
    "paths secret by a link to a name": Case({"path": "link"}),
    "paths secret by deny_read": Case({"path": "x/b"}, policy={"deny_read": ("x/**",)}),
    "paths secret by deny_read and name": Case(ENV, policy={"deny_read": (".env",), "allow_read": (".env",)}),
    "paths secret by place": Case({"path": "/home/ada/.ssh/config"}, policy={"allow_read": ("**",)}),
    "paths secret of ours": Case({"path": "/data/x"}, policy={"secret_paths": ("/data",)}),
    "paths secret of the system": Case({"path": "/etc/shadow"}),
    "paths protected": Case({"path": ".git/hooks/x"}, effects=WRITE),
    "paths protected of the system": Case({"path": "/usr/bin/x"}, effects=WRITE),
    "grounding not_provided": Case({"url": URL}, effects=Effect.BRING_IN),
    "grounding not_provided odd": Case(
        {"url": "https://docs.example.com:8443/a(b)?c=d,e#f"}, effects=Effect.BRING_IN,
    ),
    "grounding not_provided destination": Case({"to": "ops@docs.example.com"}, effects=Effect.SEND),
    "grounding unreadable": Case(
        {"url": "https://exa mple"}, effects=Effect.BRING_IN, said=(URL,), fixed={"url": URL},
    ),
    "hosts unreadable": Case(
        {"url": "https://exa mple"}, effects=Effect.BRING_IN, said=(URL,), fixed={"url": URL},
    ),
    "hosts https_only": Case({"url": HTTP}, said=(HTTP,)),
    "hosts refused_host": Case({"url": "https://10.0.0.1/"}, said=("https://10.0.0.1/",)),
    "hosts refused_host of six": Case({"url": "https://[::1]/"}, said=("https://[::1]/",)),
    "hosts refused_host metadata": Case(
        {"url": "https://169.254.169.254/"}, said=("https://169.254.169.254/",),
    ),
    "hosts refused_host by name": Case({"url": "https://localhost/"}, said=("https://localhost/",)),
    "hosts refused_host of a repository": Case({"to": "git@router.local:a/b"}, effects=Effect.SEND),
    "hosts domain_denylist": Case(
        {"url": URL}, said=(URL,), policy={"domain_denylist": ("docs.example.com",)},
    ),
    "hosts domain_allowlist": Case(
        {"url": URL}, said=(URL,), policy={"domain_allowlist": ("other.example",)},
    ),
    "hosts domain_allowlist address": Case(
        {"url": "https://8.8.8.8/"}, said=("https://8.8.8.8/",), policy={"domain_allowlist": ("a.example",)},
    ),
    "hosts domain_denylist of a command": Case(
        {"command": "curl https://docs.example.com/a"}, effects=ALL,
        policy={"domain_denylist": ("docs.example.com",)},
    ),
    "commands destructive": Case({"command": "rm -rf /"}, effects=ALL),
    "commands blocked": Case(
        {"command": "git push origin"}, effects=ALL, policy={"shell": ShellRules(blocked=("git push",))},
    ),
    "hosts readonly": Case(
        {"command": "curl https://a.example/"}, effects=ALL,
        policy={"autonomy": Autonomy.READONLY, "sandbox": Sandboxing(rung=Runs.TRIAL)},
    ),
    "commands readonly": Case(
        {"command": "ping a.example"}, effects=ALL,
        policy={"autonomy": Autonomy.READONLY, "sandbox": Sandboxing(rung=Runs.TRIAL)},
    ),
    "commands secret by name": Case({"command": "cat .env"}, effects=ALL),
    "commands secret by place": Case({"command": "cat /home/ada/.ssh/id_rsa"}, effects=ALL),
    "commands secret by deny_read": Case(
        {"command": "cat x/b"}, effects=ALL, policy={"deny_read": ("x/**",)},
    ),
    "commands metadata": Case({"command": "curl http://169.254.169.254/"}, effects=ALL),
    "budget readonly": Case(
        {"command": "make"}, effects=ALL, again=Again("it wrote too much"),
        policy={"autonomy": Autonomy.READONLY, "sandbox": Sandboxing(rung=Runs.TRIAL)},
    ),
    "budget calls_per_session": Case({"path": "a"}, policy={"calls": CallLimits(per_session=0)}),
    "budget calls_per_turn": Case({"path": "a"}, policy={"calls": CallLimits(per_turn=0)}),
    "hooks denied": Case(
        {"path": "a"}, policy={"hooks": (CallHook("guard"),)},
        hooked=(HookAnswer("guard", "deny", "not on Fridays"),),
    ),
    "hooks failed": Case(
        {"path": "a"}, policy={"hooks": (CallHook("guard"),)},
        hooked=(HookAnswer("guard", reason="it ended with 3", failed=True),),
    ),
    "budget repeated": Case({"path": "a"}, policy={"calls": CallLimits(repeats=1)}, fixed={"path": "b"}),
}  # fmt: skip


def refusals(case, session, action):
    """Return what gates refuse and how, and what is said of it afterwards."""
    if case is CASES["budget repeated"]:
        session = apply_events(session, *ended(session))
    decision = judge(action, session)
    event = decided(session, action, decision, "")
    return event, {
        (word.gate, word.verdict.rule) for word in decision.answers if isinstance(word.verdict, Deny)
    }


def fact(said, *names):
    return next((value for name, value in said.facts if name in names), "")


def named(case, said):
    session = case.session()
    text = fact(said, "url", "destination")
    return case.action(session), apply_events(
        session, *given_by(f"open {text} please", Provenance.PERSON, session)
    )


def by_policy(**changed):
    def apply(case, said):
        fields = {name: value(said) for name, value in changed.items()}
        session = case.session(**fields)
        return case.action(session), session

    return apply


def by_arguments(case, said):
    session = case.session()
    return case.action(session, case.fixed or case.arguments), session


def by_event(event):
    def apply(case, said):
        session = case.session()
        return case.action(session), apply_events(session, event)

    return apply


def network(said):
    host = fact(said, "host", "destination").strip("[]")
    return (
        (f"{host}/128" if ":" in host else f"{host}/32",) if re.fullmatch(r"[0-9.]+|[0-9a-f:]+", host) else ()
    )


def right_tool(case, said):
    session = case.session()
    return case.action(session, tool="tool"), session


REMEDIES = {
    "call a tool that exists": right_tool,
    "pass arguments that fit": by_arguments,
    "write the value without that pattern": by_arguments,
    "pass a path that can be read": by_arguments,
    "pass a URL that can be read": by_arguments,
    "make another call: this one": by_arguments,
    "choose another autonomy than readonly": by_policy(autonomy=lambda _: Autonomy.SUPERVISED),
    "/skill off": by_event(SkillUsed(0.0, "")),
    "narrow or remove that rule": by_policy(rules=lambda _: ()),
    "/trust TOOL LEVEL": by_event(LevelSet(0.0, "tool", TrustLevel.TRUSTED, "the person")),
    "(tools.file.allow_read": by_policy(allow_read=lambda said: (fact(said, "path", "namely"),)),
    "(tools.file.deny_read": by_policy(deny_read=lambda _: ()),
    "write it in a message": named,
    "use https, or add the host to the list": by_policy(allow_http=lambda said: (fact(said, "host"),)),
    "(tools.fetch.allow_networks": by_policy(allow_networks=network),
    "remove the host from the list (tools.fetch.domain_denylist": by_policy(domain_denylist=lambda _: ()),
    "add the host to the list (tools.fetch.domain_allowlist": by_policy(
        domain_allowlist=lambda said: (fact(said, "host"),)
    ),
    "empty the list: while it has entries": by_policy(domain_allowlist=lambda _: ()),
    "(tools.shell.blocked_commands": by_policy(shell=lambda _: ShellRules()),
    "use /new, or raise the limit": by_policy(calls=lambda _: CallLimits()),
    "send another message, or raise it": by_policy(calls=lambda _: CallLimits()),
    "or remove the hook": by_policy(hooks=lambda _: ()),
    "or remove it (hooks": by_policy(hooks=lambda _: ()),
}  # fmt: skip
NOT_THE_SAME_CALL = {right_tool, by_arguments}


def told(case):
    """Return the refusal a case is about, with what `/why` says would have helped."""
    name = next(name for name, one in CASES.items() if one is case)
    session = case.session()
    event, found = refusals(case, session, case.action(session))
    gate = name.split()[0]
    [said] = [said for said in event.words if said.gate == gate and said.word == "deny"]
    lines = [line.partition(": ")[2] for line in remedies(event, {}) if line.startswith(f"{gate}: ")]
    return said, found, lines


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_remedy_lifts_the_refusal_it_stands_beside_and_nothing_else_would(case):
    said, _, [line] = told(case)
    meant = [apply for text, apply in REMEDIES.items() if text in line]
    if line.startswith("nothing"):
        assert meant == []
        for apply in set(REMEDIES.values()) - NOT_THE_SAME_CALL:
            action, session = apply(case, said)
            assert said.gate in {gate for gate, _ in refusals(case, session, action)[1]}, apply
        return
    assert len(meant) == 1, f"nobody knows how to do this: {line}"
    action, session = meant[0](case, said)
    assert said.gate not in {gate for gate, _ in refusals(case, session, action)[1]}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_is_refused_as_its_name_says(case):
    name = next(name for name, one in CASES.items() if one is case)
    gate, first = name.split()[:2]
    said, _, _ = told(case)
    assert said.gate == gate and said.rule.startswith(first)


def test_there_is_a_case_for_every_refusal_in_the_code():
    """A new rule that says Deny needs a remedy that is tried here, or one that says "nothing"."""
    found = set()
    for file in (SECURITY / "gates").glob("*.py"):
        found |= {(file.stem, name) for name in re.findall(r'Deny\(\s*"([a-z_]+)"', file.read_text())}
    for file in ("checks/grounding.py", "checks/network.py", "url/hosts.py"):
        names = re.findall(r'(?:Deny\(|return )"([a-z_]+)",', (SECURITY / file).read_text())
        found |= {
            (gate, name)
            for name in names
            for gate in (("grounding", "hosts") if "grounding" in file else ("hosts",))
        }
    for file in ("command/judge/verdict.py", "command/judge/network.py"):
        found |= {
            ("commands", name)
            for name in re.findall(r'Say\.DENY, "([a-z_]+)"', (SECURITY / file).read_text())
        }
    assert len(found) > 20
    tried = {tuple(name.split()[:2]) for name in CASES}
    assert found - tried == set()


def test_a_message_begins_a_new_turn_and_a_new_session_a_new_count():
    case = replace(CASES["budget calls_per_turn"], policy={"calls": CallLimits(per_turn=1, per_session=1)})
    session = apply_events(case.session(), Decided(0.0, "c0", "tool", "d", True))
    assert isinstance(judge(case.action(session), session).verdict, Deny)
    session = replace(apply_events(session, TurnStarted(1.0)), calls_this_session=0)
    assert isinstance(judge(case.action(session), session).verdict, Allow)


ASKED = {
    "a write": Case({"path": "a"}, effects=WRITE),
    "a write outside": Case({"path": "/srv/a[1]*"}, effects=WRITE),
    "what runs later": Case({"path": "Makefile"}, effects=WRITE),
    "of a plug-in": Case({"path": "a"}, effects=WRITE, level=TrustLevel.VERIFIED),
    "of my own rule": Case({"path": "a"}, policy={"rules": (rule(RuleAction.ASK, "a"),)}),
    "by force": Case({"path": "a"}, policy={"rules": (Rule("tool", RuleAction.ASK, "a", force=True),)}),
    "a command": Case({"command": "make 'a b'; ./run > out.txt"}, effects=ALL),
    "a command elsewhere": Case({"command": "cd 's*c' && make test"}, effects=ALL),
    "a command nobody knows where": Case({"command": 'cd "$x" && make test'}, effects=ALL),
    "a command that is forced": Case({"command": "sudo make"}, effects=ALL),
}


def advance(lines):
    """Yield each answer in advance that is promised: what it changes of the policy, or the events of it."""
    granted = [re.match(r"for this session: /permissions allow (\w+)(?: (.*))?", line) for line in lines]
    rules = [line.rpartition(": { ")[2].removesuffix(" }") for line in lines if line.startswith("for good: ")]
    events = tuple(Granted(0.0, Grant("", found[1], found[2])) for found in granted if found)
    if events:
        yield {}, events
    if rules:
        said = [tomllib.loads(re.sub(r", (?=\w+ = )", "\n", text)) for text in rules]
        made = (
            Rule(one["tool"], RuleAction(one["action"]), one.get("match"), folder=one.get("folder"))
            for one in said
        )
        yield {"rules": tuple(made)}, ()
    if any(line.startswith("autonomy full") for line in lines):
        yield {"autonomy": Autonomy.FULL}, ()


@pytest.mark.parametrize("case", ASKED.values(), ids=ASKED)
def test_an_answer_in_advance_that_is_promised_answers_every_question(case):
    session = case.session()
    action = case.action(session)
    decision = judge(action, session)
    assert decision.denial is None and decision.asks
    # As it stands on record where nobody was there to say yes.
    event = replace(decided(session, action, decision, ""), allowed=False)
    lines = remedies(event, {})
    assert lines[0] == "your yes, when it was asked"
    promised = list(advance(lines))
    for changed, events in promised:
        held = {**case.policy, **changed, "rules": (*case.policy.get("rules", ()), *changed.get("rules", ()))}
        then = apply_events(Session("s", Policy("/ws", "/home/ada", **held)), *events)
        assert resolve_asks(judge(action, then).asks, action, then)[0] == (), lines
    is_forced = any(ask.force for _, ask in decision.asks)
    assert not (is_forced and promised)
    if case in (ASKED["a write"], ASKED["a command"], ASKED["a command elsewhere"]):
        assert promised
