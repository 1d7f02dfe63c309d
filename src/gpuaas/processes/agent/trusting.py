"""Keeping the agent's certificate and trust current: renewed at half-life over the old certificate, trust followed by
its chain. New connections use the new ones at once; a request in flight ends on the old.

Always holds: once renewed, the next time is counted, not read off the host's clock, so that one that is hours wrong or
is set back neither renews without end nor misses the end."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.client.agent import AgentApi
from gpuaas.client.errors import ClientError
from gpuaas.kit import clock, log
from gpuaas.processes.agent.backoff import Backoff
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.identity import Request, keep_identity, make_request, read_identity, tls_context
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.trust import Trust, follow, keep_trust

REFRESH_SECONDS = 600.0
NOT_SOONER_SECONDS = 2.0


class Trusting:
    def __init__(
        self,
        api: AgentApi,
        state: StateDirectory,
        node_id: UUID,
        name: str,
        trust: Trust,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self.trust = trust
        self._now = now
        self._api = api
        self._state = state
        self._node_id = node_id
        self._name = name
        self._identity = read_identity(state)
        self._request: Request | None = None
        self._refreshed_at = clock.monotonic() - NOT_SOONER_SECONDS
        left = (self._identity.renew_at - now()).total_seconds()
        self._since, self._wait = clock.monotonic(), min(max(left, 0.0), self._identity.life_seconds / 2)

    async def refresh(self) -> bool:
        """Ask what is trusted now, not more often than every few seconds; False when nothing new follows."""
        await asyncio.sleep(self._refreshed_at + NOT_SOONER_SECONDS - clock.monotonic())
        self._refreshed_at = clock.monotonic()
        newer = follow(self.trust, await self._api.trust(), self._identity.chain)
        changed = newer.authorities != self.trust.authorities
        if not changed and newer.task_keys.keys() == self.trust.task_keys.keys():
            return False
        keep_trust(self._state, newer)
        self.trust = newer
        if changed:
            self._api.pool.renew(tls_context(self._state, newer.authorities))
        log.get_logger().info("trust changed", task_keys=sorted(newer.task_keys), authorities=len(newer.authorities))
        return True

    async def renew(self) -> None:
        """A new key and certificate, asked for with the old one; asked again for the same key if the answer is lost."""
        request = self._request = self._request or make_request(self._name)
        view = await self._api.renew(request.csr)
        self._request = None
        self._identity = keep_identity(self._state, self._node_id, request.key, view.certificate)
        self._since, self._wait = clock.monotonic(), (view.not_after - view.renew_after).total_seconds()
        self._api.pool.renew(tls_context(self._state, self.trust.authorities))
        log.get_logger().info("certificate renewed", serial=view.serial, not_after=view.not_after.isoformat())

    async def run(self) -> None:
        """Renew at half-life, and look for newer trust now and then; what fails is tried again well before the end."""
        while True:
            backoff = Backoff(longest=max(1.0, self._identity.life_seconds / 40))
            await self._patiently(self.refresh, backoff)
            left = self._since + self._wait - clock.monotonic()
            await asyncio.sleep(min(max(0.0, left), REFRESH_SECONDS))
            if self._due():
                await self._patiently(self.renew, backoff)

    def _due(self) -> bool:
        """Counted; or, when the machine slept and nothing was counted, near the end by its clock."""
        counted = clock.monotonic() - self._since
        near_its_end = self._now() >= self._identity.not_after - timedelta(seconds=self._identity.life_seconds / 8)
        return counted >= self._wait or (counted >= self._wait / 4 and near_its_end)

    async def _patiently(self, verb: Callable[[], Awaitable[object]], backoff: Backoff) -> None:
        """Until it works. Whatever the control plane says, the agent keeps what it has."""
        while True:
            try:
                await verb()
            except (ClientError, AgentError) as error:
                log.get_logger().warning("certificate or trust not renewed", why=str(error))
                await asyncio.sleep(backoff.next())
            else:
                return
