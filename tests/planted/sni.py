"""Wrong: takes whatever comes for a connection to the host that was judged."""


class ClientHello:
    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, chunk: bytes) -> str | None:
        self.data += chunk
        return "pages.example" if self.data else None
