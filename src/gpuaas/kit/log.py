"""Logs: JSON lines (or text for people), one scrubber for everything that leaves the process or is stored.

Always holds: every line carries the correlation id of what caused it; no line carries a secret, a control character
or a line break from outside."""

import asyncio
import logging
import os
import re
import sys
from contextvars import ContextVar
from datetime import datetime
from typing import Any, ClassVar

import msgspec
import structlog

from gpuaas.kit import clock
from gpuaas.kit.secrets import PREFIXES

correlation_id: ContextVar[str] = ContextVar("correlation_id", default="")

ACCESS_SECONDS = 0.05
ACCESS_LINES = 500
_ENCODER = msgspec.json.Encoder()

SCRUBBED = "[scrubbed]"
MAX_TEXT = 4_000
_MAX_DEPTH = 8
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token|authorization|cookie|credential|private|api_?key|master_?key|"
    r"code_verifier|^key$|assertion",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"(?i:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|(?:" + "|".join(re.escape(prefix) for prefix in PREFIXES[:-1]) + r")[A-Za-z0-9_-]+"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
    re.DOTALL,
)
# A name that ends in a secret's word, then its value: `client_secret=…` or `"password": "…"`, also with escaped quotes.
# Only the value goes. In running text (`the token: …`, `token == x`, `token_type=x`, `token=null`) nothing does.
_SECRET_PAIR = re.compile(
    r"((?:pass(?:word|wd|phrase)|secret|token|api_?key|private_?key|code_verifier|assertion)"
    r"(?:[ \t]{0,3}=(?!=)[ \t]{0,3}|\\?[\"'][ \t]{0,3}[:=][ \t]{0,3}))"
    r"(?!(?:null|none|true|false|\[scrubbed\])(?:[\s&;,\"'})\]]|$))"
    r"(?:(\\\")(?:(?!\\\").)+|(\")(?:[^\"\\]|\\.)+|(')(?:[^'\\]|\\.)+|[^\s&;,\"'\\]+)",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Names that look secret but are not: what an operator must be able to read.
_PUBLIC_NAMES = frozenset({"token_type", "credential_id", "key_id", "public_key", "fingerprint", "idempotency_key"})


def scrub(value: Any) -> Any:
    """A copy of `value` that may be stored or shown to an operator."""
    return _scrub(value, 0)


def scrub_text(text: str) -> str:
    """Text with secrets and everything a terminal could act on taken out."""
    clean = _SECRET_TEXT.sub(SCRUBBED, text[: MAX_TEXT * 4])
    clean = _SECRET_PAIR.sub(lambda m: f"{m[1]}{m[2] or m[3] or m[4] or ''}{SCRUBBED}", clean)
    clean = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", clean)
    return clean if len(clean) <= MAX_TEXT else clean[:MAX_TEXT] + "…"


def is_secret_name(name: str) -> bool:
    return name not in _PUBLIC_NAMES and _SECRET_NAME.search(name) is not None


def _scrub(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return scrub_text(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        return {
            str(key): SCRUBBED if is_secret_name(str(key)) else _scrub(item, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_scrub(item, depth + 1) for item in value]
    return scrub_text(str(value))


def _add_correlation(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    current = correlation_id.get()
    if current and "correlation_id" not in event:
        event["correlation_id"] = current
    return event


def _scrub_event(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    return {key: _scrub(value, 0) if key not in _PLAIN else value for key, value in event.items()}


_PLAIN = frozenset({"level", "timestamp", "correlation_id", "exc_info", "stack_info"})


def _json(_: Any, __: str, event: dict[str, Any]) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def configure(program: str, *, level: str = "info", form: str = "json") -> None:
    """Set up structlog and route the standard library's logging through it. Called once, by a program's main."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_correlation,
        structlog.processors.format_exc_info,
        _scrub_event,
    ]
    renderer: Any = _json if form == "json" else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _Access.on = threshold <= logging.INFO
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    logging.basicConfig(handlers=[handler], level=max(threshold, logging.WARNING), force=True)
    get_logger().info("started", program=program)


def get_logger() -> Any:
    return structlog.get_logger()


class AccessLine(msgspec.Struct, gc=False):
    """The one line about a request. Its fields are ours or checked, so it skips the scrubber: it is on every path."""

    operation: str
    status: int
    ms: float
    method: str
    correlation_id: str
    client_ip: str
    actor: str
    event: str = "request"
    level: str = "info"
    timestamp: datetime = msgspec.field(default_factory=clock.now)


class _Access:
    """Lines about requests, written together: a system call for each would be a tenth of a small request."""

    on = False
    lines: ClassVar[list[AccessLine]] = []


def access(line: AccessLine) -> None:
    """Write the line within ACCESS_SECONDS. Called in a running loop."""
    if not _Access.on:
        return
    _Access.lines.append(line)
    if len(_Access.lines) == 1:
        asyncio.get_running_loop().call_later(ACCESS_SECONDS, flush_access)
    elif len(_Access.lines) >= ACCESS_LINES:
        flush_access()


def flush_access() -> None:
    if _Access.lines:
        lines = _ENCODER.encode_lines(_Access.lines)
        _Access.lines.clear()
        os.write(2, lines)
