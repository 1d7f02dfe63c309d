"""The life of a SKU. Whether it is sold is an operator's word, and he may take it back."""

from gpuaas.contracts.http.inventory import SkuState as S
from gpuaas.kit.life import Life, exits

LIFE = Life(
    {
        S.ACTIVE: exits(S.RETIRED, rests="it is sold until an operator retires it"),
        S.RETIRED: exits(S.ACTIVE, rests="what was sold stays its tenant's; an operator may sell it again"),
    },
    of="skus",
)
