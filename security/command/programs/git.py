"""Find what of a git command starts a program, its sub-command, and the folder it works in.

Settings can name programs (pagers, hooks, filters, monitors, aliases), and options can.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...lazy import regex
from ..syntax import Note, Word, literal
from .options import parse_options

__all__ = [
    "git_folder",
    "git_notes",
    "git_runs",
    "without_globals",
]


_EVERY_GLOBAL = (
    "-C:folder -P --no-pager --no-optional-locks --no-replace-objects --literal-pathspecs --version "
    "-p --paginate -c: --config-env: --exec-path? --git-dir:folder --work-tree:folder "
    "--namespace: --bare --help --html-path --info-path --man-path --glob-pathspecs "
    "--noglob-pathspecs --icase-pathspecs --super-prefix: --list-cmds: --attr-source:"
)

_SAFE_SETTING = regex(
    r"(?i)user\.(?:name|email)|color\..*|advice\..*|core\.(?:quotepath|autocrlf|eol|filemode|abbrev|longpaths)"
    r"|init\.defaultbranch|commit\.gpgsign|tag\.gpgsign|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)"
    r"|log\.(?:date|decorate|abbrevcommit)|diff\.(?:renames|algorithm|colormoved|context)|http\.(?:postbuffer|lowspeed.*)"
    r"|merge\.(?:conflictstyle|ff)|rebase\.auto.*|fetch\.(?:prune|parallel)|column\..*|format\.pretty|grep\..*"
)
_RUNNING_SETTING = regex(
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


def git_folder(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the folders that `-C` names, in order."""
    found = parse_options(words[1:], _EVERY_GLOBAL, stops=True)
    return tuple(value for name, value, _ in found.options if name == "-C" and value is not None)


def without_globals(words: tuple[Word, ...]) -> tuple[str, ...]:
    """Return the sub-command and all behind it; the words are those behind the program's name."""
    return tuple(word.text for word in parse_options(words, _EVERY_GLOBAL, stops=True).operands)


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
