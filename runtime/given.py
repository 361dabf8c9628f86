"""Which URLs do the person's words put into the ledger?

Those written out and bare hosts are given; a word that may as well be a file (`docs.rs/tokio`, or
anything that has this name in the workspace) is only a hint, which is asked about when it is opened.
"""

from __future__ import annotations

import os
from pathlib import Path

from leeward.security import Given, Provenance, Session, urls_given, urls_hinted

__all__ = ["given_by"]


def given_by(text: str, provenance: Provenance, session: Session) -> tuple[Given, ...]:
    """Return the events by which the URLs in a text become known; none where there are none."""

    workspace = Path(session.policy.workspace)

    def names_file(word: str) -> bool:
        return "\0" not in word and os.path.lexists(workspace / word)

    given = tuple(url.text for url in urls_given(text, names_file))
    hinted = tuple(url.text for url in urls_hinted(text, names_file))
    found = ((given, provenance), (hinted, Provenance.HINT))
    return tuple(Given(session.now, urls, how) for urls, how in found if urls)
