"""Watching for what GPUs' drivers complain of, and telling it within a second. A fault is acknowledged to the host only
when the control plane has it."""

import asyncio

from gpuaas.client.agent import AgentApi
from gpuaas.client.errors import ApiError, ClientError
from gpuaas.contracts.tasks.topology import GpuFault
from gpuaas.kit import log
from gpuaas.ports.host import Host, HostFailed
from gpuaas.processes.agent.backoff import Backoff

LOOK_SECONDS = 0.4
AT_ONCE = 64


async def watch_faults(api: AgentApi, host: Host) -> None:
    backoff = Backoff(longest=5.0)
    while True:
        try:
            faults = (await host.faults())[:AT_ONCE]
            if faults:
                await _tell(api, host, faults)
            backoff.reset()
            await asyncio.sleep(LOOK_SECONDS)
        except ClientError:
            await asyncio.sleep(backoff.next())
        except (HostFailed, OSError) as error:
            log.get_logger().warning("cannot look for faults", why=str(error))
            await asyncio.sleep(backoff.next())


async def _tell(api: AgentApi, host: Host, faults: list[GpuFault]) -> None:
    try:
        await api.faults(faults)
    except ApiError as error:
        if error.status not in (400, 422):
            raise
        log.get_logger().error("faults were refused", code=error.code)
    await host.acknowledge(faults)
