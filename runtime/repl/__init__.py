"""The chat at a terminal."""

__all__ = []
