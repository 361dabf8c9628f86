"""What a model may ask for. Start with `declare/` (declaring a tool) and `composite.py` (all in one)."""
