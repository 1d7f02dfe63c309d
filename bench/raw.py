"""The limit of an HTTP answer here: our server with an application that sends fixed bytes, read from standard input."""

import asyncio
import sys
from typing import Any

import uvloop

from gpuaas.infra.http.server import listen, make_server, serve


def main() -> None:
    head, _, body = sys.stdin.buffer.read().partition(b"\r\n\r\n")
    lines = [line.partition(b": ")[::2] for line in head.split(b"\r\n")[1:]]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": lines})
        await send({"type": "http.response.body", "body": body})

    port = int(sys.argv[1])
    server = make_server(app, host="127.0.0.1", port=port)
    uvloop.run(serve(server, listen("127.0.0.1", port), asyncio.Event()))


if __name__ == "__main__":
    main()
