"""Valid requests for the operations on orphans."""

from typing import Any
from uuid import UUID

from gpuaas.kit.ids import new_id
from tests.every.examples import Example, Stage, example, plain
from tests.every.node_examples import REASON, put_node
from tests.every.world import Setting

plain("orphan_list")


async def put_orphan(s: Setting, *, kind: str = "account", **more: Any) -> UUID:
    """An account of nobody, or a lease."""
    orphan_id, nobody = new_id(), new_id()
    name = f"g{nobody.hex[:12]}{nobody.hex[-15:]}" if kind == "account" else str(nobody)
    row: dict[str, Any] = {"id": orphan_id, "node_id": await put_node(s), "kind": kind, "name": name, "detail": "x"}
    await s.put("orphans", **(row | more))
    return orphan_id


@example
async def orphan_reclaim(stage: Stage) -> Example:
    return Example(path={"orphan_id": await put_orphan(stage.setting)}, body=REASON)
