"""Headless runs: a prompt, a script and its expectations."""

from .account import RunPrinter

__all__ = ["RunPrinter"]
