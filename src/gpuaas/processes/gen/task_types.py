"""What nodes can be asked, as JSON Schemas: the order they are signed in, and each type's arguments and result."""

import json
from typing import Any

import msgspec

from gpuaas.contracts.tasks import catalogue
from gpuaas.contracts.tasks.base import PAYLOAD_TYPE, TASK_TYPES, Order, Report

REF = "#/schemas/{name}"


def tasks() -> str:
    kinds: list[Any] = [Order, Report]
    for task in TASK_TYPES.values():
        kinds += [task, task.RESULT]
    found, schemas = msgspec.json.schema_components(kinds, ref_template=REF)
    of = dict(zip(kinds, found, strict=True))
    return json.dumps(
        {
            "payload_type": PAYLOAD_TYPE,
            "order": of[Order],
            "report": of[Report],
            "types": {
                f"{name}@{version}": {
                    "what": (task.__doc__ or "").strip(),
                    "deadline_seconds": task.DEADLINE_SECONDS,
                    "arguments": of[task],
                    "result": of[task.RESULT],
                }
                for (name, version), task in sorted(TASK_TYPES.items())
            },
            "schemas": dict(sorted(schemas.items())),
        },
        indent=1,
        ensure_ascii=False,
    )


__all__ = ["catalogue", "tasks"]
