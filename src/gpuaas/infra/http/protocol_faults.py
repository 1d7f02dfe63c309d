"""Faults of the built-in issuer's endpoints, whose shapes are not the catalogue's: RFC 6749's JSON for programs, a page
for people. Neither says more than the catalogue would."""

from html import escape

import msgspec

from gpuaas.infra.http.operation import Wire
from gpuaas.infra.http.pipeline import Answer
from gpuaas.kit.errors import Fault

Headers = tuple[tuple[bytes, bytes], ...]
_HTML = b"text/html; charset=utf-8"
_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'")


def protocol_answer(fault: Fault, wire: Wire, correlation_id: str, headers: Headers) -> Answer:
    if wire is Wire.PAGE:
        return Answer(fault.status, _page(fault, correlation_id), _HTML, (*headers, _POLICY))
    status = 400 if fault.status in (415, 422) else fault.status  # the RFC knows one status for what it cannot read
    return Answer(
        status,
        msgspec.json.encode(
            {
                "error": _error(fault),
                "error_description": fault.message,
                "correlation_id": correlation_id,
            }
        ),
        headers=headers,
    )


def _error(fault: Fault) -> str:
    if fault.status < 500:
        return "invalid_request"
    return "temporarily_unavailable" if fault.status == 503 else "server_error"


def _page(fault: Fault, correlation_id: str) -> bytes:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width"><title>GPUaaS</title>'
        f'<main><h1>That did not work</h1><p role="alert">{escape(fault.message)}</p>'
        f"<p><small>Correlation id: {escape(correlation_id)}</small></p></main></html>\n"
    ).encode()
