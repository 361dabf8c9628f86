"""Git commands that only look, how they are run, and the repository settings that could run something.

A repository's own settings can name programs (pagers, hooks, filters, monitors). Forms that only
read are printed with all of that off; settings that cannot be switched off are facts about the repository,
looked up before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ..syntax import Note, Word, literal
from .options import Parsed, parse_options
from .tables import lines_of

__all__ = [
    "ODD_SETTING",
    "PLAIN_SETTINGS",
    "UNREAD_PARTS",
    "as_run",
    "git_folder",
    "git_notes",
    "git_runs",
    "is_plain_head",
    "leads_elsewhere",
    "neutralised",
    "odd_settings",
    "passes_over_hidden",
    "plain_form",
    "setting_names",
    "settings_in",
    "shown_by",
    "without_globals",
]


_EVERY_GLOBAL = (
    "-C:folder -P --no-pager --no-optional-locks --no-replace-objects --literal-pathspecs --version "
    "-p --paginate -c: --config-env: --exec-path? --git-dir:folder --work-tree:folder "
    "--namespace: --bare --help --html-path --info-path --man-path --glob-pathspecs "
    "--noglob-pathspecs --icase-pathspecs --super-prefix: --list-cmds: --attr-source:"
)

# All options of the plain forms; none has an operand. They print names and first lines of messages only.
_PLAIN = {
    "branch": "-arv --all --remotes --verbose --list --show-current",
    "log": "-# -n: --max-count: --oneline",
    "rev-parse": "--show-toplevel",
    "status": "-sb --short --branch --porcelain?",
}
_NEEDED = {"log": "--oneline", "rev-parse": "--show-toplevel"}
_PLAIN_VALUE = re.compile(r"[0-9]{1,9}|v[12]")
_NEUTRAL = tuple(
    literal(word)
    for word in (
        "--no-pager --no-optional-locks -c core.fsmonitor=false -c core.hooksPath=/dev/null "
        "-c core.attributesFile=/dev/null -c core.multiPackIndex=false -c core.untrackedCache=false "
        "-c protocol.allow=never -c log.showSignature=false -c column.ui=never"
    ).split()
)
# In a submodule git would run once more, under the settings of that one.
_NEUTRAL_BEHIND = {"status": (literal("--ignore-submodules=all"),)}

_SHOWS = frozenset("annotate blame cat-file diff grep log show whatchanged".split())
_SEARCHES = frozenset("-S -G -e --grep --author --committer".split())
_SAFE_SETTING = re.compile(
    r"(?i)user\.(?:name|email)|color\..*|advice\..*|core\.(?:quotepath|autocrlf|eol|filemode|abbrev|longpaths)"
    r"|init\.defaultbranch|commit\.gpgsign|tag\.gpgsign|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)"
    r"|log\.(?:date|decorate|abbrevcommit)|diff\.(?:renames|algorithm|colormoved|context)|http\.(?:postbuffer|lowspeed.*)"
    r"|merge\.(?:conflictstyle|ff)|rebase\.auto.*|fetch\.(?:prune|parallel)|column\..*|format\.pretty|grep\..*"
)
_RUNNING_SETTING = re.compile(
    r"(?i)alias\..*|include(?:if)?\..*|filter\..*|diff\.external|(?:diff|merge)\..*\.(?:command|textconv|driver)"
    r"|(?:diff|merge)tool\..*|core\.(?:fsmonitor|hookspath|pager|editor|sshcommand|gitproxy|askpass|worktree"
    r"|attributesfile|alternaterefscommand)|pager\..*|credential\..*|gpg\..*|sequence\.editor|uploadpack\..*"
    r"|receive\..*|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)|protocol\..*|url\..*|http\..*proxy.*|browser\..*"
    r"|man\..*|guitool\..*|sendemail\..*|trailer\..*|interactive\.difffilter|submodule\..*\.update|init\.templatedir"
)
_RUNNING_OPTIONS = (
    "--ext-diff", "--textconv", "--filters", "--open-files-in-pager", "--upload-pack", "--receive-pack",
    "--extcmd", "--template", "--config", "--exec-path", "--config-env", "--smtp-server", "--sendmail-cmd",
    "--to-cmd", "--cc-cmd", "--header-cmd", "--strategy", "--gpg-sign-program", "--show-signature",
)  # fmt: skip
_RUNNING_COMMANDS = frozenset(
    "filter-branch difftool mergetool send-email instaweb gui citool daemon http-backend shell remote-ext "
    "credential web--browse hook p4 svn archimport cvsimport fast-import".split()
)


def plain_form(words: tuple[Word, ...]) -> str | None:
    """Return the sub-command (or `--version`) of a git command that has a plain form, else None."""
    if not all(word.is_literal for word in words):
        return None
    if [word.text for word in words[1:]] == ["--version"]:
        return "--version"
    found = parse_options(words[1:], "--no-pager", stops=True)
    name = found.operands[0].text if found.operands and found.unknown is None else ""
    if name not in _PLAIN:
        return None
    parsed = parse_options(found.operands[1:], _PLAIN[name])
    values = [value.text for _, value, _ in parsed.options if value is not None]
    if parsed.unknown is not None or parsed.operands or not all(map(_PLAIN_VALUE.fullmatch, values)):
        return None
    return name if name not in _NEEDED or parsed.has(_NEEDED[name]) else None


def shown_by(words: tuple[Word, ...]) -> Iterator[Word]:
    """Yield what may be paths among the words of a git command that prints the content of tracked files."""
    operands = parse_options(words[1:], _EVERY_GLOBAL, stops=True).operands
    name = operands[0].text if operands else ""
    if name not in _SHOWS:
        return
    given = list(operands[1:])
    if name == "grep" and not any(word.text.startswith("-e") for word in given):
        pattern = next((word for word in given if not word.text.startswith("-")), None)
        given = [word for word in given if word is not pattern]
    for before, word in pairwise([operands[0], *given]):
        is_text = before.text in _SEARCHES and name not in {"annotate", "blame"}
        if is_text or (word.text.startswith("-") and ":" not in word.text):
            continue
        yield word
        if ":" in word.text:
            # `revision:path` and `:path` show what lies at the path.
            yield literal(word.text.rpartition(":")[2])


def git_folder(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the folders that `-C` names, in order."""
    found = parse_options(words[1:], _EVERY_GLOBAL, stops=True)
    return tuple(value for name, value, _ in found.options if name == "-C" and value is not None)


