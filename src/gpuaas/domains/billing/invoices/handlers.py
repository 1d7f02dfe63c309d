"""Invoices of months that are over: issued, and their files kept."""

from gpuaas.domains.billing.invoices import service
from gpuaas.domains.billing.invoices.models import Seller
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import log
from gpuaas.kit.parts import Parts
from gpuaas.ports.objects import Objects, ObjectsAway


@timer("billing.invoices", every_seconds=300, deadline_seconds=280)
async def invoices_issue(parts: Parts) -> None:
    """Without a store they are issued all the same: files can be made from them at any time."""
    db = parts.get(Database)
    await service.invoices_issue(db, parts.get(Seller))
    try:
        await service.invoices_keep(db, parts.get(Objects))  # type: ignore[type-abstract] # whatever implements it
    except ObjectsAway as error:
        log.get_logger().warning("files of invoices are not kept yet", why=str(error))
