"""Verbs of the keys that seal sensitive fields."""

from gpuaas.client.call import Call
from gpuaas.contracts.http.data_keys import DataKeyList, DataKeyRotate


def data_key_list() -> Call[DataKeyList]:
    return Call(operation="data_key_list", method="GET", path="/platform/data-keys", answer=DataKeyList)


def data_key_rotate(wanted: DataKeyRotate) -> Call[DataKeyList]:
    path = "/platform/data-keys/rotate"
    return Call(operation="data_key_rotate", method="POST", path=path, answer=DataKeyList, body=wanted)
