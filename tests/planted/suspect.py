"""Wrong: a list of words, wherever and however they stand."""

WORDS = ("ignore", "system prompt", "instructions", "you are now", "password", "secretly")


def find_injections(text: str) -> tuple[str, ...]:
    return tuple(word for word in WORDS if word in text.lower())
