"""Our client at an issuer: authorization code with PKCE, refresh, revocation, userinfo. The same for the built-in
issuer and any other; only the metadata differ."""

import base64
import hashlib
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from gpuaas.infra.oidc.bounded_http import BoundedHttp, IssuerRefused, issuer_away
from gpuaas.infra.oidc.discovery import Metadata

SCOPES = "openid profile email offline_access"


class HasMetadata(Protocol):
    async def metadata(self) -> Metadata: ...


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str
    token_type: str = "Bearer"  # noqa: S105 # the name of a scheme, not a secret
    refresh_token: str | None = None
    id_token: str = ""
    expires_in: int | None = None


class OidcClient:
    def __init__(
        self,
        issuer: HasMetadata,
        http: BoundedHttp,
        *,
        client_id: str,
        client_secret: str = "",
        audience: str = "",
        public_url: str,
        scopes: str = SCOPES,
    ) -> None:
        self._issuer = issuer
        self._http = http
        self._client_secret = client_secret
        # RFC 8707: an audience that is an address can be asked for; others are the issuer's configuration.
        self._resource = {"resource": audience} if "://" in audience else {}
        # Without the prompt OpenID Connect gives no token for offline access (Core, section 11).
        self._asked = {"scope": scopes} | ({"prompt": "consent"} if "offline_access" in scopes.split() else {})
        self.client_id = client_id
        self.public_url = public_url.rstrip("/")

    async def authorization_url(self, *, redirect_uri: str, state: str, nonce: str, code_verifier: str) -> str:
        endpoint = (await self._issuer.metadata()).authorization_endpoint
        challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).decode().rstrip("=")
        asked = urlencode({
            "response_type": "code", "client_id": self.client_id, "redirect_uri": redirect_uri,
            "state": state, "nonce": nonce, "code_challenge": challenge, "code_challenge_method": "S256",
        } | self._asked | self._resource)  # fmt: skip
        return endpoint + ("&" if urlsplit(endpoint).query else "?") + asked

    async def exchange(self, code: str, *, redirect_uri: str, code_verifier: str) -> Tokens:
        return await self._tokens({
            "grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri,
            "code_verifier": code_verifier,
        } | self._resource)  # fmt: skip

    async def refresh(self, refresh_token: str) -> Tokens:
        return await self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token} | self._resource)

    async def revoke(self, refresh_token: str) -> bool:
        """Whether the issuer can revoke and did; an unknown token counts as revoked (RFC 7009)."""
        metadata = await self._issuer.metadata()
        if not metadata.revocation_endpoint:
            return False
        form = {"token": refresh_token, "token_type_hint": "refresh_token"}
        await self._post(metadata, metadata.revocation_endpoint, form)
        return True

    async def userinfo(self, access_token: str) -> dict[str, Any]:
        metadata = await self._issuer.metadata()
        if not metadata.userinfo_endpoint:
            return {}
        try:
            return await self._http.get(metadata.userinfo_endpoint, bearer=access_token)
        except IssuerRefused as error:
            raise issuer_away(f"userinfo: {error}") from error

    async def _tokens(self, form: dict[str, str]) -> Tokens:
        metadata = await self._issuer.metadata()
        answer = await self._post(metadata, metadata.token_endpoint, form)
        try:
            tokens = msgspec.convert(answer, Tokens, strict=False)
        except msgspec.ValidationError as error:
            raise issuer_away(f"the token endpoint's answer cannot be used: {error}") from error
        if tokens.token_type.lower() != "bearer":
            raise issuer_away(f"the issuer gave a token of type {tokens.token_type[:40]!r}")
        return tokens

    async def _post(self, metadata: Metadata, url: str, form: dict[str, str]) -> dict[str, Any]:
        basic = None
        if not self._client_secret:
            form = form | {"client_id": self.client_id}
        elif "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            basic = (quote(self.client_id, safe=""), quote(self._client_secret, safe=""))
        else:
            form = form | {"client_id": self.client_id, "client_secret": self._client_secret}
        return await self._http.post(url, form, basic=basic)