def without_globals(words: tuple[Word, ...]) -> tuple[str, ...]:
    """Return the sub-command and all behind it; the words are those behind the program's name."""
    return tuple(word.text for word in parse_options(words, _EVERY_GLOBAL, stops=True).operands)


def neutralised(words: tuple[Word, ...], workspace: str = "") -> tuple[Word, ...]:
    """Return a command as it is run: a plain form of git, with nothing left that starts a program.

    With a workspace it is run in the repository there and in no other: git itself would look for one, and
    take another where it may not enter a part of this.
    """
    if not words or words[0].text.rpartition("/")[2] != "git":
        return words
    form = plain_form(words)
    if form is None or form == "--version":
        return words
    at = next(at for at, word in enumerate(words) if at and word.text == form) + 1
    where = (f"--git-dir={workspace}/.git", f"--work-tree={workspace}") if workspace else ()
    return (
        words[0],
        *map(literal, where),
        *_NEUTRAL,
        *words[1:at],
        *_NEUTRAL_BEHIND.get(form, ()),
        *words[at:],
    )


def git_notes(words: tuple[Word, ...]) -> tuple[Note, ...]:
    """Return why a git command may start a program of somebody's choosing."""
    return tuple(Note("code", f"git {reason}") for reason in dict.fromkeys(_reasons(words)))


def _reasons(words: tuple[Word, ...]) -> Iterator[str]:
    found = parse_options(words[1:], _EVERY_GLOBAL, stops=True)
    for name, value, _ in found.options:
        key = value.text.partition("=")[0] if value is not None else ""
        if name in {"--exec-path", "--config-env"} or (name == "-c" and not _SAFE_SETTING.fullmatch(key)):
            yield "is given a setting that can start a program"
    texts = [word.text for word in found.operands]
    command = texts[0] if texts else ""
    if command in _RUNNING_COMMANDS or texts[:2] in (["submodule", "foreach"], ["bisect", "run"]):
        yield f"{command} starts other programs"
    if any(text.startswith("ext::") or "::" in text.partition("/")[0] for text in texts):
        yield "is given a remote that starts a program"
    if any(_is_running_option(text, command) for text in texts[1:]):
        yield "is given an option that starts a program"
    changes = command == "config" and not {"--get", "--get-all"} & set(texts)
    if changes and any(_RUNNING_SETTING.fullmatch(text.partition("=")[0]) for text in texts[1:]):
        yield "config changes a setting that starts a program"


def _is_running_option(text: str, command: str) -> bool:
    name = text.partition("=")[0]
    if name.startswith("--"):
        return len(name) > 4 and any(option.startswith(name) for option in _RUNNING_OPTIONS)
    return (command, text[:2]) in {("grep", "-O"), ("clone", "-c"), ("clone", "-u"), ("archive", "--exec")}


