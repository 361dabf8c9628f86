"""Decide which settings of a git repository a program may change, and describe the change in git's words.

Settings are compared key by key. Where remotes lie and what branches follow is asked about; any other key can
start a program, lead git elsewhere or speak in somebody's name, so it is never changed from a trial run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..lazy import dataclass, regex
from ..text import visible

__all__ = [
    "ODD_SETTING",
    "PLAIN_SETTINGS",
    "SettingsJudged",
    "judge_settings",
    "setting_names",
    "settings_in",
    "settings_listed",
]

Settings = Mapping[str, tuple[str, ...]]

# What `git init` and `git clone` write down of a new repository, and what of it says nothing new.
_DEFAULTS = {
    "core.repositoryformatversion": frozenset({"0"}),
    **dict.fromkeys(
        ("core.bare", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode"),
        frozenset({"true", "false"}),
    ),
    "core.logallrefupdates": frozenset({"true"}),
}
_REBASES = {"true", "false", "merges", "interactive", "m", "i"}

# A name that git takes for no path, URL or option; and a reference below one of git's own folders.
_NAME = regex(r"\w[\w.+-]*(?:/\w[\w.+-]*)*")
_REF = r"refs/[^\x00-\x20\x7f~^:?*\[\\]+"
_MERGED = regex(_REF)
_STARRED = r"refs/[^\x00-\x20\x7f~^:?\[\\]+"
_FETCHED = regex(
    rf"\+?{_STARRED}:refs/(?:remotes|tags)/[^\x00-\x20\x7f~^:?\[\\]+|\^{_STARRED}|\+?{_STARRED}|HEAD"
)
_USER = r"(?:[\w.%+~-]+(?::[^\s/@]*)?@)?"
_HTTPS = regex(rf"https://{_USER}\w[\w.-]*(?::\d+)?(?:/\S*)?")
_SSH = regex(r"ssh://(?:\w[\w.-]*@)?\w[\w.-]*(?::\d+)?/\S*|(?:\w[\w.-]*@)?\w[\w.-]*:(?![:/-])[^\s:]\S*")
_FOLDER = regex(r"(?:file://)?/.*|\.\.?/.*")
_PASSWORD = regex(r"(//[^/@:]*):[^/@]*@")
_LEADS_ON = regex(r"(?s).*(?:^|/)\.\.(?:/|$)|.*(?:/\.git(?:/|$)|//|@\{|\.lock(?:/|$))")


@dataclass(frozen=True, slots=True)
class SettingsJudged:
    """What changes of settings come to: what to ask about, and the keys that must not change, with why."""

    asks: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


def settings_listed(listed: str) -> dict[str, tuple[str, ...]]:
    """Return the settings in what `git config --list -z` prints; a key without a value is true."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in listed.split("\0"):
        if entry:
            key, newline, value = entry.partition("\n")
            found[key] = (*found.get(key, ()), value if newline else "true")
    return found


