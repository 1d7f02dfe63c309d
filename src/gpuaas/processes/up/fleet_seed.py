"""The demo's fleet on the control plane's side: what is sold, the nodes, and a token for each that is not enrolled yet.
Part of seeding; run again it only adds what is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from gpuaas.infra.embedded.files import write_private
from gpuaas.processes.settings import Settings

if TYPE_CHECKING:
    from gpuaas.contracts.http.inventory import SkuCreate
    from gpuaas.infra.postgres.tx import Tx

AT_ONCE = 100
PER_PROCESS = 250
REGION = "demo-1"
TOKEN_SECONDS = 3600
MOST = 1000
_ANY_LEASE = 15
_FIRST = UUID(int=0)


@dataclass(frozen=True)
class Kind:
    """A SKU of the demo, and the topology of the simulated hosts that are it."""

    sku: str
    title: str
    topology: str
    vendor: str
    model: str
    memory_gib: int
    gpus: int
    micros: int
    fabric: bool


KINDS = (
    Kind("h200-8", "8 × H200", "8xh200", "NVIDIA", "H200", 140, 8, 3_500_000, True),
    Kind("l40s-4", "4 × L40S", "4xl40s", "NVIDIA", "L40S", 45, 4, 1_100_000, False),
    Kind("mi300x-8", "8 × MI300X", "8xmi300x", "AMD", "MI300X", 192, 8, 2_900_000, True),
)


def node_name(number: int) -> str:
    return f"demo-{number + 1:03}"


def enrolments_file(process: int) -> str:
    return f"enrolments-{process}.jsonl"


async def seed_fleet(settings: Settings, directory: Path, nodes: int) -> None:
    """The catalogue; nodes 1 to `nodes`, with their tokens in files beside where their agents will keep themselves."""
    from gpuaas.infra.postgres.database import Database
    from gpuaas.infra.postgres.tx import PLATFORM, Sight

    _make_empty(directory)
    db, lines = Database(settings.database_url, read_pool_size=1, write_pool_size=1), []
    await db.open()
    try:
        for first in range(0, max(nodes, 1), AT_ONCE):  # without nodes, too, there is something to buy
            async with db.transaction(Sight(PLATFORM), "seed") as tx:
                wanted = range(first, min(first + AT_ONCE, nodes))
                lines += await _places(tx, directory, await _skus(tx), wanted)
    finally:
        await db.close()
    for process, start in enumerate(range(0, nodes, PER_PROCESS)):
        content = "".join(line + "\n" for line in lines[start : start + PER_PROCESS])
        write_private(directory / enrolments_file(process), content.encode())


def _make_empty(directory: Path) -> None:
    """Tokens of an earlier start are void."""
    directory.mkdir(mode=0o700, exist_ok=True)
    for old in directory.glob("enrolments-*.jsonl"):
        old.unlink()


async def _skus(tx: Tx) -> dict[str, UUID]:
    from gpuaas.contracts.actor import system
    from gpuaas.domains.inventory import service as inventory

    known = {sku.name: sku.id for sku in await inventory.skus(tx, after=_FIRST, state=None, region=None, limit=MOST)}
    for kind in KINDS:
        if kind.sku not in known:
            sku, _ = await inventory.sku_create(tx, system("seed"), _sku(kind))
            known[kind.sku] = sku.id
    return dict(known)


def _sku(kind: Kind) -> SkuCreate:
    from gpuaas.contracts.http.inventory import Shape, SkuCreate

    counts = [count for count in (1, 2, 4, 8) if count <= kind.gpus]
    return SkuCreate(
        name=kind.sku,
        title=kind.title,
        shape=Shape.BAREMETAL,
        gpu_vendor=kind.vendor,
        gpu_model=kind.model,
        gpu_memory_bytes=kind.memory_gib << 30,
        gpus_per_node=kind.gpus,
        allowed_gpu_counts=counts,
        needs_nvme=True,
        needs_fabric=kind.fabric,
        region=REGION,
        micros_per_gpu_hour=kind.micros,
    )


async def _places(tx: Tx, directory: Path, skus: dict[str, UUID], numbers: Sequence[int]) -> list[str]:
    from gpuaas.contracts.http.nodes import NodeCreate, NodeState
    from gpuaas.domains.nodes.registry import service as registry
    from gpuaas.domains.nodes.registry.models import Wanted
    from gpuaas.domains.pki import service as pki

    found = await registry.list_all(tx, Wanted(region=REGION), lease=_ANY_LEASE, after=_FIRST, limit=MOST)
    known, lines = {node.name: node for node in found}, []
    for number in numbers:
        name, kind = node_name(number), KINDS[number % len(KINDS)]
        token = ""
        if not (directory / name / "agent.json").exists():
            node = known.get(name)
            if node is None:
                wanted = NodeCreate(name=name, region=REGION, sku_id=skus[kind.sku], labels={"demo": "true"})
                node_id = await registry.node_create(tx, wanted)
            else:
                node_id = node.id
                if node.state is not NodeState.ENROLLING:
                    await registry.node_reenrol(tx, node_id)
            token = (await pki.bootstrap_token_create(tx, node_id, seconds=TOKEN_SECONDS)).token
        lines.append(json.dumps({"name": name, "token": token, "topology": kind.topology}))
    return lines
