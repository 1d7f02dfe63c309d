"""The verb of explaining: reads what is known of an allocation and has it put into sentences."""

from gpuaas.contracts.http.allocations import AllocationExplained
from gpuaas.contracts.policy_keys import POLICY_KEYS, Level
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.certificates import service as certificates
from gpuaas.domains.allocations.explaining.answers import explained
from gpuaas.domains.allocations.explaining.facts import Facts, PolicyHere
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.money import service as money
from gpuaas.domains.allocations.queue import service as queue
from gpuaas.domains.allocations.states import S
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.policy import service as policies
from gpuaas.domains.policy.models import Place
from gpuaas.domains.policy.views import explanation
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.kit import clock
from gpuaas.ports.policy import PolicyReader

POLICIES = (
    "allocations.isolation",
    "allocations.lifetime_hours_max",
    "allocations.idle_reclaim",
    "allocations.idle_minutes",
    "allocations.idle_grace_minutes",
    "allocations.node_lost_action",
    "allocations.queue_hours",
    "billing.hold_minutes",
    "billing.fault_credit_minutes",
)
MAX_PRICES = 1_000


async def allocation_explain(tx: Tx, policy: PolicyReader, allocation: Allocation) -> AllocationExplained:
    waits = allocation.state is S.REQUESTED
    prices = await inventory.price_list(tx, allocation.sku_id, after=NIL, limit=MAX_PRICES)
    shown = await allocations.allocation_show(tx, allocation.id)
    facts = Facts(
        shown=shown,
        allocation=allocation,
        gpus=await allocations.gpus_of(tx, allocation.id),
        place=await queue.place_of(tx, policy, allocation) if waits else None,
        price_from=next((price.valid_from for price in prices if price.id == allocation.price_id), None),
        certificates=len(await certificates.of_allocation(tx, allocation.id)),
        policies=await _policies(tx, allocation),
        money=await money.money_of_one(tx, shown),
        credits=await money.credits_of(tx, shown),
        now=clock.now(),
    )
    return explained(facts)


async def _policies(tx: Tx, allocation: Allocation) -> dict[str, PolicyHere]:
    layers = await policies.policy_all_layers(tx, Place(allocation.org_id, allocation.project_id))
    told = {name: explanation(POLICY_KEYS[name], layers[name], Level.PROJECT, names_staff=False) for name in POLICIES}
    return {name: PolicyHere(found.value, found.sentence) for name, found in told.items()}
