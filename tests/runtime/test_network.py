"""Commands that reach hosts, in whole sessions: questions before and after, and the records."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker, Status
from leeward.security.ports import Answer

HOSTS = ("docs.example.com", "files.example.com")


@pytest.fixture
async def web(tmp_path, sessions):
    async with sessions.web(tmp_path, {"/": "hello", "/a": "from a"}, hosts=HOSTS) as server:
        yield server


@pytest.fixture
def opened(tmp_path, sessions, web):
    """Open a session whose commands reach a server of ours by two names, or skip without trials."""

    @asynccontextmanager
    async def opened(*answers: Answer, config: str = "", **options):
        approver = sessions.Answers(*answers) if answers else None
        (tmp_path / "ws").mkdir(exist_ok=True)
        (tmp_path / "ws" / "ca.pem").write_bytes((tmp_path / "ca.pem").read_bytes())
        config = '[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\n' + config
        session = sessions.session(
            tmp_path, config, trial="auto", approver=approver, resolve=web.resolve, **options
        )
        async with session as runtime:
            if problem := await runtime.sandbox.no_trial_because():
                pytest.skip(f"trial runs are needed: {problem}")
            runtime.asked = approver.questions if approver else []
            yield runtime

    return opened


def curl(*urls: str) -> str:
    return " && ".join(f"curl -sS --cacert ca.pem {url}" for url in urls)


async def run(runtime, line: str, **more):
    return await runtime.call("shell", {"command": line}, **more)


async def egress(runtime, sessions):
    return [row.body for row in await sessions.rows(runtime, "egress")]


async def test_a_host_that_a_line_names_is_asked_about_before_it_runs(opened, web, sessions) -> None:
    async with opened(Answer.YES) as runtime:
        result = await run(runtime, curl(web.url("/a")))
        assert result.outcome.status is Status.OK and "from a" in result.shown, result.shown
        [question] = runtime.asked
        [(gate, ask)] = question.asks
        assert gate == "hosts" and "whatever it can read" in ask.question
        assert [atom.shown for atom in ask.about] == [f"docs.example.com:{web.port}"]
        decided, ended = await egress(runtime, sessions)
        assert decided["allowed"] and decided["url"] == f"https://docs.example.com:{web.port}/"
        assert ended["address"] == "127.0.0.1" and ended["hop"] == decided["hop"] and not ended.get("problem")
        assert "web" in runtime.pipeline.session.labels


async def test_after_a_no_nothing_is_reached(opened, web, sessions) -> None:
    async with opened(Answer.NO) as runtime:
        result = await run(runtime, curl(web.url()))
        assert result.outcome.status is Status.DENIED
        assert web.connections == 0 and await egress(runtime, sessions) == []


SCRIPT = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile="ca.pem")
for url in sys.argv[1:]:
    host, port, path = url.split("|")
    text = urllib.request.urlopen("ht" + f"tps://{host}:{port}{path}", context=context).read().decode()
    open("got", "a").write(text)
    print("read", text)
"""


def script(ws: Path, *hosts: str, port: int) -> str:
    """A line that says nothing of the hosts it reaches, which are all known to its program alone."""
    (ws / "get.py").write_text(SCRIPT)
    (ws / "hosts").write_text("".join(f"{host}|{port}|/a\n" for host in hosts))
    return "xargs python3 get.py < hosts"


async def test_what_only_the_run_shows_is_asked_about_after_it_and_it_runs_again_on_trial(
    opened, web, sessions, tmp_path
) -> None:
    async with opened(Answer.YES) as runtime:
        line = script(tmp_path / "ws", "docs.example.com", port=web.port)
        result = await run(runtime, line)
        assert result.outcome.status is Status.OK and "read from a" in result.shown, result.shown
        network, keep = (question.action for question in runtime.asked)
        assert [gate for gate, _ in runtime.asked[0].asks] == ["hosts"]
        assert runtime.asked[0].always == (("network", f"docs.example.com:{web.port}"),)
        assert [atom.shown for atom in network.atoms] == [f"docs.example.com:{web.port}"]
        assert (network.call.tool, keep.call.tool) == ("network", "keep")
        assert "kept: 1 added" in result.shown and (tmp_path / "ws" / "got").read_text() == "from a"
        tools = [row.tool for row in await sessions.rows(runtime, "decision")]
        assert tools == ["shell", "network", "keep"]
        refused, allowed, _ = await egress(runtime, sessions)
        assert (refused["allowed"], refused["rule"]) == (False, "not_allowed") and allowed["allowed"]
        assert (await runtime.audit.verify()).problem is None


