"""The verbs of the proof: all equations and every hash, in one snapshot."""

from gpuaas.contracts.http.billing import Unit
from gpuaas.domains.admin.books import store
from gpuaas.domains.billing.books import service as books
from gpuaas.domains.billing.books.models import Equation, Proof
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.ids import OrgId


async def books_verify(db: Database) -> tuple[list[Equation], Proof]:
    """What is told was true at one instant."""
    async with db.inspection(Sight(PLATFORM)) as tx:
        proof = await books.proof(tx)
        _, sides = await books.books_get(tx)
        return [*await equations(tx), *sides], proof


async def proof_get(db: Database, org_id: OrgId) -> tuple[list[Equation], Proof]:
    """The same of one organisation, from what it may see itself."""
    async with db.snapshot(Sight(org_id)) as tx:
        proof = await books.own_proof(tx)
        return await equations(tx), proof


async def equations(tx: Tx) -> list[Equation]:
    """The three: of what is seen."""
    return [*await books.usage_equations(tx), await occupancy_equation(tx)]


async def occupancy_equation(tx: Tx) -> Equation:
    metered, occupied = await store.occupied(tx)
    return Equation(
        name="usage_is_occupancy",
        statement="metered seconds = seconds held, proven and usable",
        currency="",
        unit=Unit.SECONDS,
        left=metered,
        right=occupied,
        first=await store.occupied_otherwise(tx),
    )
