"""Storage in one SQLite file: audit, overflow, transcripts, checkpoints, grants and notes."""
