"""What an issuer says about itself: its endpoints, and its keys.

Always holds: the document names exactly the issuer we were configured with; every endpoint is one tokens may be sent
to; while the issuer is away the last good document stays."""

from urllib.parse import urlsplit

import msgspec

from gpuaas.infra.oidc.bounded_http import BoundedHttp, IssuerRefused, check_address, issuer_away
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Unavailable
from gpuaas.ports.issuer_keys import JwkSet

REFRESH_SECONDS = 3600.0
RETRY_SECONDS = 15.0


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the discovery document we use."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    revocation_endpoint: str = ""
    code_challenge_methods_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class FixedMetadata:
    """The built-in issuer's endpoints: known, not asked for."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    async def metadata(self) -> Metadata:
        return self._metadata


class Discovery:
    """An external issuer's endpoints, by its discovery document."""

    def __init__(self, issuer: str, http: BoundedHttp) -> None:
        self.issuer = check_address(issuer)
        self._http = http
        self._known: Metadata | None = None
        self._read_at = float("-inf")
        self._tried_at = float("-inf")

    async def metadata(self) -> Metadata:
        now = clock.monotonic()
        if self._known is not None and (now - self._read_at < REFRESH_SECONDS or now - self._tried_at < RETRY_SECONDS):
            return self._known
        self._tried_at = now
        try:
            self._known, self._read_at = await self._read(), now
        except Unavailable as fault:
            if self._known is None:
                raise
            log.get_logger().warning("discovery not read, keeping the last good document", reason=fault.log)
        return self._known

    async def _read(self) -> Metadata:
        try:
            document = await self._http.get(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
            found = msgspec.convert(document, Metadata)
        except (msgspec.ValidationError, IssuerRefused) as error:
            raise issuer_away(f"the discovery document cannot be used: {error}") from error
        if found.issuer != self.issuer:
            raise issuer_away(f"the discovery document is of {found.issuer[:200]!r}, not of {self.issuer!r}")
        if found.code_challenge_methods_supported and "S256" not in found.code_challenge_methods_supported:
            raise issuer_away("the issuer does not do PKCE with S256")
        try:
            for url in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri,
                        found.userinfo_endpoint, found.revocation_endpoint):  # fmt: skip
                if url:
                    self._check_endpoint(url)
        except ValueError as error:
            raise issuer_away(f"an endpoint in the discovery document is refused: {error}") from error
        return found

    def _check_endpoint(self, url: str) -> None:
        """Without TLS only for an issuer that has none itself: no other one sends us to this machine's own ports."""
        if urlsplit(check_address(url)).scheme != "https" and urlsplit(self.issuer).scheme == "https":
            raise ValueError(f"not an https address: {url[:200]!r}")


class DiscoveredKeys:
    """Implements `ports.issuer_keys.IssuerKeys` for an external issuer."""

    def __init__(self, discovery: Discovery, http: BoundedHttp) -> None:
        self._discovery = discovery
        self._http = http

    async def fetch(self) -> JwkSet:
        metadata = await self._discovery.metadata()
        try:
            return await self._http.get(metadata.jwks_uri)
        except IssuerRefused as error:
            raise issuer_away(f"the keys cannot be read: {error}") from error
