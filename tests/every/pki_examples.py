"""Valid requests for the operations on the nodes' certificate authority."""

import os
from datetime import timedelta
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.every.examples import REASON, Example, Stage, example, plain
from tests.every.world import Setting

plain("ca_get")
plain("certificate_list")
plain("ca_rotate", body={"reason": REASON})


async def put_certificate(s: Setting) -> UUID:
    """A node's, signed by an authority that signs no more."""
    root_id, authority_id, certificate_id = new_id(), new_id(), new_id()
    now = clock.now()
    for kind, one, parent in (("root", root_id, None), ("intermediate", authority_id, root_id)):
        await s.put(
            "certificate_authorities",
            id=one,
            kind=kind,
            parent_id=parent,
            subject=kind,
            certificate=b"-",
            fingerprint=os.urandom(32),
            not_before=now - timedelta(hours=1),
            not_after=now + timedelta(days=1),
            retired_at=now,
        )
    await s.put(
        "certificates",
        id=certificate_id,
        kind="node",
        node_id=new_id(),
        authority_id=authority_id,
        serial=certificate_id.hex,
        fingerprint=os.urandom(32),
        public_key_hash=os.urandom(32),
        certificate=b"-",
        not_before=now,
        not_after=now + timedelta(hours=1),
    )
    return certificate_id


@example
async def certificate_revoke(stage: Stage) -> Example:
    return Example(path={"certificate_id": await put_certificate(stage.setting)}, body={"reason": REASON})
