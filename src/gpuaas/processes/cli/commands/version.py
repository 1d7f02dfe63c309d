"""Versions of this tool and of the API it talks to."""

import msgspec

from gpuaas import __version__
from gpuaas.client.errors import ClientError
from gpuaas.processes.cli.declare import Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.run import Run

GROUP = Group("", "")


@GROUP.command("version", summary="Show the versions of this tool and, when one is chosen, of the API.")
def version(run: Run) -> None:
    url, server = "", ""
    try:
        url = run.url
        server = run.anonymous_api.version()
    except (UsageError, ClientError):
        server = ""
    if run.out.json:
        run.out.raw(msgspec.json.encode({"client": __version__, "url": url or None, "server": server or None}))
        return
    run.out.line(f"gpuaas {__version__}")
    if url:
        run.out.line(f"API {server} at {url}" if server else f"no answer from {url}")
