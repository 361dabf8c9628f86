"""The tools a model may call. Start with `declare/` (declaring a tool) and `composite.py` (routing)."""
