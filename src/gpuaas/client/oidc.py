"""The issuer's protocol, as a public client speaks it: discovery, PKCE, device code, refresh, revocation. What comes
back is checked: the issuer, the state, the nonce, the signature of the identity token."""

import base64
import hashlib
import secrets
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from gpuaas.client.api import describe
from gpuaas.client.errors import LoginFailed, Unreachable
from gpuaas.kit import clock

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
TIMEOUT_SECONDS = 20.0
MAX_LIFE_SECONDS = 86_400
SCOPE = "openid profile email offline_access"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SKEW_SECONDS = 120
_ALGORITHMS = ["ES256", "RS256", "PS256", "ES384", "RS384", "EdDSA", "Ed25519"]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """What discovery tells us."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str
    expires_in: Annotated[int, msgspec.Meta(ge=1)] = 300
    refresh_token: str = ""
    id_token: str = ""


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    expires_in: Annotated[int, msgspec.Meta(ge=1)] = 600
    interval: Annotated[int, msgspec.Meta(ge=0)] = 5


class OauthRefused(LoginFailed):
    """The issuer's own word for no (RFC 6749)."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description or error)
        self.error = error


class _Refusal(msgspec.Struct):
    error: str
    error_description: str = ""


class Proof:
    """What ties an answer to the login it belongs to."""

    def __init__(self) -> None:
        self.state = secrets.token_urlsafe(32)
        self.nonce = secrets.token_urlsafe(32)
        self.verifier = secrets.token_urlsafe(48)

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def discover(issuer: str) -> Provider:
    url = issuer.rstrip("/") + "/.well-known/openid-configuration"
    answer = _request("GET", url)
    try:
        found = msgspec.json.decode(answer.content, type=Provider)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LoginFailed(f"{url} is not an OpenID provider's description.") from error
    if found.issuer != issuer:
        raise LoginFailed(f"The issuer at {issuer} calls itself {found.issuer}. The operator has to set the right one.")
    for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
        _check_endpoint(endpoint)
    return found


def authorization_url(provider: Provider, client_id: str, redirect_uri: str, proof: Proof, audience: str) -> str:
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": SCOPE,
        "state": proof.state,
        "nonce": proof.nonce,
        "code_challenge": proof.challenge,
        "code_challenge_method": "S256",
        # Without the prompt OpenID Connect gives no token for offline access (Core, section 11).
        "prompt": "consent",
        **resource(audience),
    }
    joint = "&" if urlsplit(provider.authorization_endpoint).query else "?"
    return provider.authorization_endpoint + joint + urlencode(query)


def code_of(answer: dict[str, str], provider: Provider, proof: Proof) -> str:
    """The code from the redirect, once it is sure that it answers this login and comes from this issuer."""
    if not secrets.compare_digest(answer.get("state", "").encode(), proof.state.encode()):
        raise LoginFailed("The answer does not belong to this login (state). Start it again.")
    said = answer.get("iss")
    if said is None and provider.authorization_response_iss_parameter_supported:
        raise LoginFailed("The answer does not say which issuer it comes from.")
    if said is not None and said != provider.issuer:
        raise LoginFailed(f"The answer comes from another issuer: {said}.")
    if "error" in answer:
        raise OauthRefused(answer["error"], answer.get("error_description", ""))
    if not answer.get("code"):
        raise LoginFailed("The answer has no code. Start the login again.")
    return answer["code"]


def exchange(provider: Provider, client_id: str, code: str, redirect_uri: str, proof: Proof, audience: str) -> Tokens:
    return _tokens(
        provider.token_endpoint,
        {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": proof.verifier,
            **resource(audience),
        },
    )


def refresh(token_endpoint: str, client_id: str, refresh_token: str, audience: str) -> Tokens:
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": refresh_token}
    return _tokens(token_endpoint, form | resource(audience))


def resource(audience: str) -> dict[str, str]:
    """RFC 8707: an audience that is an address can be asked for; others are the issuer's configuration."""
    return {"resource": audience} if "://" in audience else {}


