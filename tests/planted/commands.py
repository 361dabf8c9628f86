"""Wrong: a command line is a text, and what is bad in it is a list of patterns."""

import re

from leeward.security.call import Action
from leeward.security.kinds import Kind
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Deny, Verdict

DENIED = re.compile(
    r"\brm\s+-rf\s+/|\bmkfs|\bdd\b.*of=/dev/|:\(\)\s*\{|\bshutdown\b|\breboot\b|/etc/shadow|\.ssh/"
)
READING = (
    "ls",
    "cat",
    "head",
    "tail",
    "grep",
    "find",
    "git",
    "echo",
    "wc",
    "sort",
    "awk",
    "sed",
    "cd",
    "pwd",
)


def commands(action: Action, session: Session) -> Verdict:
    for atom in action.of_kind(Kind.COMMAND):
        if DENIED.search(atom.raw):
            return Deny("dangerous", "this looks dangerous")
        if "sudo" in atom.raw:
            return Ask("sudo", "may this run as root?", (atom,), force=True)
        parts = re.split(r"&&|\|\||[;|&]", atom.raw)
        if not all(part.split()[:1] and part.split()[0] in READING for part in parts):
            return Ask("unknown", "may this run?", (atom,))
    return Allow()
