"""What the requests may say: the parameters our side of the protocol uses, and those it may add without harm.

A parameter that is not listed is refused, as Stripe does: a slip of the pen is found against the demo already."""

from typing import Annotated, Any, TypeVar

import msgspec

from gpuaas.infra.http.request import validation_fault
from gpuaas.processes.demo_payments.errors import ProviderError, invalid
from gpuaas.processes.demo_payments.forms import bracketed

P = TypeVar("P", bound="Params")
MAX_METADATA = 50
LARGEST_AMOUNT = 99_999_999
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Words = Annotated[str, msgspec.Meta(max_length=500)]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=5_000, pattern=r"^https?://[A-Za-z0-9.\[\]:-]+([/?#]|$)")]
Amount = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_AMOUNT)]
Currency = Annotated[str, msgspec.Meta(pattern="^[A-Za-z]{3}$")]
MetadataKey = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
Metadata = Annotated[dict[MetadataKey, Words], msgspec.Meta(max_length=MAX_METADATA)]


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expand: list[Id] = []


class Nothing(Params, frozen=True):
    pass


class CustomerWrite(Params, frozen=True):
    email: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    name: Name | None = None
    description: Words | None = None
    phone: Annotated[str, msgspec.Meta(max_length=50)] | None = None
    metadata: Metadata = {}


class ProductData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    description: Words | None = None
    metadata: Metadata = {}
    images: list[Words] = []
    tax_code: Id | None = None


class PriceData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    currency: Currency
    unit_amount: Amount
    product_data: ProductData
    tax_behavior: str | None = None


class LineItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price_data: PriceData
    quantity: Annotated[int, msgspec.Meta(ge=1, le=999_999)]


class IntentData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    metadata: Metadata = {}
    description: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    receipt_email: str | None = None
    statement_descriptor: str | None = None
    statement_descriptor_suffix: str | None = None
    setup_future_usage: str | None = None
    capture_method: str | None = None


class CheckoutCreate(Params, frozen=True):
    mode: str
    line_items: Annotated[list[LineItem], msgspec.Meta(min_length=1, max_length=100)]
    success_url: Url
    cancel_url: Url | None = None
    client_reference_id: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    customer: Id | None = None
    customer_email: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    customer_creation: str | None = None
    expires_at: int | None = None
    metadata: Metadata = {}
    payment_intent_data: IntentData | None = None
    payment_method_types: list[Id] = []
    ui_mode: str | None = None
    submit_type: str | None = None
    locale: str | None = None
    billing_address_collection: str | None = None
    # Taken and without effect here.
    allow_promotion_codes: bool = False
    automatic_tax: dict[str, Any] = {}
    customer_update: dict[str, Any] = {}
    invoice_creation: dict[str, Any] = {}
    tax_id_collection: dict[str, Any] = {}
    payment_method_options: dict[str, Any] = {}
    saved_payment_method_options: dict[str, Any] = {}
    custom_text: dict[str, Any] = {}


class PortalCreate(Params, frozen=True):
    customer: Id
    return_url: Url | None = None
    configuration: Id | None = None
    locale: str | None = None


class RefundCreate(Params, frozen=True):
    payment_intent: Id | None = None
    charge: Id | None = None
    amount: Amount | None = None
    reason: str | None = None
    metadata: Metadata = {}


class Created(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gt: int | None = None
    gte: int | None = None
    lt: int | None = None
    lte: int | None = None


class Listing(Params, frozen=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    starting_after: Id | None = None
    ending_before: Id | None = None
    created: Created | int | None = None


class CustomerListing(Listing, frozen=True):
    email: str | None = None


class SessionListing(Listing, frozen=True):
    customer: Id | None = None
    payment_intent: Id | None = None
    status: str | None = None


class IntentListing(Listing, frozen=True):
    customer: Id | None = None


class ChargeListing(Listing, frozen=True):
    customer: Id | None = None
    payment_intent: Id | None = None


class RefundListing(Listing, frozen=True):
    charge: Id | None = None
    payment_intent: Id | None = None


class EventListing(Listing, frozen=True):
    type: str | None = None


def read_params(kind: type[P], given: dict[str, Any]) -> P:
    """The parameters, or Stripe's complaint about the first that is wrong."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _complaint(str(error), validation_fault(error).details) from None


def _complaint(text: str, details: Any) -> ProviderError:
    param = bracketed(details[0].field) if details else ""
    if "missing required field" in text:
        return invalid(f"Missing required param: {param}.", code="parameter_missing", param=param)
    if "unknown field" in text:
        return invalid(f"Received unknown parameter: {param}", code="parameter_unknown", param=param)
    reason = details[0].reason if details else "not as expected"
    if "int" in reason:
        return invalid(f"Invalid integer: {param} ({reason})", code="parameter_invalid_integer", param=param)
    return invalid(f"Invalid value for {param}: {reason}", code="parameter_invalid", param=param)
