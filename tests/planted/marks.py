"""Wrong: takes every word in such brackets for a mask, and knows no nonce without its marks."""


def mark_in(text: str) -> str | None:
    if "[REDACTED:" in text:
        return "it holds a mask"
    return "it holds a mark" if "«UNTRUSTED:" in text or "«END:" in text else None
