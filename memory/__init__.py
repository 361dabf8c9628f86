"""What is kept, in one SQLite file: audit, overflow, transcripts, checkpoints, grants and notes."""
