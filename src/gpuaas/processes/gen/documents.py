"""The promises that are printed from types and tables in the code."""

import json
import re
import typing
from pathlib import Path

import msgspec

import gpuaas
from gpuaas.contracts.error_codes import CATALOGUE
from gpuaas.contracts.permissions import PLATFORM_GRANTS, ROLE_GRANTS, Permission
from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.domains import load_routes
from gpuaas.infra import asyncapi as events
from gpuaas.infra.http import openapi as http
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.processes.settings import PREFIX, Settings

PRINTED = "<!-- Printed by `make gen`. Never edited. -->\n\n"


def openapi() -> str:
    load_routes()
    return _json(http.document(REGISTRY))


def agents_openapi() -> str:
    load_routes()
    return _json(http.document(REGISTRY, agents=True))


def asyncapi() -> str:
    return _json(events.document())


def errors() -> str:
    rows = [f"| `{code}` | {kind.status} | {sentence} |" for code, (kind, sentence) in CATALOGUE.items()]
    return _table(
        "Errors",
        "Every code that can leave the API. A code is never renamed.",
        ["code", "status", "what it says"],
        rows,
    )


def permissions() -> str:
    load_routes()
    holders = {
        **{str(role): grants for role, grants in ROLE_GRANTS.items()},
        **{str(role): grants for role, grants in PLATFORM_GRANTS.items()},
    }
    rows = []
    for permission in Permission:
        used = sorted(op.id for op in REGISTRY.json() if op.permission is permission)
        marks = " | ".join("✓" if permission in grants else "" for grants in holders.values())
        rows.append(f"| `{permission}` | {marks} | {', '.join(used)} |")
    return _table(
        "Permissions",
        "Who may do what, and which operations ask for it. `self`, `whoami`: everybody.",
        ["permission", *holders, "operations"],
        rows,
    )


def policies() -> str:
    rows = []
    for key in POLICY_KEYS.values():
        bounds = ", ".join(key.choices) or (f"{key.minimum} … {key.maximum}" if key.kind is int else "true, false")
        rows.append(
            f"| `{key.name}` | {key.default} | {bounds} | {key.unit} | {key.stricter} | "
            f"{', '.join(sorted(key.levels))} | {key.description} |"
        )
    return _table(
        "Policies",
        "Every threshold of the product. A guardrail set above cannot be weakened below.",
        ["key", "default", "allowed", "unit", "stricter", "set at", "what it is"],
        rows,
    )


def settings() -> str:
    hints = typing.get_type_hints(Settings, include_extras=True)
    rows = []
    for field in msgspec.structs.fields(Settings):
        about = next(m for m in getattr(hints[field.name], "__metadata__", ()) if m.description)
        default = "required" if field.required else f"`{field.default}`" if field.default != "" else "empty"
        secret = "yes" if (about.extra or {}).get("secret") else ""
        rows.append(f"| `{PREFIX}{field.name.upper()}` | {default} | {secret} | {about.description} |")
    return _table(
        "Settings",
        "Read once at start, from the environment. A secret may be in a file: append `_FILE`.",
        ["variable", "default", "secret", "what it is"],
        rows,
    )


def dependencies() -> str:
    locked = (Path(gpuaas.__file__).parents[2] / "requirements" / "base.txt").read_text()
    return "\n".join(re.findall(r"^([A-Za-z0-9_.\-\[\]]+==\S+)", locked, re.MULTILINE))


def _table(title: str, lead: str, columns: list[str], rows: list[str]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return f"{PRINTED}# {title}\n\n{lead}\n\n{head}" + "\n".join(rows)


def _json(document: object) -> str:
    return json.dumps(msgspec.to_builtins(document), indent=1, ensure_ascii=False)
