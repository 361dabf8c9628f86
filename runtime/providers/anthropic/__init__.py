"""The dialect of Anthropic's messages."""