def judge_settings(before: Settings, after: Settings, *, is_new: bool = False) -> SettingsJudged:
    """Judge every key whose values differ; a new repository may have what `git init` writes."""
    asks, denied = [], []
    for key in sorted({*before, *after}):
        values = after.get(key, ())
        if before.get(key, ()) == values or (is_new and _is_default(key, values)):
            continue
        ruling = _describe(key, values, after)
        if ruling is None:
            denied.append(f"{visible(key)} is a setting that no trial run changes")
        elif isinstance(ruling, _Refused):
            denied.append(f"{visible(key)}: {ruling.why}")
        else:
            asks.append(ruling)
    return SettingsJudged(tuple(asks), tuple(denied))


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a value must not be, though its key may change."""

    why: str


def _is_default(key: str, values: tuple[str, ...]) -> bool:
    return len(values) == 1 and values[0] in _DEFAULTS.get(key, ())


def _describe(key: str, values: tuple[str, ...], after: Settings) -> str | _Refused | None:
    """Say what a key becomes, or why it must not; None for a key that no program changes."""
    section, _, rest = key.partition(".")
    name, dot, last = rest.rpartition(".")
    say = _SAYING.get((section, last))
    if say is None or not dot:
        return None
    if not _is_plain(name) or (section == "remote" and _NAME.fullmatch(name) is None):
        return _Refused("the name is none that git makes")
    refused = next(_refusals(section, last, values, after), None)
    return refused or say(name, values)


def _refusals(section: str, last: str, values: tuple[str, ...], after: Settings) -> Iterator[_Refused]:
    for value in values:
        why = None if _is_plain(value) else "the value holds characters that are not seen"
        if why := why or _CHECKS[section, last](value, after):
            yield _Refused(why)


def _is_plain(text: str) -> bool:
    return visible(text) == text and "\ufffd" not in text and len(text) < 1_000


def _checked_url(value: str, _: Settings) -> str | None:
    if "::" not in value and any(kind.fullmatch(value) for kind in (_HTTPS, _SSH, _FOLDER)):
        return None
    return "it is no address by https or ssh, and no folder"


def _checked_fetch(value: str, _: Settings) -> str | None:
    if _FETCHED.fullmatch(value) is None or _LEADS_ON.match(value):
        return "it would write more than remote-tracking branches and tags"
    return None


def _checked_remote(value: str, after: Settings) -> str | None:
    is_known = _NAME.fullmatch(value) is not None and f"remote.{value}.url" in after
    return None if value == "." or is_known else "it is not the name of a remote of this repository"


def _checked_merge(value: str, _: Settings) -> str | None:
    return None if _MERGED.fullmatch(value) and not _LEADS_ON.match(value) else "it is no branch"


def _checked_rebase(value: str, _: Settings) -> str | None:
    return None if value in _REBASES else "it is no way to rebase"


_CHECKS = {
    ("remote", "url"): _checked_url,
    ("remote", "fetch"): _checked_fetch,
    ("branch", "remote"): _checked_remote,
    ("branch", "merge"): _checked_merge,
    ("branch", "rebase"): _checked_rebase,
}


def _url(name: str, values: tuple[str, ...]) -> str:
    if not values:
        return f"remote {name} is removed"
    shown = (_PASSWORD.sub(r"\1:***@", value) for value in values)
    kinds = ("the folder " if _FOLDER.fullmatch(value) else "" for value in values)
    return f"remote {name} becomes {' and '.join(map(''.join, zip(kinds, shown, strict=True)))}"


def _fetch(name: str, values: tuple[str, ...]) -> str:
    return f"from remote {name} comes {' and '.join(values) or 'nothing any more unless it is named'}"


def _remote(name: str, values: tuple[str, ...]) -> str:
    if not values:
        return f"branch {name} follows no remote any more"
    where = "this repository" if values[-1] == "." else f"remote {values[-1]}"
    return f"branch {name} follows {where}"


def _merge(name: str, values: tuple[str, ...]) -> str:
    branches = " and ".join(value.removeprefix("refs/heads/") for value in values)
    return f"branch {name} is pulled from {branches}" if values else f"branch {name} is pulled from nothing"


def _rebase(name: str, values: tuple[str, ...]) -> str:
    return f"pulling branch {name} rebases: {values[-1] if values else 'as usual'}"


_SAYING = {
    ("remote", "url"): _url,
    ("remote", "fetch"): _fetch,
    ("branch", "remote"): _remote,
    ("branch", "merge"): _merge,
    ("branch", "rebase"): _rebase,
}


# Possessive: a line is gone through once, whatever is missing at its end.
_HEADER = regex(r'\[\s*+([A-Za-z0-9.-]++)(?:\s*+"((?:[^"\\\n]|\\.)*)")?\s*+\]')
# Longer than a setting is: such a line is not even looked through.
_LONGEST_LINE = 4096
_UNSURE = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]|\\$")
_SETTING_KEY = regex(r"[A-Za-z][A-Za-z0-9-]*")

PLAIN_SETTINGS = (
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode"
    r"|autocrlf|eol|safecrlf|quotepath)|user\.(?:name|email)|init\.defaultbranch"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune|gh-resolved)"
    r"|branch\..+\.(?:remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base)"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|fetch\.prune"
)
"""What `git clone` and everyday use write down: it starts no program and names no file."""

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
        key = _SETTING_KEY.match(rest)
        if key is None or not section:
            yield ODD_SETTING, ""
        else:
            value = rest[key.end() :].partition("=")[2].strip()
            yield f"{section}.{key[0].lower()}", value.strip('"')
