"""Wrong: looks for names as a text somewhere in the path, and only as people usually write them."""

NAMES = ("Makefile", "/ws/conftest.py", "_conftest.py", ".github/workflows/", "AGENTS.md", ".vscode/")


def runs_later_reason(path: str) -> str | None:
    return "it runs later" if any(name in path for name in NAMES) else None