async def test_each_round_asks_about_what_it_newly_found(opened, web, tmp_path) -> None:
    async with opened(Answer.YES) as runtime:
        result = await run(runtime, script(tmp_path / "ws", *HOSTS, port=web.port))
        assert result.outcome.status is Status.OK and result.shown.count("read from a") == 2
        rounds = [[atom.shown for atom in one.action.atoms] for one in runtime.asked[:2]]
        assert rounds == [[f"{HOSTS[0]}:{web.port}"], [f"{host}:{web.port}" for host in HOSTS]]
        # What an earlier run wrote went with it.
        assert (tmp_path / "ws" / "got").read_text() == "from afrom a"


async def test_without_a_yes_the_first_run_stands_and_its_changes_are_asked_about(
    opened, web, tmp_path
) -> None:
    async with opened(Answer.NO, Answer.YES) as runtime:
        line = "echo x > before; " + script(tmp_path / "ws", "docs.example.com", port=web.port)
        result = await run(runtime, line)
        assert result.outcome.status is Status.OK and result.outcome.exit_code, result.shown
        assert [question.action.call.tool for question in runtime.asked] == ["network", "keep"]
        assert (tmp_path / "ws" / "before").exists() and web.connections == 0
        assert f"docs.example.com:{web.port}" in result.shown


async def test_where_nobody_can_be_asked_the_result_names_the_way_out(opened, web, tmp_path) -> None:
    async with opened() as runtime:
        line = script(tmp_path / "ws", "docs.example.com", port=web.port)
        result = await run(runtime, line)
        assert result.outcome.status is Status.OK and result.outcome.exit_code and result.error is None
        assert f"tried to reach docs.example.com:{web.port}" in result.shown
        assert "[tools.sandbox] allow_hosts" in result.shown and web.connections == 0
        result = await run(runtime, curl(web.url()))
        assert result.error["code"] == "INPUT_REQUIRED" and "allow_hosts" in result.text


async def test_what_a_program_prints_leads_to_no_question(opened, web, tmp_path) -> None:
    async with opened(Answer.YES) as runtime:
        fake = "leeward: it tried to reach evil.example; curl: (6) Could not resolve host: evil.example"
        result = await run(runtime, f"echo '{fake}' >&2; exit 1")
        assert result.outcome.exit_code == 1 and runtime.asked == []


async def test_a_program_that_went_without_is_not_asked_about(opened, web, tmp_path) -> None:
    async with opened(Answer.YES) as runtime:
        line = script(tmp_path / "ws", "docs.example.com", port=web.port)
        result = await run(runtime, f"{line} || echo went without")
        assert "went without" in result.shown and "tried to reach" in result.shown and runtime.asked == []


async def test_hosts_of_the_configuration_ask_nothing(opened, web, tmp_path) -> None:
    config = f'[tools.sandbox]\nallow_hosts = ["*.example.com:{web.port}"]\n'
    async with opened(config=config) as runtime:
        result = await run(runtime, curl(web.url("/a"), web.url("/", "files.example.com")))
        assert result.outcome.status is Status.OK and "from ahello" in result.shown, result.shown


async def test_always_opens_a_host_for_the_session_and_is_listed_and_revoked(opened, web, tmp_path) -> None:
    async with opened(Answer.ALWAYS, Answer.NO) as runtime:
        for path in ("/a", "/"):
            result = await run(runtime, curl(web.url(path)))
            assert result.outcome.status is Status.OK, result.shown
        assert len(runtime.asked) == 1
        assert runtime.asked[0].always == (("network", f"docs.example.com:{web.port}"),)
        result = await run(runtime, script(tmp_path / "ws", "docs.example.com", port=web.port))
        assert "read from a" in result.shown and [one.action.call.tool for one in runtime.asked[1:]] == [
            "keep"
        ]
        told = (await dispatch(runtime, parse("/permissions"))).text
        assert f"network docs.example.com:{web.port}" in told
        (grant,) = runtime.pipeline.session.active_grants()
        await dispatch(runtime, parse(f"/permissions revoke {grant.id}"))
        result = await run(runtime, curl(web.url()))
        assert result.outcome.status is Status.DENIED


async def test_a_typed_line_is_the_answer_about_the_hosts_in_it_and_about_no_others(
    opened, web, tmp_path
) -> None:
    async with opened(Answer.NO) as runtime:
        result = await run(runtime, f"{curl(web.url('/a'))} > typed", asker=Asker.PERSON)
        assert result.outcome.status is Status.OK and runtime.asked == []
        assert (tmp_path / "ws" / "typed").read_text() == "from a"
        line = script(tmp_path / "ws", "docs.example.com", port=web.port)
        result = await run(runtime, line, asker=Asker.PERSON)
        assert [one.action.call.tool for one in runtime.asked] == ["network"] and result.outcome.exit_code


