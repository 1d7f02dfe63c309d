"""What sealing needs beside a database."""

import pytest

from gpuaas.domains.policy.models import Override, Place
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.secrets import MasterKey


@pytest.fixture(scope="module")
def keys() -> SigningKeys:
    return SigningKeys(MasterKey(b"m" * 32))


@pytest.fixture
def policy() -> MemoryPolicy:
    """A checkpoint with every batch."""
    policy = MemoryPolicy()
    policy.load(1, [Override(key="audit.checkpoint_rows", place=Place(), value=1)])
    return policy
