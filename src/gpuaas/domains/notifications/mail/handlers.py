"""Mail is sent by whichever worker holds the timer."""

from functools import partial

from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.domains.notifications.mail import service
from gpuaas.domains.notifications.mail.rendering import render
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts
from gpuaas.ports.mail import MailServer


@timer("notifications.mail", every_seconds=2, deadline_seconds=280)
async def emails_send(parts: Parts) -> None:
    server = parts.get(MailServer)  # type: ignore[type-abstract] # the part is whatever implements it
    links = parts.get(LinkSigner)
    written = partial(render, sender=server.sender, url=links.url, public_url=links.public_url)
    await service.emails_follow(parts.get(Database), server, written)
