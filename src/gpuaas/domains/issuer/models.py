"""What the issuer's verbs need beside a transaction: where the issuer is, its keys, the policies. One value, put
together by the routes."""

import msgspec

from gpuaas.domains.issuer.provider import Issuer
from gpuaas.infra.signing import SigningKeys
from gpuaas.ports.policy import PolicyReader


class Desk(msgspec.Struct, frozen=True):
    issuer: Issuer
    keys: SigningKeys
    policy: PolicyReader

    @property
    def access_token_seconds(self) -> int:
        return self.policy.number("issuer.access_token_seconds")

    @property
    def refresh_token_days(self) -> int:
        return self.policy.number("issuer.refresh_token_days")

    @property
    def session_seconds(self) -> int:
        return self.policy.number("issuer.session_hours") * 3600
