"""What the worker is put together from. Reactions and timers find it in their parts."""

import os
import socket
from collections.abc import Coroutine
from typing import Any

from gpuaas.domains import load_handlers
from gpuaas.domains.allocations.queue.handlers import queue_follow
from gpuaas.domains.billing.invoices.models import Seller
from gpuaas.domains.issuer.provider import Issuer
from gpuaas.domains.nodes.reimaging import AgentReimaging
from gpuaas.domains.nodes.tasks.handlers import tasks_follow
from gpuaas.domains.nodes.tasks.signing import TaskSigner
from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.domains.policy.service import policy_follow
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.executor import Executor
from gpuaas.infra.events import HANDLERS, HandlerRegistry
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.hints import NatsHints
from gpuaas.infra.nats.publish import Publisher
from gpuaas.infra.objects.store import open_objects
from gpuaas.infra.payments.opening import open_payments
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.retention import Retention
from gpuaas.infra.sealing import FieldSealer
from gpuaas.infra.signing import SigningKeys
from gpuaas.infra.smtp.server import SmtpServer
from gpuaas.kit import log
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from gpuaas.processes.settings import Settings
from gpuaas.processes.worker.roles import Role, runs_flows


def assemble(settings: Settings, db: Database, bus: Bus, publisher: Publisher) -> tuple[Parts, HandlerRegistry]:
    load_handlers()
    policy, master, hints = MemoryPolicy(), MasterKey.from_text(settings.master_key), NatsHints(bus)
    db.hints = hints
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
        hints,
        open_objects(settings.objects_url),
        FieldSealer(master),
        AgentReimaging(),
        Seller(settings.invoice_seller),
        LinkSigner(master, settings.public_url),
        SmtpServer(settings.smtp_url, settings.mail_from),
        open_payments(settings.stripe_secret_key, settings.stripe_api_base),
    )
    return parts, HANDLERS


def background(parts: Parts, role: Role) -> list[Coroutine[Any, Any, None]]:
    """What runs beside reactions and timers."""
    db, hints, settings = parts.get(Database), parts.get(NatsHints), parts.get(Settings)
    policy = parts.get(MemoryPolicy)
    work = [policy_follow(db, policy), hints.run()]
    if not runs_flows(role):
        return work
    executor = Executor(db, FLOWS, parts, worker=f"{socket.gethostname()}:{os.getpid()}")
    work += [executor.run(hints), queue_follow(db, policy, hints)]
    if settings.task_signing_key:
        signer = TaskSigner.from_text(settings.task_signing_key, settings.task_signing_key_previous)
        work.append(tasks_follow(db, signer, hints))
    else:
        log.get_logger().warning("no task-signing key: this worker asks nothing of nodes")
    return work
