"""The command line: `main.py` reads it, every other file is a command.

Nothing is loaded here, so that `--help` imports the standard library alone.
"""
