"""How schemathesis asks here: every well-formed key is fresh, for a key stands for one request. And what it checks
beside its own: a request that fits the contract is refused only for a reason the operation declares of itself."""

import re
import uuid
from typing import Any

import schemathesis

KEY = "Idempotency-Key"
# What the contract says in words only: no NUL, how two fields stand to each other, what a policy allows here.
BEYOND_SCHEMAS = (
    "NUL",
    "not before to",
    "missing beside project_id",
    "more than 365",
    "out of range",
    "got `float`",
    "the GPUs of a node",
    "never in the past",
    "not base64",
)
GENERAL = {"request_invalid", "request_malformed", "content_type_unsupported", "body_too_large"}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    given = (case.headers or {}).get(KEY)
    if given and re.fullmatch(r"[!-~]{1,200}", str(given)):
        case.headers[KEY] = uuid.uuid4().hex


@schemathesis.check
def what_fits_is_refused_for_a_reason_of_its_own(context: Any, response: Any, case: Any) -> None:
    meta = case.meta
    if meta is None or response.status_code not in {400, 415, 422} or not meta.generation.mode.is_positive:
        return
    code = response.json()["error"]["code"]
    if any(reason in response.text for reason in BEYOND_SCHEMAS):
        return
    assert code not in GENERAL, f"it fits the contract and is refused as {code}: {response.text}"