def device_authorization(provider: Provider, client_id: str, audience: str) -> DeviceCode:
    if not provider.device_authorization_endpoint:
        raise LoginFailed("This issuer has no device login. Use gpuaas login without --device.")
    _check_endpoint(provider.device_authorization_endpoint)
    form = {"client_id": client_id, "scope": SCOPE, **resource(audience)}
    answer = _request("POST", provider.device_authorization_endpoint, form)
    return _decode(answer, DeviceCode)


def device_exchange(provider: Provider, client_id: str, device_code: str, audience: str) -> Tokens:
    form = {"grant_type": DEVICE_GRANT, "client_id": client_id, "device_code": device_code}
    return _tokens(provider.token_endpoint, form | resource(audience))


def revoke(revocation_endpoint: str, client_id: str, token: str, hint: str) -> None:
    form = {"client_id": client_id, "token": token, "token_type_hint": hint}
    answer = _request("POST", revocation_endpoint, form)
    if answer.is_error:
        raise _refused(answer)


def identity_of(provider: Provider, client_id: str, tokens: Tokens, nonce: str | None) -> dict[str, Any]:
    """The claims of the identity token, verified; nothing when the issuer gave none."""
    if not tokens.id_token:
        return {}
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    keys = _request("GET", provider.jwks_uri)
    try:
        known = KeySet.import_key_set(msgspec.json.decode(keys.content))
        claims: dict[str, Any] = jwt.decode(tokens.id_token, known, algorithms=_ALGORITHMS).claims
    except (JoseError, ValueError, KeyError, TypeError) as error:
        raise LoginFailed(f"The identity token is not signed by the issuer ({type(error).__name__}).") from error
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    now = clock.epoch_s()
    for holds, problem in (
        (claims.get("iss") == provider.issuer, "is from another issuer"),
        (client_id in audiences, "is for another client"),
        (_number(claims.get("exp")) > now - SKEW_SECONDS, "has expired: check this machine's clock"),
        (_number(claims.get("iat")) < now + SKEW_SECONDS, "is from the future: check this machine's clock"),
        (nonce is None or claims.get("nonce") == nonce, "does not belong to this login (nonce)"),
    ):
        if not holds:
            raise LoginFailed(f"The identity token {problem}.")
    return claims


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _tokens(endpoint: str, form: dict[str, str]) -> Tokens:
    tokens = _decode(_request("POST", endpoint, form), Tokens)
    return msgspec.structs.replace(tokens, expires_in=min(tokens.expires_in, MAX_LIFE_SECONDS))


def _decode(answer: "httpx.Response", kind: type[T]) -> T:
    if answer.is_error:
        raise _refused(answer)
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LoginFailed(f"The issuer's answer could not be read: {error}.") from error


def _refused(answer: "httpx.Response") -> LoginFailed:
    """A no of the issuer is final; an issuer that cannot answer now is not a no."""
    if answer.status_code >= 500 or answer.status_code == 429:
        raise Unreachable(f"{answer.url.scheme}://{answer.url.netloc.decode()}", f"it answered {answer.status_code}")
    try:
        said = msgspec.json.decode(answer.content, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return LoginFailed(f"The issuer answered {answer.status_code} {answer.reason_phrase}.")
    return OauthRefused(said.error, said.error_description)


def _check_endpoint(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise LoginFailed(f"The issuer names an endpoint that is no web address: {url}.")


def _request(method: str, url: str, form: dict[str, str] | None = None) -> "httpx.Response":
    import httpx

    try:
        answer = httpx.request(
            method,
            url,
            data=form,
            timeout=TIMEOUT_SECONDS,
            follow_redirects=method == "GET",
            headers={"accept": "application/json"},
        )
    except httpx.TransportError as error:
        raise Unreachable(url, describe(error)) from error
    if method == "GET" and answer.is_error:
        raise LoginFailed(f"{url} answered {answer.status_code} {answer.reason_phrase}.")
    return answer
