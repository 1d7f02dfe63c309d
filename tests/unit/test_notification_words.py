"""Every kind of notification says what it has to say, in text and in HTML, whatever is in the values."""

import email
import re
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import default
from enum import StrEnum
from html.parser import HTMLParser
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.events.base import Event
from gpuaas.contracts.http.notifications import EmailState, EmailWhen, Severity
from gpuaas.domains.identity.members.models import Recipient
from gpuaas.domains.notifications.addressing import mailed, unusable
from gpuaas.domains.notifications.catalogue import EVENTS, KINDS, Audience, Kind, kind_of
from gpuaas.domains.notifications.links.service import ACTIONS
from gpuaas.domains.notifications.mail.models import Content, Email
from gpuaas.domains.notifications.mail.rendering import message_id, render
from gpuaas.domains.notifications.mail.service import LONGEST_WAIT, wait_after
from gpuaas.domains.notifications.plain import plain
from gpuaas.domains.notifications.words import Facts, span
from gpuaas.kit.ids import EmailId, LinkId, OrgId, UserId, new_id

HOSTILE = 'a\r\nBcc: x@evil.example\x00\x1b[2J\u202egpj.exe\u2066<script>alert("1")</script>&\'\ud800'
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SENDER = "gpuaas@mail.example"
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


