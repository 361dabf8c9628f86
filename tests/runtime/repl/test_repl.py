"""The chat: questions during a turn, stopping, leaving, and failures."""

from __future__ import annotations

import json
import resource
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from leeward.runtime.exits import Exit
from leeward.runtime.mcp import TakesWords
from leeward.runtime.repl.approver import TerminalApprover
from leeward.runtime.repl.render import Renderer
from leeward.runtime.repl.repl import Repl, Stoppable
from leeward.runtime.repl.screen import plain_text
from leeward.runtime.repl.terminal import Closed, Gone, Interrupt, Typed
from leeward.security.action import ActionBuilder
from leeward.security.call import Checked, ToolCall, ToolSpec
from leeward.security.kinds import Effect
from leeward.security.permissions import Always
from leeward.security.policy import Policy
from leeward.security.ports import Answer, DetailedAnswer, Question
from leeward.security.session import Scope, Session
from leeward.security.verdict import Ask
from screens import sheet

ENTER, CTRL_C, CTRL_D, ESC, UP = "\r", "\x03", "\x04", "\x1b", "\x1b[A"
ASKS = "[y]es / [n]o / [a]lways"


def outcomes(leeward):
    """What the audit says of each call: allowed or not, and how it ended."""
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    return [record["body"]["status"] for record in records if record["kind"] == "outcome"]


