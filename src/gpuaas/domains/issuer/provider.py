"""What the built-in issuer is at an address: its URLs, its clients, what it supports. The discovery document is printed
from here, and so is every URL the issuer sends."""

from typing import Any

import msgspec

from gpuaas.domains.issuer.clients import Client, Grant, first_party

AUDIENCE = "gpuaas"
SCOPES = ("openid", "profile", "email", "offline_access")
PROMPTS = ("none", "login", "consent", "select_account")


class Issuer(msgspec.Struct, frozen=True, kw_only=True):
    """`url` is the issuer identifier; everything it serves is below it."""

    public_url: str
    url: str
    clients: dict[str, Client]

    @classmethod
    def at(cls, public_url: str) -> "Issuer":
        base = public_url.rstrip("/")
        return cls(public_url=base, url=f"{base}/oidc", clients=first_party(base))

    @property
    def secure(self) -> bool:
        return self.public_url.startswith("https://")

    @property
    def host(self) -> str:
        return self.public_url.partition("://")[2].partition("/")[0]

    @property
    def path(self) -> str:
        """Where the issuer is on its host: forms and cookies name it."""
        return "/" + self.url.partition("://")[2].partition("/")[2]

    def discovery(self) -> dict[str, Any]:
        """OpenID Connect Discovery 1.0 and RFC 8414, with what RFC 8628, 9207 and RP-initiated logout add."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/jwks",
            "revocation_endpoint": f"{self.url}/revoke",
            "device_authorization_endpoint": f"{self.url}/device_authorization",
            "end_session_endpoint": f"{self.url}/logout",
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": [str(grant) for grant in Grant],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            "prompt_values_supported": list(PROMPTS),
            "claims_supported": [
                "sub",
                "iss",
                "aud",
                "exp",
                "iat",
                "auth_time",
                "nonce",
                "at_hash",
                "sid",
                "email",
                "email_verified",
                "name",
            ],
            "claim_types_supported": ["normal"],
            "claims_parameter_supported": False,
            "request_parameter_supported": False,
            "request_uri_parameter_supported": False,
            "authorization_response_iss_parameter_supported": True,
        }
