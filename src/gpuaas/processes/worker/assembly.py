"""What the worker is put together from. Reactions and timers find it in their parts."""

from collections.abc import Coroutine
from typing import Any

from gpuaas.domains import load_handlers
from gpuaas.domains.issuer.provider import Issuer
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.domains.policy.service import policy_follow
from gpuaas.infra.events import HANDLERS, HandlerRegistry
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.publish import Publisher
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.retention import Retention
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from gpuaas.processes.settings import Settings


def assemble(settings: Settings, db: Database, bus: Bus, publisher: Publisher) -> tuple[Parts, HandlerRegistry]:
    load_handlers()
    policy, master = MemoryPolicy(), MasterKey.from_text(settings.master_key)
    parts = Parts(
        settings,
        db,
        bus,
        publisher,
        policy,
        Retention(policy),
        master,
        SigningKeys(master),
        HANDLERS,
        Issuer.at(settings.public_url),
    )
    return parts, HANDLERS


def background(parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """What runs beside reactions and timers, in every worker."""
    return [policy_follow(parts.get(Database), parts.get(MemoryPolicy))]
