"""Which git commands only look, and how do they run so that a repository cannot make them do more?

A repository's own settings can name programs (pagers, hooks, filters, monitors). Forms that only
read are therefore printed with all of that off; `git.toml` lists them. Settings that cannot be
switched off are a fact about the repository, looked up before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .nouns import Note, Word, literal
from .options import Parsed, parse_options
from .tables import table

__all__ = [
    "GitForm",
    "git_folder",
    "git_form",
    "git_notes",
    "git_runs",
    "neutralised",
    "without_globals",
]

GitForm = tuple[str, Parsed]

_GLOBAL = "-C:folder -P --no-pager --no-optional-locks --no-replace-objects --literal-pathspecs --version"
_EVERY_GLOBAL = (
    f"{_GLOBAL} -p --paginate -c: --config-env: --exec-path? --git-dir:folder --work-tree:folder "
    "--namespace: --bare --help --html-path --info-path --man-path --glob-pathspecs "
    "--noglob-pathspecs --icase-pathspecs --super-prefix: --list-cmds: --attr-source:"
)

_NEUTRAL = tuple(
    literal(word)
    for word in (
        "--no-pager --no-optional-locks -c core.fsmonitor=false -c core.hooksPath=/dev/null -c "
        "core.pager=cat "
        "-c core.attributesFile=/dev/null -c protocol.allow=never -c safe.bareRepository=explicit "
        "-c log.showSignature=false -c gpg.program=false -c gpg.ssh.program=false -c gpg.x509.program=false "
        "-c submodule.recurse=false -c diff.submodule=short -c diff.autoRefreshIndex=false "
        "-c status.submoduleSummary=false -c mailmap.file= -c mailmap.blob= -c grep.fallbackToNoIndex=false"
    ).split()
)
# It prints the lines of the file this setting names; `status` only obeys them.
_NEUTRAL_ONLY = {"check-ignore": (literal("-c"), literal("core.excludesFile=/dev/null"))}
_SIGNATURE = re.compile(r"%(?:\+|-| )?G|%\((?:signature|gpg)")
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


def git_form(words: tuple[Word, ...]) -> GitForm | None:
    """Return the sub-command and its parsed words where a git command only reads, else None."""
    found = parse_options(words[1:], _GLOBAL, stops=True)
    if found.unknown is not None or (not found.operands and not found.has("--version")):
        return None
    if not found.operands:
        return "--version", found
    if not all(word.is_literal for word in words):
        return None
    name = found.operands[0].text
    line = table("git.toml")["reads"].get(name)
    if line is None:
        return None
    parsed = parse_options(found.operands[1:], line["options"])
    return (name, parsed) if _only_reads(parsed, line) else None


def _only_reads(parsed: Parsed, line: dict[str, str]) -> bool:
    if parsed.unknown is not None:
        return False
    if any(value is not None and _SIGNATURE.search(value.text) for _, value, _ in parsed.options):
        return False
    if "needs" in line and not parsed.has(*line["needs"].split()):
        return False
    first = parsed.operands[0].text if parsed.operands else ""
    if "first" in line:
        return first in line["first"].split() or (not first and line.get("bare", "") == "yes")
    if "named" in line and not _names_a_setting(parsed, line["named"].split()):
        return False
    if "most" in line and len(parsed.operands) > int(line["most"]):
        # Words beyond those would be names of something new, unless an option asks for a list.
        return parsed.has(*line.get("listing", "").split())
    return True


def _names_a_setting(parsed: Parsed, sections: list[str]) -> bool:
    """Whether settings are asked for that hold no secret; all of the workspace's own may be listed."""
    if parsed.has("--list", "-l"):
        return parsed.has("--local") and not parsed.has("--global", "--system") and not parsed.operands
    section, dot, _ = parsed.operands[0].text.lower().partition(".") if parsed.operands else ("", "", "")
    return bool(dot) and len(parsed.operands) == 1 and section in sections


def git_folder(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the folders that `-C` names, in order."""
    found = parse_options(words[1:], _EVERY_GLOBAL, stops=True)
    return tuple(value for name, value, _ in found.options if name == "-C" and value is not None)


def without_globals(words: tuple[Word, ...]) -> tuple[str, ...]:
    """Return the sub-command and all behind it; the words are those behind the program's name."""
    return tuple(word.text for word in parse_options(words, _EVERY_GLOBAL, stops=True).operands)


def neutralised(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return a command as it is run: a git form that only reads, with nothing left that starts a program."""
    if not words or words[0].text.rpartition("/")[2] != "git":
        return words
    form = git_form(words)
    if form is None or form[0] == "--version":
        return words
    at = len(words) - len(parse_options(words[1:], _GLOBAL, stops=True).operands)
    more = table("git.toml")["reads"][form[0]].get("neutral", "")
    only = _NEUTRAL_ONLY.get(form[0], ())
    return (words[0], *_NEUTRAL, *only, *words[1 : at + 1], *map(literal, more.split()), *words[at + 1 :])


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
