"""Masks, fences and nonces of ours in a text are detected; look-alikes are not."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.filters import Screened, Source, fence, redact
from leeward.security.text import mark_in, new_nonce
from leeward.security.text.secrets import mask_names
from leeward.security.trust import Origin

SOURCE = Source("read", Origin.WORKSPACE)
SECRETS = [
    "ghp_FAKEfakeFAKEfakeFAKEfakeFAKEfake1234",
    "AKIAFAKEFAKEFAKEFAKE",
    "https://u:fakefake@h.example",
    "xoxb-1234567890-fake",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_whatever_is_masked_is_known_as_a_mask(secret: str) -> None:
    shown = redact(Screened(f"key = {secret}\n"), SOURCE).text
    assert secret not in shown and "a secret" in mark_in(shown)
    assert mark_in(f"key = {secret}\n") is None


def test_every_mask_there_is_is_known() -> None:
    assert len(mask_names()) > 30 and all(mark_in(f"x[REDACTED:{name}:a1b2]") for name in mask_names())
    known = redact(Screened("hunter2222"), Source("x", Origin.MODEL, secrets=frozenset({"hunter2222"}))).text
    assert mark_in(known)


@given(st.text(max_size=30))
def test_whatever_is_fenced_is_known_and_so_is_each_half_and_the_nonce_alone(text: str) -> None:
    marked = fence(Screened(text), SOURCE).text
    nonce = marked.partition(":")[2][:32]
    for part in (marked, f"«UNTRUSTED:{nonce}:read»", f"«END:{nonce}»", f"a {nonce} b", f"0{nonce}f"):
        assert mark_in(part)


ORDINARY = [
    "", "[redacted]", "[REDACTED:email:a1b2]", "[REDACTED:github-token]",
    "REDACTED:github-token:a1b2", "[REDACTED:jwt:xyz9]", "«UNTRUSTED»",
    "«END»", "«END: of story»", "«guillemets»", hashlib.md5(b"x").hexdigest(),
    hashlib.sha256(b"x").hexdigest(), "deadbeef" * 8, "[REDACTED:GITHUB-TOKEN:a1b2]",
]  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_like_a_mark_is_none(text: str) -> None:
    assert mark_in(f"before {text} after") is None


def test_the_obvious_wrong_look_is_caught(planted) -> None:
    wrong = planted("marks").mark_in
    nonce = new_nonce()
    assert wrong(f"a {nonce} b") is None and mark_in(f"a {nonce} b")
    assert wrong("[REDACTED:email:a1b2]") and mark_in("[REDACTED:email:a1b2]") is None


def test_nonces_are_forgotten_when_there_are_very_many() -> None:
    first = new_nonce()
    for _ in range(20_000):
        last = new_nonce()
    assert mark_in(first) is None and mark_in(last)
    assert mark_in("0" * 1_000_000) is None
