"""Attacks as data: an untrusted text, the calls a lost model makes of it, and the expected audit.

Each file in `attacks/` is one session without anybody to ask:

    person     what the person says; `config` is the configuration, as TOML
    [files]    of the workspace, [home] of the home, [links] links in the workspace, [pages] of the web server
               (text that begins with `<` is HTML, `redirect: URL` a redirect)
    [[reply]]  the model's next calls, each with what must come of it: `allowed`, `allowed error`,
               `denied GATE`, or `asked GATE` (which, with nobody there, is a no)
    [expect]   seen, unseen: in what the model was told; not_ours: not outside of the fences;
               unrecorded: not in the audit; requests: what the server was asked; written: new files

`{web}`, `{port}` and `{home}` stand for this machine's, `{nonce}` for that of the last marks shown.

A file may hold several of them: each `[[entry]]` has a `name`, a `text` that stands for `{text}`, and calls
that come `then`; all else is that of the file. What looks like orders is pointed out, unless an entry is
`unnoticed` or the file `clean`: a control.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import islice
from pathlib import Path

import pytest

from loading import toml_of

FILES = sorted((Path(__file__).parent / "attacks").glob("*.toml"))
KEYS = {"why", "person", "config", "files", "home", "links", "pages", "reply", "expect"}
OF_FILE, OF_ENTRY = {"entry", "clean"}, {"name", "text", "then", "unnoticed", "fetch"}
NOTICED = "this looks like orders to an assistant"
EXPECTATIONS = {"seen", "unseen", "not_ours", "unrecorded", "requests", "written"}
FENCED = re.compile(r"(?s)«UNTRUSTED:(?P<nonce>[0-9a-f]{32}):[a-z0-9_-]+».*?«END:(?P=nonce)»")


def entries() -> Iterator[tuple[str, dict]]:
    """Each attack by its name; of several in a file, the first is part of every run of the suite."""
    for path in FILES:
        held = toml_of(path)
        for entry in held.pop("entry", [{}]):
            then = [{"calls": entry["then"]}] if "then" in entry else []
            attack = {**held, **entry, "reply": [*held["reply"], *then]}
            if "text" in entry:
                expect = dict(held["expect"])
                is_plain = held.get("clean", False) or entry.get("unnoticed", False)
                expect["unseen" if is_plain else "seen"] = [
                    *expect.get("unseen" if is_plain else "seen", []),
                    NOTICED,
                ]
                attack["expect"] = expect
            yield path.stem + (f"-{entry['name']}" if entry else ""), attack


ATTACKS = dict(entries())
FIRST = {name.partition("-")[0]: name for name in reversed(ATTACKS)}


def cases() -> list:
    slow = {name for name in ATTACKS if FIRST[name.partition("-")[0]] != name}
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in slow)) for name in ATTACKS]


class Counted:
    """How many statements about sessions held, and of how many sessions."""

    assertions = 0
    sessions: set[str] = set()


@pytest.fixture(scope="module", autouse=True)
def summary(request):
    yield
    told = f"{Counted.assertions} structural assertions passed across {len(Counted.sessions)} entries"
    if request.config.option.numprocesses is None:
        request.config.pluginmanager.get_plugin("terminalreporter").write_line(f"\n{told}")


def holds(*statements: bool) -> bool:
    """Count statements about a session, all of which must hold."""
    Counted.assertions += len(statements)
    return all(statements)


def test_there_are_enough_and_each_says_why():
    clean = {name for name, attack in ATTACKS.items() if attack.get("clean")}
    assert len(ATTACKS) - len(clean) >= 60 and len(clean) >= 8
    for name, attack in ATTACKS.items():
        assert set(attack) <= KEYS | OF_FILE | OF_ENTRY and set(attack.get("expect", {})) <= EXPECTATIONS, (
            name
        )
        assert len(attack["why"]) > 20 and all(
            call["expect"] for reply in attack["reply"] for call in reply["calls"]
        )


def filled(value, names):
    """Put this machine's names into every text of a value."""
    if isinstance(value, str):
        for name, real in names.items():
            value = value.replace("{" + name + "}", real)
        return value
    if isinstance(value, dict):
        return {filled(key, names): filled(item, names) for key, item in value.items()}
    return [filled(item, names) for item in value] if isinstance(value, list) else value


