"""OpenAI's Chat Completions dialect, and Gemini's variant of it."""
