"""Models behind one interface (`interface.py`), opened by `registry.py`.

Nothing is loaded here: HTTP clients are imported when a remote model is opened.
"""
