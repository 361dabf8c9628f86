"""Wrong: judges the addresses of a name, and then connects to the name, which may have others by then."""

import trio

from leeward.security.outcome import PolicyBlocked
from leeward.security.url import judge_address


async def connect(backend, host, port, seconds):
    for address in await backend.resolve(host, port):
        if judge_address(address, backend.allow_networks):
            raise PolicyBlocked(f"{host} is not connected to")
    (address, *_) = await backend.resolve(host, port)
    stream = await backend.trio_backend.connect_tcp(address, port, timeout=seconds)
    return trio.SocketStream(stream.get_extra_info("socket")), address
