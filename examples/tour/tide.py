"""Says when the tide is high; the tour asks before it lets this run."""

print("High tide at six.")
