"""Which provider there is."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import NoReturn
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.infra.payments.stripe_provider import StripePayments
from gpuaas.kit.errors import Conflict
from gpuaas.ports.payments import Checkout, CheckoutWanted, Dispute, Notice, PaymentProvider, Refunding


class NoPayments(PaymentProvider):
    """An installation without a provider: whoever wants to pay is told so."""

    name = "none"

    async def customer_make(self, org_id: UUID, *, instead_of: str = "") -> str:
        _none()

    async def checkout_make(self, wanted: CheckoutWanted) -> Checkout:
        _none()

    async def checkout_get(self, checkout_id: str) -> Checkout:
        _none()

    async def checkout_expire(self, checkout_id: str) -> Checkout:
        _none()

    async def portal_open(self, customer_id: str, return_url: str) -> str:
        _none()

    async def refund_make(self, refund_id: UUID, intent_id: str, cents: int) -> Refunding:
        _none()

    def checkouts(self, since: datetime) -> AsyncIterator[Checkout]:
        _none()

    def refunds(self, since: datetime) -> AsyncIterator[Refunding]:
        _none()

    def disputes(self, since: datetime) -> AsyncIterator[Dispute]:
        _none()

    def read(self, body: bytes) -> Notice:
        _none()


def _none() -> NoReturn:
    raise Conflict(Code.PAYMENTS_NOT_SET_UP, "No payment provider is set up here. Ask the operator for credit.")


def open_payments(secret_key: str, api_base: str = "") -> PaymentProvider:
    return StripePayments(secret_key, api_base) if secret_key else NoPayments()
