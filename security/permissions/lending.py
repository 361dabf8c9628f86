"""Decide which secrets a command line is lent: by a rule of the person's that names program and secret.

1. Only a line that is that one program has it, spelled in plain words: no pipe, redirection, substitution or
   assignment, and nothing that the rule's words do not begin.
2. Only where its network is single hosts; these are then the secret's, and no other.
3. Several secrets go together only where their hosts are the same: what one host may have, the others may.
4. The person is asked once in a session for each secret and rule; no rule, grant or autonomy answers that.
"""

from __future__ import annotations

import hashlib
import shlex

from .. import command
from ..call import Action, Atom
from ..kinds import UNKNOWN, CommandLine, Effect, Kind, Runs
from ..lazy import regex
from ..paths import is_inside
from ..policy import LEND, Autonomy, Policy, ScopedSecret
from ..session import Session
from ..url import is_reached
from ..verdict import Allow, Ask

__all__ = ["is_of_lent", "lending_word", "lent_names", "lent_to", "reads_lent"]

# Words that mean to a shell what they say, and quoted ones without a quotation mark in them.
_PLAIN = regex(r"(?:[A-Za-z0-9_@%+=:,./-]|'[^'\n]*')+(?: +(?:[A-Za-z0-9_@%+=:,./-]|'[^'\n]*')+)*")
_QUESTION = "lend it a secret? it runs for real, with the network of that secret's hosts alone"
_WITHHELD = "; what it prints is shown to nobody"


def lent_to(action: Action, policy: Policy) -> tuple[tuple[ScopedSecret, str], ...]:
    """Return the secrets that the command line of a call is lent, each with the program its rule names."""
    lines = action.of_kind(Kind.COMMAND)
    if not policy.secrets or len(lines) != 1 or not policy.sandbox.by_host:
        return ()
    if policy.autonomy is Autonomy.READONLY or not action.may_be_tried or action.again or action.of:
        return ()
    argv = _words_of(lines[0])
    rules = ((secret, rule) for secret in policy.secrets for rule in secret.programs)
    found = tuple((secret, rule) for secret, rule in rules if argv and _begins(argv, rule))
    hosts = {secret.hosts for secret, _ in found}
    if len(hosts) != 1 or not _stays_at(lines[0], hosts.pop(), policy):
        return ()
    return found


def lent_names(lent: tuple[tuple[ScopedSecret, str], ...], action: Action) -> tuple[str, ...]:
    """Return what is lent, as it goes on record: `NAME to PROGRAM`, and the hash of code run by name."""
    code = sorted(action.bound.code.items())
    digest = hashlib.sha256(repr(code).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return tuple(f"{secret.name} to {rule}{f' with code {digest}' if code else ''}" for secret, rule in lent)


def is_of_lent(action: Action, session: Session) -> bool:
    """Whether a call is about what a program changed that was lent a secret."""
    return action.of is not None and action.of.call.id in session.lent_calls


def reads_lent(action: Action, session: Session) -> bool:
    """Whether a call may read what a program wrote that was lent a secret: it may hold it in any form."""
    if not session.lent_files or action.of is not None:
        return False
    places = (path for place in action.places for path in (place.text, place.real))
    # A program reads what it likes, and a search what lies below where it begins.
    return bool(action.effects & Effect.EXECUTE) or any(
        is_inside(path, lent) or is_inside(lent, path) for path in places for lent in session.lent_files
    )


def lending_word(
    action: Action, lent: tuple[tuple[ScopedSecret, str], ...], session: Session, *, force: bool
) -> Allow | Ask:
    """Allow a line that is lent secrets to run for real, once the person has agreed to lend these.

    With `force` a question is put in any case. A yes is to the code that the line runs by name: one that a
    model writes anew could tell the secret bit by bit, by how it ends.
    """
    names, is_known = lent_names(lent, action), UNKNOWN not in action.bound.code.values()
    if not force and is_known and session.lent.issuperset(names):
        return Allow(runs=Runs.REAL)
    shows = all(secret.shows_output for secret, _ in lent)
    facts = [("secret", name) for name in names]
    facts += [("host", host) for host in lent[0][0].hosts]
    question = _QUESTION if shows else f"{_QUESTION}{_WITHHELD}"
    return Ask(LEND, question, action.of_kind(Kind.COMMAND), force=True, facts=tuple(facts), runs=Runs.REAL)


def _words_of(atom: Atom) -> tuple[str, ...]:
    """Return the words of a line that is one program in plain words, none where it is anything else."""
    line = atom.canonical
    if not isinstance(line, CommandLine) or not _PLAIN.fullmatch(atom.raw.strip()):
        return ()
    words = tuple(shlex.split(atom.raw))
    return words if line.written == (words,) and "=" not in words[0] else ()


def _begins(argv: tuple[str, ...], rule: str) -> bool:
    words = tuple(shlex.split(rule))
    return argv[: len(words)] == words


def _stays_at(atom: Atom, hosts: tuple[str, ...], policy: Policy) -> bool:
    """Whether the hosts that a line names are among those it may reach."""
    assert isinstance(atom.canonical, CommandLine)
    named = command.urls_by_proxy(atom.canonical, policy.allow_networks)
    return named is not None and all(is_reached(url, hosts) for url in named)