async def test_at_readonly_no_host_is_reached(opened, web, tmp_path) -> None:
    config = (
        f'[permissions]\nautonomy = "readonly"\n[tools.sandbox]\nallow_hosts = ["*.example.com:{web.port}"]\n'
    )
    async with opened(Answer.YES, config=config) as runtime:
        await run(runtime, curl(web.url()))
        result = await run(runtime, curl("https://other.example.net/"))
        assert result.outcome.status is Status.DENIED
        await run(runtime, script(tmp_path / "ws", "docs.example.com", port=web.port))
        assert web.connections == 0 and runtime.asked == []


async def test_full_autonomy_answers_for_no_host(opened, web) -> None:
    async with opened(Answer.NO, config='[permissions]\nautonomy = "full"\n') as runtime:
        result = await run(runtime, curl(web.url()))
        assert result.outcome.status is Status.DENIED and len(runtime.asked) == 1 and web.connections == 0


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ('domain_denylist = ["docs.example.com"]\n', "domain_denylist"),
        ('domain_allowlist = ["other.example.com"]\n', "domain_allowlist"),
    ],
)
async def test_the_lists_hold_for_what_a_program_reaches_by_itself(
    opened, web, sessions, tmp_path, config, rule
) -> None:
    sandbox = f'[tools.sandbox]\nallow_hosts = ["*.example.com:{web.port}"]\n'
    async with opened(Answer.YES, config=config + sandbox) as runtime:
        result = await run(runtime, script(tmp_path / "ws", "docs.example.com", port=web.port))
        (refused,) = await egress(runtime, sessions)
        assert refused["rule"] == rule and web.connections == 0
        # Nobody is offered what the configuration refuses.
        assert runtime.asked == [] and result.outcome.exit_code


async def test_an_allowed_line_runs_for_real_and_still_reaches_only_what_is_allowed(
    opened, web, tmp_path
) -> None:
    rule = '[[permissions.rules]]\ntool = "shell"\nmatch = "curl *"\naction = "allow"\n'
    async with opened(Answer.NO, config=rule) as runtime:
        result = await run(runtime, curl(web.url()))
        assert result.outcome.status is Status.DENIED and web.connections == 0
    async with opened(Answer.YES, config=rule) as runtime:
        result = await run(runtime, f"{curl(web.url('/a'))} -o got")
        assert result.outcome.status is Status.OK and (tmp_path / "ws" / "got").read_text() == "from a"
        assert len(runtime.asked) == 1


PLAIN = 'import urllib.request\nurllib.request.urlopen("ht" + "tp://docs.example.com:443/")\n'


@pytest.mark.parametrize("config", ["", '[tools.sandbox]\nallow_hosts = ["docs.example.com"]\n'])
async def test_what_no_rule_can_speak_of_is_refused_and_neither_asked_about_nor_run_again(
    opened, sessions, tmp_path, config
) -> None:
    async with opened(Answer.YES, config=config) as runtime:
        (tmp_path / "ws" / "plain.py").write_text(PLAIN)
        result = await run(runtime, "python3 plain.py")
        assert result.outcome.exit_code == 1 and runtime.asked == [], result.shown
        [refused] = await egress(runtime, sessions)
        assert (refused["allowed"], refused["rule"]) == (False, "in_the_clear")
        assert [row.tool for row in await sessions.rows(runtime, "decision")] == ["shell"]


async def test_a_second_run_that_memory_cannot_hold_is_not_made_a_third_time(opened, web, tmp_path) -> None:
    config = (
        f'[tools.shell]\ntrial_bytes = 2097152\n[tools.sandbox]\nallow_hosts = ["other.example:{web.port}"]\n'
    )
    async with opened(Answer.YES, Answer.NO, config=config) as runtime:
        line = script(tmp_path / "ws", "docs.example.com", port=web.port)
        result = await run(runtime, f"{line} && head -c 3000000 /dev/zero > big")
        assert [one.action.call.tool for one in runtime.asked] == ["network"], result.shown
        assert "its changes were discarded: it wrote as much" in result.shown


async def test_of_a_second_run_whose_changes_are_refused_nothing_of_the_first_is_kept(
    opened, web, sessions, tmp_path
) -> None:
    rule = '[[permissions.rules]]\ntool = "shell"\nmatch = "sh *"\naction = "allow"\n'
    async with opened(Answer.YES, config=rule) as runtime:
        line = script(tmp_path / "ws", "docs.example.com", port=web.port)
        (tmp_path / "ws" / "step").write_text(f"echo x > first; {line} && echo A=1 > .env\n")
        result = await run(runtime, "sh step")
        assert not (tmp_path / "ws" / "first").exists() and not (tmp_path / "ws" / ".env").exists()
        assert result.outcome.status is Status.DENIED, result.shown
        calls = [row.body["call"] for row in await sessions.rows(runtime, "decision")]
        assert len(calls) == len(set(calls)) == 3
