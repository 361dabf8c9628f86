"""The trusted base."""
