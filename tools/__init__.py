"""What a model may ask for. Start with `declare/` (how a tool is declared) and `composite.py` (all as one)."""
