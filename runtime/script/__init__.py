"""Headless runs: a prompt, a script and its expectations."""

from .account import Account

__all__ = ["Account"]
