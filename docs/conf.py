"""Build these pages as a site (`make docs`): offline, and strict, so that a dead link fails the build.

The pages are read where they lie, so every link works in a checkout as well. The navigation is the list in
`docs/README.md`; a page that is missing there is reported.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

project = "Leeward"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/decisions/*.md"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Leeward"
html_copy_source = False
html_show_copyright = False
# The rules in examples are TOML with comments and `…`, which highlighters take for errors.
suppress_warnings = ["misc.highlighting_failure"]


def _navigation() -> str:
    """Return one hidden toctree for each heading of the list of pages, and one for the decisions."""
    trees = []
    text = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        caption, _, pages = section.partition("\n")
        names = [f"docs/{name}" for name in re.findall(r"\]\(([^)]+)\.md\)", pages)]
        listed = "\n".join(re.sub(r"^docs/\.\./", "", name) for name in names)
        trees.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n")
    return "".join(trees)


def _add_navigation(_app, name, source):  # noqa: ANN001, ANN202 — the signature is Sphinx's
    if name == root_doc:
        source[0] += "\n```{toctree}\n:hidden:\n\ndocs/README\n```\n" + _navigation()
    elif name == "docs/decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


def setup(app):  # noqa: ANN001, ANN201 — the signature is Sphinx's
    """Register the navigation."""
    app.connect("source-read", _add_navigation)
    return {"parallel_read_safe": True}
