"""A process that drives accounts and is killed by its own hand at a phase: run as `python -m`."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from gpuaas.infra.hosts.linux.accounts import Accounts, Terms
from gpuaas.infra.hosts.linux.layout import Layout


async def main(verb: str, login: str, key: str, first_uid: str, last_uid: str, state: str, fatal: str) -> None:
    async def tell(name: str, detail: str) -> None:
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    uids = range(int(first_uid), int(last_uid) + 1)
    accounts = Accounts(Layout(uids=uids), Path(state), Terms(processes=200))
    if verb == "provision":
        await accounts.provision(login, [key], [], tell)
    elif verb == "suspend":
        await accounts.suspend(login, tell)
    else:
        await accounts.revoke(login, tell)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
