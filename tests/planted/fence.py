"""Wrong: marks anyone can write, notices inside of them, and a label that may be of any length and shape."""

from leeward.security.filters import Screened, Source


def fence(screened: Screened, source: Source) -> Screened:
    text = "\n".join((screened.text, *screened.notices))
    return Screened(f"«UNTRUSTED:0000:{source.kind}»{text}«END:0000»", plain=text)


def label(text: str, source: Source | None = None) -> str:
    return f"«UNTRUSTED:0000:label»{text}«END:0000»"
