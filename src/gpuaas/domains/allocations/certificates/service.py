"""The verbs of certificates. Always holds: one for each node of a released allocation, signed when it was issued, and
never changed."""

import base64

import msgspec

from gpuaas.contracts.certificates import CERTIFICATE_TYPE, SanitisationStatement
from gpuaas.contracts.http.allocations import CertificateKey
from gpuaas.domains.allocations.certificates import store
from gpuaas.domains.allocations.certificates.models import Certificate
from gpuaas.infra.postgres.tx import Tx
from gpuaas.infra.signing import Purpose, SigningKeys
from gpuaas.kit import dsse

certificate_get = store.get
certificate_list = store.list_of_project
of_allocation = store.of_allocation


async def certificate_issue(tx: Tx, keys: SigningKeys, statement: SanitisationStatement) -> None:
    """Sign it and keep it; one that was issued before stays."""
    signer = await keys.signer(tx, Purpose.SANITISATION)
    envelope = dsse.seal(CERTIFICATE_TYPE, msgspec.json.encode(statement), signer.key_id, signer)
    await store.insert(
        tx,
        Certificate(
            id=statement.certificate_id,
            org_id=statement.org_id,
            allocation_id=statement.allocation_id,
            node_id=statement.node_id,
            serials=[gpu.serial for gpu in statement.gpus if gpu.clean],
            key_id=signer.key_id,
            envelope=envelope.decode(),
            issued_at=statement.issued_at,
        ),
    )


async def certificate_keys(tx: Tx, keys: SigningKeys) -> list[CertificateKey]:
    """Every key there ever was, with the time it signed in: what was signed outside of it is not ours."""
    return [
        CertificateKey(
            key_id=key.key_id,
            public_key=base64.b64encode(base64.urlsafe_b64decode(key.jwk["x"] + "==")).decode(),
            signs_from=key.signs_from,
            signs_until=key.signs_until,
        )
        for key in await keys.public_keys(tx, Purpose.SANITISATION)
    ]
