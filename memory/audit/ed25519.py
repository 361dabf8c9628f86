"""Create, store and use Ed25519 keys; the only file that imports the signature library.

The library takes some forty milliseconds to load, so `signing.py` imports this file only when something
is to be signed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from .key_files import write_new

__all__ = ["Ed25519PrivateKey", "is_signed", "load", "make"]

_LARGEST = 4096


def make(path: Path) -> None:
    """Make a key in a new file; where another process is faster, its key is the one.

    Raises:
        OSError: the file cannot be written.
    """
    text = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_new(path, text)


def load(path: Path) -> Ed25519PrivateKey:
    """Read a key; a file that others may read is closed to them first.

    Raises:
        OSError: the file cannot be read, or is a link.
        ValueError: it holds no such key.
    """
    # A pipe in its place would be waited for without end.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise ValueError("it is no ordinary file")
        if mode & 0o077:
            os.fchmod(file.fileno(), 0o600)
        text = file.read(_LARGEST)
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError as error:
        raise ValueError("it is locked with a password") from error
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise ValueError("it is no Ed25519 key")


def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the private half of a public key made a signature of a text."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