def git_runs(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words that git hands to a shell: `rebase --exec`, `bisect run`, settings like an alias."""
    found = parse_options(words[1:], _EVERY_GLOBAL, stops=True)
    operands = found.operands
    texts = [word.text for word in operands]
    settings = [value.text for name, value, _ in found.options if name == "-c" and value is not None]
    if texts[:1] == ["config"] and len(texts) > 2:
        settings.append(f"{texts[-2]}={texts[-1]}")
    code = tuple(map(literal, filter(None, map(_code_of, settings))))
    return (*code, *_handed_on(operands, texts))


def _code_of(setting: str) -> str:
    """Return the shell code in `key=value`, or nothing; an alias without a mark is a command of git's."""
    key, _, value = setting.partition("=")
    if _SAFE_SETTING.fullmatch(key) or not _RUNNING_SETTING.fullmatch(key):
        return ""
    if key.lower().startswith("alias."):
        return value[1:] if value.startswith("!") else f"git {value}"
    return value.removeprefix("!")


def _handed_on(operands: tuple[Word, ...], texts: list[str]) -> tuple[Word, ...]:
    if texts[:1] == ["rebase"]:
        found = parse_options(operands[1:], "-x: --exec: -i --interactive --onto: --autosquash --root")
        return tuple(
            value for name, value, _ in found.options if name in {"-x", "--exec"} and value is not None
        )
    if texts[:2] in (["bisect", "run"], ["submodule", "foreach"]):
        rest = tuple(word for word in operands[2:] if word.text not in {"--recursive", "-q", "--quiet"})
        return rest if len(rest) == 1 and texts[0] == "submodule" else (_joined(rest),) if rest else ()
    return ()


def _joined(words: tuple[Word, ...]) -> Word:
    """Return an argument vector as a line; one with something open in it stays open, so it is not read."""
    if not all(word.is_literal for word in words):
        return next(word for word in words if not word.is_literal)
    return literal(" ".join("'" + word.text.replace("'", "'\\''") + "'" for word in words))


# A pattern of names comes before what any ignore file says.
_NO_HIDDEN = (literal("-g"), literal("!.*"))


def as_run(words: tuple[Word, ...], workspace: str = "") -> tuple[Word, ...]:
    """Return the words with which a command is run; git in the repository of a workspace, if given."""
    if not words or words[0].text != "rg" or words[1:3] == _NO_HIDDEN:
        return neutralised(words, workspace)
    parsed = parse_options(words[1:], lines_of("programs.toml")["rg"]["options"])
    return (words[0], *_NO_HIDDEN, *words[1:]) if passes_over_hidden(parsed) else words


def passes_over_hidden(parsed: Parsed) -> bool:
    """Whether `rg` with these options leaves hidden files out."""
    return parsed.unknown is None and not parsed.has("--hidden", "-.", "-u", "--unrestricted")


# Possessive: a line is gone through once, whatever is missing at its end.
_HEADER = re.compile(r'\[\s*+([A-Za-z0-9.-]++)(?:\s*+"((?:[^"\\\n]|\\.)*)")?\s*+\]')
# Longer than a setting is: such a line is not even looked through.
_LONGEST_LINE = 4096
_UNSURE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]|\\$")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

PLAIN_SETTINGS = (
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode"
    r"|autocrlf|eol|safecrlf|quotepath)|user\.(?:name|email)|init\.defaultbranch"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune|gh-resolved)"
    r"|branch\..+\.(?:remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base)"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|fetch\.prune"
)
"""What `git clone` and everyday use write down: none of it starts a program or names a file."""

_PLAIN_SETTING = re.compile(PLAIN_SETTINGS)
# A symbolic reference that leads elsewhere, or what git does not take for a repository, makes it walk up.
_HEAD = re.compile(r"(?:ref: refs/heads/[^\x00-\x20\x7f]+|[0-9a-f]{40})\n?")

UNREAD_PARTS = frozenset({"hooks", "lfs", "annex"})
"""Parts of `.git` that no plain form of git reads: hooks are switched off, the rest is of other programs."""

_LEADING = frozenset(
    "commondir gitdir config.worktree worktrees modules objects/info/alternates "
    "objects/info/http-alternates".split()
)


def odd_settings(config: str) -> tuple[str, ...]:
    """Return the names of settings that are not plain in the text of a configuration, each once.

    What does not read as a configuration is named as well: git may read it otherwise.
    """
    names = setting_names(config)
    return tuple(
        dict.fromkeys(name for name in names if name is ODD_SETTING or not _PLAIN_SETTING.fullmatch(name))
    )


def is_plain_head(text: str) -> bool:
    """Whether git takes a folder with this `HEAD` for a repository, on a branch or a commit of its own."""
    return _HEAD.fullmatch(text) is not None


def leads_elsewhere(part: str) -> bool:
    """Whether a part of `.git`, by its path in there, says where else git is to look."""
    return part.lower() in _LEADING


ODD_SETTING = "a line that cannot be read"
"""What `setting_names` yields for a line that does not read as a setting."""


def setting_names(config: str) -> Iterator[str]:
    """Yield every key as `section.subsection.key`, in lower case."""
    return (name for name, _ in settings_in(config))


def settings_in(config: str) -> Iterator[tuple[str, str]]:
    """Yield every key, as `setting_names` does, and its value without quotes."""
    section = ""
    for line in config.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"):
        if len(line) > _LONGEST_LINE or _UNSURE.search(line):
            # What continues a line depends on where comments and quotes are: no setting needs it.
            yield ODD_SETTING, ""
            continue
        rest = line.strip()
        while rest.startswith("[") and (header := _HEADER.match(rest)) is not None:
            section = ".".join(filter(None, header.groups())).lower()
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        key = _KEY.match(rest)
        if key is None or not section:
            yield ODD_SETTING, ""
        else:
            value = rest[key.end() :].partition("=")[2].strip()
            yield f"{section}.{key[0].lower()}", value.strip('"')
