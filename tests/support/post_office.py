"""People of an organisation who are told things, and the mail server their email goes to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from gpuaas.contracts.events.base import Event
from gpuaas.domains import load_handlers
from gpuaas.domains.notifications.catalogue import EVENTS
from gpuaas.domains.notifications.links.tokens import LinkSigner
from gpuaas.domains.notifications.mail.handlers import emails_send
from gpuaas.domains.outbox.service import event_handle
from gpuaas.infra.events import HANDLERS
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.smtp.server import SmtpServer
from gpuaas.kit.parts import Parts
from gpuaas.kit.secrets import MasterKey
from tests.support.mailbox import Mailbox, mailbox
from tests.support.people import City, Person, city_of

EVERYTHING = Sight(PLATFORM)
SENDER = "gpuaas@mail.example"
URL = "https://gpu.example"
REACTION = "notifications.notify"


@dataclass
class PostOffice:
    city: City
    box: Mailbox
    owner: Person
    billing: Person
    member: Person
    org_id: UUID

    @property
    def db(self) -> Database:
        return self.city.db

    def parts(self, url: str | None = None, **options: Any) -> Parts:
        """As a worker has them, with this mail server."""
        master = MasterKey(b"m" * 32)
        server = SmtpServer(self.box.url if url is None else url, SENDER, **options)
        return Parts(self.db, self.city.policy, master, LinkSigner(master, URL), server)

    async def tell(self, event: Event, *, subject_id: UUID | None = None, times: int = 1) -> UUID:
        """An event of the organisation, heard as often as it is delivered."""
        async with self.db.transaction(EVERYTHING, "test") as tx:
            event_id = tx.emit(event, subject_id=subject_id, org_id=self.org_id)
        for _ in range(times):
            await self.heard(event_id)
        return event_id

    async def heard(self, event_id: UUID, by: str = REACTION) -> None:
        load_handlers()
        reaction = HANDLERS.reaction(by)
        assert reaction is not None
        await event_handle(self.db, reaction, event_id, self.org_id, self.parts())

    async def heard_all(self) -> None:
        """Everything that was told of the organisation so far, in order."""
        names = [event.NAME for event in EVENTS]
        async with self.db.read(EVERYTHING) as tx:
            rows = await tx.rows(
                "SELECT id FROM outbox WHERE org_id = $1 AND name = ANY($2) ORDER BY id", self.org_id, names
            )
        for row in rows:
            await self.heard(row["id"])

    async def send(self, url: str | None = None, **options: Any) -> None:
        """One turn of the worker's timer."""
        await emails_send(self.parts(url, **options))

    async def emails(self, event_id: UUID) -> list[Any]:
        async with self.db.read(EVERYTHING) as tx:
            return await tx.rows(
                "SELECT e.* FROM emails e JOIN notifications n ON n.id = e.notification_id "
                "WHERE n.event_id = $1 ORDER BY e.to_address",
                event_id,
            )

    async def inbox(self, who: Person, **query: Any) -> list[Any]:
        found: list[Any] = (await self.city.get(who, "/users/me/notifications", **query))["items"]
        return found

    async def look(self, link: str) -> httpx.Response:
        """Follow a link from an email, without any login."""
        return await self.city.client.get(urlsplit(link).path)

    async def press(self, link: str, **form: str) -> httpx.Response:
        return await self.city.client.post(urlsplit(link).path, data=form or {"x": ""})


@asynccontextmanager
async def post_office(db: Database, *more: Any) -> AsyncIterator[PostOffice]:
    async with mailbox() as box, city_of(db, *more) as city:
        city.parts.add(LinkSigner(MasterKey(b"m" * 32), URL))
        owner, billing, member = await city.person("owner"), await city.person("till"), await city.person("member")
        org_id = await city.org(owner, billing=billing, member=member)
        yield PostOffice(city, box, owner, billing, member, UUID(org_id))
