"""Find assignments and builtins that change what later words of a line mean.

These are assignments that decide which programs run or what those load, and builtins that redefine
words, evaluate values as code, or install callbacks.
"""

from __future__ import annotations

import re

from ...lazy import regex
from .nodes import Assignment, Command, Note, Word

__all__ = [
    "BUILTINS",
    "builtin_notes",
    "decides_what_runs",
    "declared",
    "is_harmless",
    "poison_notes",
]

BUILTINS = frozenset(
    "alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs "
    "disown echo "
    "enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout "
    "mapfile popd "
    "printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap "
    "true type "
    "typeset ulimit umask unalias unset wait . : [".split()
)
"""What bash does itself; no file of that name is run."""

_POISON = regex(
    r"PATH|IFS|ENV|BASH_ENV|BASH_FUNC.*|SHELLOPTS|BASHOPTS|BASH_LOADABLES_PATH|PS[0-4]|PROMPT_COMMAND|SHELL|HOME|(?:OLD)?PWD|CDPATH"
    r"|GLOBIGNORE|EXECIGNORE|FIGNORE|POSIXLY_CORRECT|TMPDIR"
    r"|LD_.*|DYLD_.*|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES|RES_OPTIONS|MALLOC_.*|GLIBC_TUNABLES"
    r"|GIT_.*|SSH_.*|GPG_.*|GNUPGHOME|.*PAGER|.*EDITOR|VISUAL|BROWSER|LESS.*|MAN.*|.*ASKPASS"
    r"|PERL5?(?:LIB|OPT|DB)|PERL5SHELL|RUBY(?:OPT|LIB)|PYTHON(?:STARTUP|HOME|INSPECT|USERBASE|BREAKPOINT|EXECUTABLE)"
    r"|NODE_(?:OPTIONS|PATH)|NPM_CONFIG_.*|npm_config_.*|.*JAVA_(?:TOOL_)?OPTIONS|MAVEN_OPTS|GRADLE_OPTS"
    r"|CLASSPATH|LUA_(?:INIT|PATH|CPATH).*|R_PROFILE.*|R_ENVIRON.*|PHPRC|PHP_INI_SCAN_DIR"
    r"|MAKEFLAGS|MFLAGS|MAKEFILES|GOFLAGS|GOTOOLCHAIN|RUSTC(?:_.*WRAPPER)?|CARGO_.*|RUSTFLAGS|CC|CXX|LD|AR"
    r"|.*_COMMAND|.*_HELPER|.*_WRAPPER|.*_PRELOAD|OPENSSL_.*|SSL_CERT_.*|CURL_.*|WGETRC|RIPGREP_CONFIG_PATH"
    r"|TAR_OPTIONS|ZIPOPT|UNZIP|GZIP|BZIP2?|XZ_(?:OPT|DEFAULTS)|RSYNC_.*|SYSTEMD_.*|DOCKER_.*|KUBECONFIG"
    r"|(?:http|https|ftp|all|HTTP|HTTPS|FTP|ALL)_(?:proxy|PROXY)|PIP_.*|UV_.*|XDG_.*|TERM(?:INFO|CAP).*|BC_.*|AWKPATH|AWKLIBPATH"
)
# They change how something is spelled or sorted.
_HARMLESS = regex(
    r"(?:LANG|LC_(?:ALL|COLLATE|CTYPE|NUMERIC|TIME))=[A-Za-z0-9_.@-]*"
    r"|TZ=[A-Za-z][A-Za-z0-9_+/-]*|NO_COLOR=[a-z0-9]*|COLUMNS=[0-9]+"
)
_DECLARING = frozenset("declare typeset export readonly local".split())
_FILLING = frozenset("read mapfile readarray printf getopts unset wait".split())
_NAMING = _DECLARING | _FILLING
_REDEFINES = frozenset("alias unalias enable bind complete compopt shopt".split())
_SET = regex(r"[-+][eux]+|[-+]o|errexit|nounset|pipefail|xtrace|[-+][eux]*o")
_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*")


def is_harmless(assignment: Assignment) -> bool:
    """Whether an assignment changes at most how something is spelled or sorted."""
    return _HARMLESS.fullmatch(str(assignment)) is not None


def declared(command: Command) -> tuple[Assignment, ...]:
    """Return what a command assigns: in front of a program, on its own, or by `export` and its kin."""
    found = list(command.assignments)
    if command.name in _DECLARING:
        for word in command.words[1:]:
            name, mark, value = word.text.partition("=")
            if mark and _NAME.fullmatch(name.rstrip("+")):
                found.append(Assignment(name.rstrip("+"), Word(value), name.endswith("+")))
    return tuple(found)


def poison_notes(command: Command, *written: str) -> tuple[Note, ...]:
    """Return a note for each assignment (of the command, or written out) that decides what runs."""
    names = [found.name for found in declared(command) if not is_separator(found, command)]
    names += [text.partition("=")[0].rstrip("+") for text in written]
    if command.name in _FILLING:
        names += [word.text for word in command.words[1:]]
    if not names:
        return ()
    return tuple(
        Note("poison", f"it sets {name}, which decides what programs run or load")
        for name in dict.fromkeys(names)
        if decides_what_runs(name)
    )


def is_separator(assignment: Assignment, command: Command) -> bool:
    """Whether it only says where `read` divides what it reads; behind it all is as before."""
    return assignment.name == "IFS" and command.name == "read" and assignment in command.assignments


def decides_what_runs(name: str) -> bool:
    """Whether a variable says which programs run, what they load, or where they find it."""
    return _POISON.fullmatch(name) is not None


def builtin_notes(command: Command) -> tuple[Note, ...]:
    """Return what a builtin changes about the words behind it, or evaluates as code."""
    reason = _changes(command.name, command.words[1:])
    return (Note("redefines", reason),) if reason else ()


def _changes(name: str, words: tuple[Word, ...]) -> str | None:
    texts = [word.text for word in words]
    if name in _REDEFINES and words:
        return f"{name} changes what later words mean"
    if name == "set" and not all(_SET.fullmatch(text) for text in texts):
        return "set changes how the rest of the line is read"
    if name == "hash" and any(text.startswith("-") and "p" in text for text in texts):
        return "hash says which file a program is"
    if name == "compgen" and any(re.match(r"-\w*[CFW]", text) for text in texts):
        return "compgen runs what it is given"
    if name in {"mapfile", "readarray"} and any(text.startswith("-") and "C" in text for text in texts):
        return f"{name} calls back"
    if name == "let" or (name in {"test", "["} and {"-v", "-R"} & set(texts)):
        return f"{name} evaluates what it is given"
    if name in _DECLARING and any(re.match(r"[-+]\w*[inAa]", text) for text in texts):
        return f"{name} makes a variable that is evaluated"
    if name in _NAMING and _names_an_element(name, words):
        return f"{name} evaluates the name of a variable"
    return None


def _names_an_element(name: str, words: tuple[Word, ...]) -> bool:
    """Whether a variable is named by something that is no plain name: a subscript is evaluated."""
    if name == "printf":
        first = words[0].text if words else ""
        return first.startswith("-v") and not (
            len(words) > 1 and _NAME.fullmatch(words[1].text) and first == "-v"
        )
    if name == "wait":
        return any(word.text.startswith("-p") for word in words)
    if name == "read" and any(not word.is_literal for word in words):
        return True
    return any(not word.text.startswith("-") and "[" in word.text.partition("=")[0] for word in words)
