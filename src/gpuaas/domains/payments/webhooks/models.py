"""Rows of notices."""

from uuid import UUID

import msgspec

from gpuaas.domains.payments.webhooks.states import WebhookState


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    event_id: str
    type: str
    state: WebhookState
    body: bytes
