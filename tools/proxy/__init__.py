"""The proxy by which commands reach hosts. Exports nothing, so that it is loaded only when needed."""
