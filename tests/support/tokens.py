"""An issuer of tests' own: signs access tokens with keys made at once, and can rotate, fail, count and lie."""

from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.tokens import ACCESS_TOKEN_TYPE
from gpuaas.infra.oidc.keys import KeyCache
from gpuaas.infra.oidc.verifier import TokenVerifier, TrustedIssuer
from gpuaas.kit import clock
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import new_id

ISSUER = "https://issuer.test"
AUDIENCE = "gpuaas"


class IssuerOfTests:
    """`ports.issuer_keys.IssuerKeys`, and the private half of it."""

    def __init__(self, url: str = ISSUER, *, own: bool = False) -> None:
        self.url = url
        self.own = own
        self.away = False
        self.reads = 0
        self.keys: list[Any] = [ECKey.generate_key("P-256", {"kid": "first", "use": "sig"}, private=True)]

    async def fetch(self) -> dict[str, Any]:
        self.reads += 1
        if self.away:
            raise Unavailable(Code.DEPENDENCY_UNAVAILABLE, "The issuer of the tests is away.")
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def add_key(self, kind: type[Any] = ECKey, **options: Any) -> Any:
        size = {"ECKey": "P-256", "RSAKey": 2048, "OKPKey": "Ed25519"}[kind.__name__]
        key = kind.generate_key(size, {"kid": new_id().hex, "use": "sig"} | options, private=True)
        self.keys.append(key)
        return key

    def trusted(self) -> TrustedIssuer:
        return TrustedIssuer(self.url, AUDIENCE, KeyCache(self), own=self.own)

    def verifier(self) -> TokenVerifier:
        return TokenVerifier(self.trusted())

    def token(
        self,
        subject: str = "ada",
        *,
        alg: str = "ES256",
        key: Any = None,
        typ: str | None = ACCESS_TOKEN_TYPE,
        header: dict[str, Any] | None = None,
        seconds: int = 600,
        **claims: Any,
    ) -> str:
        """An access token; a claim given as None is left out."""
        key = key or self.keys[-1]
        now = clock.epoch_s()
        said = {
            "iss": self.url,
            "sub": subject,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + seconds,
            "jti": new_id().hex,
            "email": f"{subject}@example.com",
            "email_verified": True,
            "name": subject.title(),
        } | claims
        head = {"alg": alg, "kid": key.get("kid"), "typ": typ} | (header or {})
        return jwt.encode(
            {name: value for name, value in head.items() if value is not None},
            {name: value for name, value in said.items() if value is not None},
            key,
            algorithms=[alg],
        )
