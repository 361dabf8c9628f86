"""The dialect of OpenAI's chat completions, and Gemini's variant of it."""