def running(word: str) -> list[str]:
    """Processes whose command line holds a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [folder.name] if word.encode() in (folder / "cmdline").read_bytes() else []
    return found


def test_questions_in_the_middle_of_a_turn(tty, leeward):
    at = tty()
    at.prompt()
    at.type("run touch a", ENTER)
    first = at.see(ASKS)
    assert "? commands asks: " in first.partition("shell wants to run:\n  runs: touch a\n")[0]
    assert "\n  always would allow: shell touch a\n" in first
    at.type("x")
    at.see("one of the keys in brackets")
    at.type("A")
    at.see("rule allow shell touch a")
    at.type(ENTER)
    at.see("where: this [s]ession")
    at.type(ENTER)
    at.see("until: 30m")
    at.type(ENTER)
    at.see("allowed in this session: shell touch a")
    at.prompt()
    assert (leeward.workspace / "a").exists()
    assert "allow shell touch a  for this session" in at.say("/permissions")
    assert "wants to run" not in at.say("run touch a")
    at.type("run touch b", ENTER)
    at.see(ASKS)
    at.type("n")
    at.see("✗ shell was not run: the person said no")
    at.prompt()
    at.type("run touch b", ENTER)
    at.see(ASKS)
    at.type("d")
    at.see("no, because:")
    at.type("use c", ENTER)
    at.prompt()
    at.type("run touch b", ENTER)
    at.see(ASKS)
    at.type(CTRL_D)
    at.see("■ stopped")
    at.prompt()
    assert not (leeward.workspace / "b").exists()
    assert "touch a" not in at.say("/clear") + at.say("/permissions")
    at.type("run touch a", ENTER)
    at.see(ASKS)
    at.type("a")
    at.prompt()
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    approvers = [record["body"].get("approver") for record in records if record["kind"] == "decision"]
    assert approvers == [
        "the person; key A at the terminal",
        approvers[1],
        "the person; key n at the terminal",
        "the person; key d at the terminal; use c",
        "the person; Ctrl-C at the question",
        "the person; key a at the terminal",
    ]


def test_keys_pressed_before_a_question_was_seen_answer_nothing(tty, leeward):
    at = tty()
    at.prompt()
    at.type("run touch a" + ENTER + "y" + ENTER + "ay")
    at.see(ASKS)
    # Somebody who types is given a pause before keys count.
    at.type("yyyy")
    at.see(lambda text: "you are typing" not in text)
    assert not (leeward.workspace / "a").exists()
    at.type("n")
    at.see("the person said no")
    # What was typed ahead is a message, and what was not sent is still there to be edited.
    at.see('I do not understand "y"')
    at.see(lambda text: "\n› a" in text)
    assert not (leeward.workspace / "a").exists()


def test_what_is_typed_while_something_runs_is_seen_and_queued(tty, leeward):
    leeward.configure('[[permissions.rules]]\ntool = "shell"\naction = "allow"\n')
    at = tty()
    at.prompt()
    at.type("run echo here; sleep 600", ENTER)
    at.see("│ here")
    at.see("running shell")
    at.type("/mod")
    at.see("» /mod")
    at.type("el", ENTER)
    at.see("queued: /model")
    at.type(UP)
    at.see("» /model")
    at.type(ENTER)
    at.see("queued: /model")
    at.type(CTRL_C)
    at.see("■ stopped")
    assert "offline" in at.prompt().rpartition("› /model")[2]


@pytest.mark.parametrize("key", [CTRL_C, ESC])
def test_a_key_stops_a_program_and_nothing_else(tty, leeward, key):
    at = tty()
    at.prompt()
    mark = f"{time.time_ns() % 10**15 + 10**15}"
    # A child that ends for no signal it can ignore, in a session of its own.
    hostile = f"trap '' INT TERM HUP; touch up; echo up; setsid sleep {mark} & wait"
    at.type(f"run {hostile}", ENTER)
    at.see(ASKS)
    at.type("y")
    at.see("│ up")
    assert running(mark)
    began = time.monotonic()
    at.type(key)
    at.see("■ stopped; what came so far is kept")
    at.prompt()
    assert not running(mark)
    assert time.monotonic() - began < 10, "half a second on a machine that does nothing else"
    assert outcomes(leeward) == ["cancelled"]
    for _ in range(3):
        at.signal(signal.SIGINT)
    assert "labels" in at.say("/status")
    at.type(CTRL_C)
    at.see("(Ctrl-C again, Ctrl-D or /exit leaves)")
    at.type(CTRL_C)
    assert at.ended() == 0 and at.is_restored


@pytest.mark.parametrize("moment", ["prompt", "question", "program"])
@pytest.mark.parametrize("how", ["SIGTERM", "hang up"])
def test_being_told_to_end(tty, leeward, moment, how):
    at = tty()
    at.prompt()
    mark = f"{time.time_ns() % 10**15 + 10**15}"
    if moment != "prompt":
        at.type(f"run touch up; echo up; sleep {mark}", ENTER)
        at.see(ASKS)
    if moment == "program":
        at.type("y")
        at.see("│ up")
    at.hang_up() if how == "hang up" else at.signal(signal.SIGTERM)
    assert at.ended() == 143
    assert not running(mark)
    assert how == "hang up" or at.is_restored
    assert outcomes(leeward) == (["cancelled"] if moment == "program" else [])


class Slow(BaseHTTPRequestHandler):
    """A model that never comes to an end, and is told when nobody listens any more."""

    left = threading.Event()
    answers: list[int] = []

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.answers:
            self.send_response(self.answers.pop(0))
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            while True:
                chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": "word "}}]})
                self.wfile.write(f"data: {chunk}\n\n".encode())
                self.wfile.flush()
                time.sleep(0.02)
        except OSError:
            self.left.set()

    def log_message(self, *_):
        pass


@pytest.fixture
def slow():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_model_that_streams_is_stopped_and_one_that_fails_is_told(tty, leeward, slow):
    url = f"http://127.0.0.1:{slow.server_port}/v1"
    leeward.configure(f'[llm]\nmodel = "slow:m"\n[[llm.providers]]\nname = "slow"\nbase_url = "{url}"\n')
    at = tty()
    at.prompt()
    at.type("hello", ENTER)
    at.see("word word word")
    at.type(CTRL_C)
    at.see("■ stopped; what came so far is kept")
    assert Slow.left.wait(60)
    Slow.answers[:] = [401]
    assert at.say("again").split("\n") == ["✗ 127.0.0.1 refused the API key (401)"]
    assert "slow:m" in at.say("/model")


def test_a_disk_that_is_full_is_told_and_the_prompt_comes_back(tty, leeward):
    at = tty()
    at.prompt()
    resource.prlimit(at.process.pid, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    said = at.say("run touch a")
    assert "✗ shell refused: the decision could not be recorded" in said
    assert "Traceback" not in said
    assert not (leeward.workspace / "a").exists()
    refused = at.say("/new")
    assert refused.startswith("✗ ")
    assert "could not be written" in " ".join(refused.split())  # the path before it may wrap the line
    resource.prlimit(at.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert at.say("/new").startswith("session s_")
    at.type("/exit", ENTER)
    assert at.ended() == 0


def test_what_must_be_said_before_anything_is_opened(tty, leeward):
    own = leeward.workspace / ".leeward"
    own.mkdir()
    (own / "config.toml").write_text('[permissions]\nautonomy = "readonly"\n', encoding="utf-8")
    at = tty()
    at.see("[y]es / [n]o?")
    at.type("p")
    at.see("one of the keys in brackets, please")
    at.type(CTRL_C)
    assert at.ended() == 4
    at = tty()
    at.see("[y]es / [n]o?")
    at.type("y")
    assert "· readonly" in at.prompt()
    assert "wants to run" not in at.say("run ls")
    at = tty()
    assert "[y]es" not in at.prompt()
    at = tty(HOME=str(leeward.workspace))
    at.see("[y]es / [n]o?")
    at.type("n")
    assert at.ended() == 4
    at.see("name another folder with --workspace")


@pytest.mark.parametrize(
    ("words", "config", "code", "said"),
    [
        (["--model", "no:such"], "", 2, "there is no model 'no:such'"),
        ([], "[agent]\nmax_turn = 3\n", 2, "did you mean max_turns?"),
        (["--workspace", "/no/such"], "", 2, "is not a folder"),
    ],
)
def test_a_chat_that_cannot_begin_says_why(tty, leeward, words, config, code, said):
    leeward.configure(config)
    at = tty(*words)
    assert at.ended() == code
    text = at.see(said)
    assert "Traceback" not in text


def test_a_data_folder_that_cannot_be_used(tty, leeward):
    (leeward.home / ".local").write_text("", encoding="utf-8")
    at = tty(columns=300)
    assert at.ended() == 1
    assert "Traceback" not in at.see("cannot be used: Not a directory")


def test_a_page_is_opened_by_the_person_and_refusals_are_told_once(tty, leeward):
    at = tty()
    at.prompt()
    said = at.say("/browse https://localhost/ what is it?")
    assert said.count("fetch refused: the host is not on the public internet") == 1
    assert "● fetch" in said
    assert "https://localhost/" in at.say("/browse")
    assert "did you mean /browse?" in at.say("/brwse x")


async def test_stopping_when_nothing_runs_does_nothing():
    stoppable, done = Stoppable(), []
    stoppable.stop()

    async def work():
        await trio.lowlevel.checkpoint()
        done.append("whole")

    assert not await stoppable.run(work)
    stoppable.stop()

    async def stops():
        stoppable.stop()
        await trio.sleep_forever()

    assert await stoppable.run(stops)
    assert not await stoppable.run(work)
    assert done == ["whole", "whole"]


async def test_stopping_leaves_an_outer_cancellation_alone():
    stoppable = Stoppable()
    with trio.CancelScope() as outer:
        outer.cancel()
        await stoppable.run(trio.sleep_forever)
    assert outer.cancelled_caught
    with pytest.raises(ValueError, match="mine"):
        await stoppable.run(failing)


async def failing():
    raise ValueError("mine")


class Typing:
    """A terminal at which these answers are typed; an exception is a key that was pressed."""

    size, room = (80, 24), 23

    def __init__(self, *answers):
        self.answers, self.prompts, self.paged, self.keeps_typed = list(answers), [], [], []

    async def message(self):
        return Typed(await self.answer("› "))

    async def key(self, prompt, *, again=False):
        self.keeps_typed.append(again)
        return await self.answer(prompt)

    async def page(self, sections):
        self.paged.append("\n".join(plain_text(line) for section in sections for line in section.lines))
        return True

    async def answer(self, prompt, text=""):
        await trio.lowlevel.checkpoint()
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return text if answer is None else answer


def asking(*answers):
    stopped = []
    terminal = Typing(*answers)
    screen, out = sheet()
    return TerminalApprover(terminal, Renderer(screen), lambda: stopped.append(True)), terminal, out, stopped


ALWAYS = (("write", None),)


def question(content, always=ALWAYS, wider=None):
    spec = ToolSpec("write", "writes", {"type": "object"}, Checked, Effect.WRITE)
    call = ToolCall("c1", "write", json.dumps({"content": content}))
    policy = Policy(workspace="/ws", home="/home/ada")
    action = ActionBuilder.of(call, {"write": spec}).read(policy, {})
    asks = (("permissions", Ask("default", "this call may write")),)
    return Question(action, asks, always, wider, Session("s", policy))


@pytest.mark.parametrize(
    ("keys", "always", "answer", "stops"),
    [
        (["y"], ALWAYS, Answer.YES, False),
        (["enter", "Y", "n"], ALWAYS, Answer.NO, False),
        (["a"], ALWAYS, Always(ALWAYS), False),
        (["A", "", ""], ALWAYS, Always(ALWAYS), False),
        (["A", "w", "1d"], ALWAYS, Always(ALWAYS, Scope.WORKSPACE, 86_400.0), False),
        (["A", "once"], ALWAYS, Answer.YES, False),
        (["A", Interrupt(), "A", "s", Closed(), "n"], ALWAYS, Answer.NO, False),
        (["A", Gone(), Gone()], ALWAYS, Answer.NO, True),
        (["w", "t", "?", "y"], ALWAYS, Answer.YES, False),
        (["a", "A", "n"], None, Answer.NO, False),
        (["d", Interrupt(), "n"], ALWAYS, Answer.NO, False),
        ([Interrupt()], ALWAYS, Answer.NO, True),
        ([Closed()], ALWAYS, Answer.NO, True),
        ([Gone()], ALWAYS, Answer.NO, True),
    ],
)
async def test_a_question_has_an_answer_or_is_asked_again(keys, always, answer, stops):
    approver, terminal, _, stopped = asking(*keys)
    reply = await approver.ask(question("x", always))
    assert reply.answer == answer and reply.how
    assert terminal.answers == []
    assert bool(stopped) == stops


@pytest.mark.parametrize(("typed", "words"), [(" Kiel ", "Kiel"), (Interrupt(), None), (Gone(), None)])
async def test_words_are_what_the_person_types_and_going_back_is_none(typed, words):
    approver, terminal, _, stopped = asking(typed)
    assert isinstance(approver, TakesWords)
    assert await approver.words("Where: ") == words
    assert terminal.prompts == ["Where: "] and not stopped


async def test_what_is_no_answer_is_told_as_such():
    approver, terminal, out, _ = asking("x", "enter", "y")
    assert (await approver.ask(question("x"))).answer is Answer.YES
    assert out.text.count("✗ one of the keys in brackets, please") == 2
    assert len(terminal.prompts) == 3


async def test_a_no_can_say_why():
    approver, _, _, _ = asking("d", " use the other file ")
    assert await approver.ask(question("x")) == DetailedAnswer(
        Answer.NO, "key d at the terminal", "use the other file"
    )


async def test_the_wider_rule_is_taken_where_it_is_offered():
    approver, terminal, _, _ = asking("w", "", "")
    reply = await approver.ask(question("x", (("write", None),), wider=(("write", None),)))
    assert reply.answer == Always((("write", None),))
    assert "[w]ider" in terminal.prompts[0]


async def test_all_is_shown_where_it_is_asked_for():
    approver, terminal, out, _ = asking("s", "x", "y")
    assert (await approver.ask(question("line\n" * 100))).answer is Answer.YES
    assert "[s]how all" in terminal.prompts[0] and "[y]es" not in terminal.prompts[0]
    assert "[y]es" in terminal.prompts[-1]
    first, _, rest = out.text.partition("more characters")
    assert (first.count("line"), rest.count("│ line")) == (20, 9)
    [paged] = terminal.paged
    assert paged.count("line") >= 100


@pytest.mark.parametrize("early", ["y", "a", "A", "w", "t", "r", "enter"])
async def test_no_yes_is_taken_before_the_end_of_what_is_cut_was_shown(early):
    approver, terminal, out, _ = asking(early, "n")
    rule = (("write", None),)
    assert (await approver.ask(question("line\n" * 100, rule, wider=rule))).answer is Answer.NO
    assert terminal.prompts[0] == terminal.prompts[1] == "  [s]how all / [n]o / [d] no, and why / [?] "
    assert "✗ no yes before all" in out.text or "✗ one of the keys" in out.text


async def test_a_pager_that_was_left_before_the_end_has_not_shown_all():
    approver, terminal, out, _ = asking("s", "y", "n")

    async def left_early(_sections):
        return False

    terminal.page = left_early
    assert (await approver.ask(question("line\n" * 100))).answer is Answer.NO
    assert "✗ no yes before all of it was shown" in out.text


async def test_what_is_typed_right_after_a_yes_that_was_too_early_counts_and_nothing_else_typed_ahead_does():
    approver, terminal, _, _ = asking("y", "x", "?", "s", "y")
    assert (await approver.ask(question("line\n" * 100))).answer is Answer.YES
    assert terminal.keeps_typed == [False, True, False, False, False]


def with_id(asked, call_id):
    """The same question about a call of another id."""
    call = replace(asked.action.call, id=call_id)
    return replace(asked, action=replace(asked.action, call=call))


async def asked_at_once(approver, *contents):
    """Ask several questions side by side, and return the answers by their content."""
    answers = {}

    async def ask(content):
        answers[content] = await approver.ask(with_id(question(content), f"c{content[:9]}"))

    async with trio.open_nursery() as nursery:
        for content in contents:
            nursery.start_soon(ask, content)
    return answers


@pytest.mark.parametrize(("key", "answer"), [("y", Answer.YES), ("n", Answer.NO)])
async def test_questions_that_fit_on_one_screen_have_one_answer(key, answer):
    approver, terminal, out, _ = asking("x", key)
    answers = await asked_at_once(approver, "one", "two", "three")
    assert {one.answer for one in answers.values()} == {answer}
    assert {one.how for one in answers.values()} == {f"key {key} at the terminal, for 3 questions at once"}
    assert terminal.prompts == ["  [y]es to all / [n]o to all / [o]ne by one "] * 2
    assert [out.text.count(f"question {number} of 3") for number in (1, 2, 3)] == [2, 2, 2]


async def test_what_lives_on_the_screen_leaves_less_room_for_questions():
    approver, terminal, _, _ = asking("n", "n")
    terminal.room = 8
    await asked_at_once(approver, "one", "two")
    assert not any("to all" in prompt for prompt in terminal.prompts) and len(terminal.prompts) == 2


@pytest.mark.parametrize(("keys", "also"), [("y", ["two"]), ("oy", [])])
async def test_questions_that_will_come_are_answered_with_the_one_that_is_put(keys, also):
    approver, _, out, _ = asking(*keys)
    second = replace(with_id(question("two"), "c2"), always=(("write", None),))
    reply = await approver.ask(replace(question("one"), beside=lambda: [second]))
    assert reply.answer is Answer.YES and "question 2 of 2" in out.text
    assert [one.action.arguments["content"] for one in reply.also] == also
    if also:
        assert "always would allow" not in out.text, "no answer to several grants anything"


async def test_one_by_one_each_question_has_its_own_answer():
    approver, terminal, _, _ = asking("o", "y", "n")
    answers = await asked_at_once(approver, "one", "two")
    assert sorted(one.answer.value for one in answers.values()) == ["no", "yes"]
    assert len(terminal.prompts) == 3


@pytest.mark.parametrize("contents", [("one", "line\n" * 100), ("line\n" * 12, "line\n" * 13)])
async def test_what_is_cut_or_does_not_fit_is_put_by_itself(contents):
    approver, terminal, _, _ = asking("n", "n")
    await asked_at_once(approver, *contents)
    assert not any("to all" in prompt for prompt in terminal.prompts) and len(terminal.prompts) == 2


async def test_ctrl_c_at_several_questions_is_a_no_to_all_of_them():
    approver, terminal, _, stopped = asking(Interrupt())
    answers = await asked_at_once(approver, "one", "two")
    assert {one.answer for one in answers.values()} == {Answer.NO}
    assert stopped == [True] and len(terminal.prompts) == 1


async def test_a_question_whose_call_was_stopped_waits_no_more():
    approver, terminal, _, _ = asking("y")
    with trio.CancelScope() as scope:
        scope.cancel()
        await approver.ask(question("one"))
    assert (await approver.ask(question("two"))).answer is Answer.YES
    assert "to all" not in terminal.prompts[0]


async def test_a_page_stands_behind_a_bar_and_a_question_about_it_is_answered(tmp_path, sessions):
    screen, out = sheet()
    renderer = Renderer(screen)
    async with sessions.web(tmp_path, {"/": "hello\n● shell done\x1b[2J"}) as web:
        kept = {"says": ["It says hello."], "resolve": web.resolve, "listener": renderer}
        async with sessions.session(tmp_path, web.config, **kept) as runtime:
            terminal = Typing(f"/browse {web.url()}", f"/browse {web.url()} what?", "  ", Closed())
            assert await Repl(runtime, terminal, renderer, Stoppable()).chat() is Exit.SUCCESS
            asked = runtime.provider.requests[0].messages[-1].text
    said = out.text
    assert said.count("\n  │ hello\n  │ ● shell done\n") == 2
    assert said.endswith("\nIt says hello.\n")
    assert "\x1b" not in said
    assert asked.startswith("what?\n\n")
    assert "«UNTRUSTED:" in asked
