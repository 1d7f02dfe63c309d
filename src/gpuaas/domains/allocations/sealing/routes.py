"""Operations on data keys: an operator's."""

import msgspec

from gpuaas.contracts.http.data_keys import DataKeyList, DataKeyRotate, DataKeyView
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations.sealing import service
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.sealing import FieldSealer


@operation("GET", "/platform/data-keys", permission=P.PLATFORM_READ, lane=Lane.ADMIN)
async def data_key_list(cx: PlatformContext) -> DataKeyList:
    """The keys that seal sensitive fields, newest first, and how much each still seals.

    There is none before the first field was sealed."""
    return await _list(cx)


@operation("POST", "/platform/data-keys/rotate", permission=P.PLATFORM_MANAGE, lane=Lane.ADMIN, audit="data_key.rotate")
async def data_key_rotate(cx: PlatformContext, wanted: DataKeyRotate) -> DataKeyList:
    """Make a new key, which seals from now on; what older ones have sealed is sealed anew within minutes."""
    await service.data_key_rotate(cx.tx, cx.parts.get(FieldSealer))
    return await _list(cx)


async def _list(cx: PlatformContext) -> DataKeyList:
    found = await service.data_key_list(cx.tx)
    return DataKeyList(keys=[DataKeyView(**msgspec.structs.asdict(key)) for key in found])