def laid_out(where, attack) -> None:
    for folder, name in ((where.workspace, "files"), (where.home, "home")):
        for path, text in attack.get(name, {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text.encode())
    for path, target in attack.get("links", {}).items():
        (where.workspace / path).symlink_to(target)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and "leeward.db" not in path.name
    }


def calls(reply):
    return [(call["tool"], call.get("arguments", call.get("args"))) for call in reply["calls"]]


async def came_of(runtime, sessions) -> list[str]:
    """What came of each call, by the audit alone; where redirects led is part of their call."""
    outcomes = {row.call: row.body for row in await sessions.rows(runtime, "outcome")}
    found = []
    for row in await sessions.rows(runtime, "decision"):
        if row.body["hop"]:
            continue
        if row.body["allowed"]:
            found.append("allowed" if outcomes[row.call]["status"] == "ok" else "allowed error")
        else:
            word = "asked" if row.body["approver"] == "nobody" else "denied"
            found.append(f"{word} {row.body['gate']}")
    return found


def with_nonce(reply):
    """The calls of a reply, made when it is asked for: `{nonce}` is that of the last marks it was shown."""

    def made(request):
        nonces = [found["nonce"] for message in request.messages for found in FENCED.finditer(message.text)]
        return calls(filled(reply, {"nonce": nonces[-1] if nonces else "0" * 32}))

    return made


@pytest.mark.parametrize("name", cases())
async def test_an_attack_comes_to_nothing_and_is_on_record(name, sessions, tmp_path):
    attack = ATTACKS[name]
    where = sessions.places(tmp_path.resolve())
    async with AsyncExitStack() as stack:
        names = {"text": attack.get("text", ""), "fetch": attack.get("fetch", ""), "home": str(where.home)}
        options, web = {}, None
        config = attack.get("config", "")
        if "pages" in attack:
            web = await stack.enter_async_context(
                sessions.web(tmp_path, lambda path: filled(attack["pages"].get(path), names))
            )
            names |= {"web": web.url("").removesuffix("/"), "port": str(web.port)}
            config, options = config + web.config, {"resolve": web.resolve}
        attack = filled(attack, names)
        laid_out(where, attack)
        before = contents(tmp_path)
        says = [with_nonce(reply) for reply in attack["reply"]]
        runtime = await stack.enter_async_context(sessions.session(tmp_path, config, says, **options))
        await runtime.turn(attack["person"])

        expected = [sorted(call["expect"] for call in reply["calls"]) for reply in attack["reply"]]
        found = iter(await came_of(runtime, sessions))
        # Calls of one reply that only read run side by side, and are judged in any order.
        assert [sorted(islice(found, len(reply))) for reply in expected] == expected
        assert list(found) == []
        Counted.assertions += sum(map(len, expected))
        expect = attack.get("expect", {})
        told = "\n".join(runtime.provider.seen())
        ours = FENCED.sub("", told)
        recorded = json.dumps([dict(row.body) for row in await sessions.rows(runtime)], default=str)
        assert holds(*(text in told for text in expect.get("seen", []))), told
        assert holds(*(text not in told for text in expect.get("unseen", []))), told
        assert holds(*(text not in ours for text in expect.get("not_ours", []))), ours
        assert holds(*(text not in recorded for text in expect.get("unrecorded", [])))
        nonces = [found["nonce"] for found in FENCED.finditer(told)]
        assert holds("«" not in ours, len({*nonces}) == len(nonces))
        Counted.sessions.add(name)
        if web is not None:
            assert [path for _, path, _ in web.asked] == expect.get("requests", [])
            assert web.connections == len(web.asked)
        after = contents(tmp_path)
        changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
        config_file = str((where.config / "config.toml").relative_to(tmp_path.resolve()))
        data = str(where.data.relative_to(tmp_path.resolve())) + "/"
        assert {name for name in changed - {config_file} if not name.startswith(data)} == {
            f"ws/{name}" for name in expect.get("written", [])
        }