class Reader(HTMLParser):
    """The tags there are, and the text a person reads."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def sample(annotation: Any, hostile: str) -> Any:
    kinds = getattr(annotation, "__args__", None) or (annotation,)
    kind = kinds[0]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind))
    known: dict[Any, Any] = {str: hostile, int: 7_500_000, bool: True, UUID: new_id(), datetime: AT}
    return known[kind]


def event_of(kind: Kind, text: str) -> Event:
    """One that is told as this kind."""
    fields = {field.name: sample(field.type, text) for field in msgspec.structs.fields(kind.event)}
    made = kind.event(**fields)
    enums = [name for name, value in fields.items() if isinstance(value, StrEnum)]
    for name in enums:
        for choice in type(fields[name]):
            tried = msgspec.structs.replace(made, **{name: choice})
            if kind_of(tried, facts_with(text)) is kind:
                return tried
    return made


def facts_with(text: str) -> Facts:
    return Facts(org=text, project=text, allocation=text, gpus=8, released_by=text)


def mail_of(kind: Kind, text: str) -> tuple[Email, bytes]:
    said = kind.says(event_of(kind, text), facts_with(text))
    content = Content(
        title=said.title,
        severity=kind.severity,
        name=text.replace("\ud800", ""),
        sentences=said.sentences,
        facts=said.facts,
        label="Do it",
        link_id=LinkId(new_id()),
        mute_id=None if kind.mandatory else LinkId(new_id()),
    )
    written = Email(
        id=EmailId(new_id()),
        user_id=UserId(new_id()),
        org_id=OrgId(new_id()),
        notification_id=new_id(),
        kind=kind.name,
        to_address="ada@example.com",
        content=msgspec.json.encode(content).decode(),
        state=EmailState.QUEUED,
        state_since=AT,
        created_at=AT,
        next_at=AT,
        due_at=AT,
        lease_until=None,
        attempts=1,
        last_error="",
    )
    return written, rendered(written)


def rendered(written: Email) -> bytes:
    url = "https://gpu.example"
    return render(written, sender=SENDER, url=lambda link_id: f"{url}/go/{link_id}", public_url=url)


def parsed(raw: bytes) -> tuple[EmailMessage, str, str]:
    message = email.message_from_bytes(raw, policy=default)
    assert isinstance(message, EmailMessage)
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    return message, text.get_content().replace("\r\n", "\n"), html.get_content().replace("\r\n", "\n")


@every_kind
def test_every_kind_is_what_its_event_is_told_as_and_its_one_click_exists(kind: Kind):
    assert kind_of(event_of(kind, "x"), facts_with("system:x")) is kind
    assert kind.about.endswith(".")
    assert kind.offer is None or kind.offer.action in ACTIONS
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", kind.name)


def test_every_event_that_is_heard_is_some_kinds():
    assert set(EVENTS) == {kind.event for kind in KINDS.values()}


@every_kind
def test_every_kind_is_written_in_text_and_html_with_its_link(kind: Kind):
    written, raw = mail_of(kind, "acme")
    message, text, html = parsed(raw)
    content = msgspec.json.decode(written.content, type=Content)
    assert message.get_content_type() == "multipart/alternative"
    assert message["Message-ID"] == message_id(written.id, SENDER) == f"<{written.id}@mail.example>"
    assert message["Subject"] == content.title
    assert f"/go/{content.link_id}" in text
    reader = Reader()
    reader.feed(html)
    assert f"https://gpu.example/go/{content.link_id}" in reader.links
    for words in (content.title, *content.sentences):
        assert words in text
        assert words in reader.text
    assert (message["List-Unsubscribe"] is None) == kind.mandatory
    if not kind.mandatory:
        assert message["List-Unsubscribe"] == f"<https://gpu.example/go/{content.mute_id}>"


@every_kind
def test_whatever_is_in_the_values_no_header_ends_and_nothing_is_read_as_html(kind: Kind):
    _, raw = mail_of(kind, HOSTILE)
    message, text, html = parsed(raw)
    assert message["Bcc"] is None
    assert message["To"] == "ada@example.com"
    assert {name.lower() for name in message} <= {
        "from",
        "to",
        "subject",
        "date",
        "message-id",
        "auto-submitted",
        "x-gpuaas-kind",
        "list-unsubscribe",
        "list-unsubscribe-post",
        "mime-version",
        "content-type",
    }
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text + html + str(message["Subject"]))
    reader = Reader()
    reader.feed(html)
    assert "script" not in reader.tags
    assert "<script>" not in html
    assert all(link.startswith("https://gpu.example") for link in reader.links), "it loads or leads nowhere else"


@every_kind
def test_the_same_email_is_the_same_bytes_each_time(kind: Kind):
    written, raw = mail_of(kind, "acme")
    assert rendered(written) == raw
    assert max(len(line) for line in raw.splitlines()) <= 998
    assert raw.isascii()


def test_what_cannot_be_seen_is_shown_and_what_is_long_is_cut():
    assert plain("a\u202eb\x1bc\r\nd") == "a\ufffdb\ufffdc\ufffdd"
    assert plain("x" * 300) == "x" * 199 + "…"


def person(*, seen: bool = False, **changed: Any) -> Recipient:
    fields: dict[str, Any] = {
        "id": new_id(),
        "email": "ada@example.com",
        "email_verified": True,
        "name": "Ada",
        "seen": seen,
    }
    return Recipient(**(fields | changed))


@pytest.mark.parametrize(
    ("said", "seen", "gets"),
    [
        (None, True, True),
        (EmailWhen.ALWAYS, True, True),
        (EmailWhen.OFFLINE, True, False),
        (EmailWhen.OFFLINE, False, True),
        (EmailWhen.NEVER, False, False),
    ],
)
def test_who_chose_gets_what_he_chose(said: EmailWhen | None, seen: bool, gets: bool):
    one = person(seen=seen)
    wanted: dict[UUID, EmailWhen] = {} if said is None else {one.id: said}
    assert bool(mailed(KINDS["billing.low"], [one], wanted, None)) is gets
    assert mailed(KINDS["billing.empty"], [one], wanted, None), "what is mandatory is always sent"


def test_of_an_allocation_its_asker_is_mailed_and_owners_only_in_his_place():
    kind = KINDS["allocation.idle"]
    assert kind.audience is Audience.ALLOCATION
    asker, owner = person(), person()
    assert mailed(kind, [asker, owner], {}, asker.id) == {asker.id}
    assert mailed(kind, [owner], {}, new_id()) == {owner.id}
    assert mailed(kind, [asker, owner], {owner.id: EmailWhen.ALWAYS}, asker.id) == {asker.id, owner.id}
    unreachable = msgspec.structs.replace(asker, email_verified=False)
    assert owner.id in mailed(kind, [unreachable, owner], {}, asker.id), "no mail reaches the one who asked"


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, ""),
        ({"email": ""}, "no address"),
        ({"email": "ada"}, "not one"),
        ({"email": "a@b.c\r\nRCPT TO:<x@y.z>"}, "not one"),
        ({"email": "å@example.com"}, "not one"),
        ({"email_verified": False}, "not verified"),
    ],
)
def test_mail_goes_to_addresses_that_somebody_vouches_for(changed: dict[str, Any], word: str):
    found = unusable(person(**changed))
    assert word in found
    assert bool(word) == bool(found)


def test_waits_grow_and_have_an_end():
    waits = [wait_after(attempts, 0.5) for attempts in range(1, 60)]
    assert waits == sorted(waits)
    assert waits[0] == timedelta(seconds=30)
    assert waits[-1] == LONGEST_WAIT


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "less than a minute"), (60, "1 minute"), (5400, "90 minutes"), (7200, "2 hours"), (172_800, "2 days")],
)
def test_spans_are_told_as_people_say_them(seconds: int, said: str):
    assert span(seconds) == said


def test_nothing_that_costs_running_work_can_be_switched_off():
    loud = {kind.name for kind in KINDS.values() if kind.severity is Severity.CRITICAL}
    assert loud == {kind.name for kind in KINDS.values() if kind.mandatory}
