"""Wrong: numbers lines before anything is masked, and writes into the file itself."""

from pathlib import Path


def numbered(text: str) -> str:
    return "".join(f"{number:>6}\t{line}\n" for number, line in enumerate(text.splitlines(), 1))


def write(path: Path, text: str) -> None:
    path.write_text(text)
