"""Wrong: a request is for what its Host header says."""


async def target(connection, request, *, is_tunnel):
    host = next((value for name, value in request.headers if name == b"host"), b"pages.example").decode()
    if is_tunnel:
        return host if ":" in host else f"{host}:443"
    return f"http://{host}{request.target.decode().partition('://')[2].partition('/')[1] or '/'}"
