"""What may follow is offered: names of commands, their arguments, files; nothing secret, nothing outside."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from leeward.runtime.config import set_trusted
from leeward.runtime.repl.attach import attachments
from leeward.runtime.repl.complete import ChatCompleter
from leeward.runtime.repl.terminal import Typed


@pytest.fixture
async def completed(sessions, tmp_path):
    """Returns the texts that a line becomes."""
    places = sessions.places(tmp_path.resolve())
    for name in (
        "notes.md",
        "two words.md",
        "my folder/a b.txt",
        "src/main.py",
        ".env",
        'quo"te',
        "line\nend",
    ):
        (places.workspace / name).parent.mkdir(exist_ok=True)
        (places.workspace / name).write_text("TOKEN=fake")
    (tmp_path / "outside.md").write_text("x")
    (places.workspace / "way").symlink_to(tmp_path.resolve())
    own, brought = places.config / "commands", places.workspace / ".leeward/commands"
    for folder, name in ((own, "review"), (brought, "release")):
        folder.mkdir(parents=True)
        (folder / f"{name}.md").write_text(f"# What {name} is for\nDo it.")
    set_trusted(places.data, places.workspace, True)
    async with sessions.session(tmp_path) as runtime:
        completer = ChatCompleter(runtime)

        def of(line: str) -> list[str]:
            found = completer.get_completions(Document(line), CompleteEvent())
            return [line[: len(line) + one.start_position] + one.text for one in found]

        of.runtime = runtime
        yield of


LINES = {
    "/rev": ["/review"],
    "/rel": ["/release"],
    "/cop": ["/copy"],
    "/config agent.max_tu": ["/config agent.max_turns"],
    "/config agent.max_turns x": [],
    "/autonomy re": ["/autonomy readonly"],
    "/plan a": ["/plan accept"],
    "/skill o": ["/skill off"],
    "see @no": ["see @notes.md"],
    "see @src/": ["see @src/main.py"],
    "see @two": ['see @"two words.md"'],
    'see @"two': ['see @"two words.md"'],
    'see @"my': ['see @"my folder/'],
    'see @"my folder/': ['see @"my folder/a b.txt"'],
    "see @my": ['see @"my folder/'],
    "see @.e": [],
    "see @../": [],
    "see @/": [],
    "see @/etc/pass": [],
    "see @way/out": [],
    "see @quo": [],
    "see @line": [],
}


@pytest.mark.parametrize("line", LINES)
async def test_a_line_becomes(completed, line):
    assert completed(line) == LINES[line]


async def test_a_command_of_an_untrusted_workspace_is_not_offered(completed):
    places = completed.runtime.places
    set_trusted(places.data, places.workspace, False)
    assert completed("/rel") == []


async def test_what_is_named_goes_along_by_what_it_is_and_too_many_names_are_said(completed):
    runtime = completed.runtime
    (runtime.places.workspace / "a folder named folder").mkdir()
    texts, _ = await attachments(Typed('@notes.md @src @"a folder named folder" @nothing.md'), runtime)
    assert "TOKEN" in texts[0] and "main.py" in texts[1] and len(texts) == 4
    many = Typed(" ".join(f"@n{number}" for number in range(21)))
    with pytest.raises(Exception, match="21 files are named"):
        await attachments(many, runtime)
