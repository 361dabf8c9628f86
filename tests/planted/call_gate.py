"""Wrong: of several calls at once the last answers for what a server connects to; nothing is closed."""

from contextlib import asynccontextmanager

from leeward.tools.mcp import CallGate


class LastCall(CallGate):
    def __init__(self):
        super().__init__()
        self._gates = []
        self._admits = True

    @asynccontextmanager
    async def during(self, gate):
        self._gates.append(gate)
        self._gate = gate
        try:
            yield
        finally:
            self._gates.remove(gate)
            self._gate = self._gates[-1] if self._gates else None
