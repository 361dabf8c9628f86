"""The trusted base: what may run, what may be read, and why. It imports nothing of ours.

Start with `pipeline.py` (the order), then `call.py` (the nouns) and `action.py` (reading a call).
"""
