"""Verbs of the endpoints programs speak to.

Always holds: who asks is known before anything is looked up for him; every refusal has the RFCs' code."""

from collections.abc import Mapping
from typing import Any

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.tokens import ACCESS_TOKEN_TYPE
from gpuaas.domains.identity.authority import service as authority
from gpuaas.domains.issuer import claims, client_auth
from gpuaas.domains.issuer.accounts import service as accounts
from gpuaas.domains.issuer.client_auth import Credentials
from gpuaas.domains.issuer.clients import Client, Grant
from gpuaas.domains.issuer.devices import service as devices
from gpuaas.domains.issuer.devices.models import DeviceAuthorization
from gpuaas.domains.issuer.grants import service as grants
from gpuaas.domains.issuer.grants.models import Family, Tokens
from gpuaas.domains.issuer.models import Desk
from gpuaas.domains.issuer.oauth import Error, OAuthRefusal
from gpuaas.infra.postgres.tx import Tx
from gpuaas.infra.signing import Purpose
from gpuaas.kit import clock
from gpuaas.kit.errors import Denied, Unauthenticated

Headers = Mapping[bytes, bytes]
Form = Mapping[str, str]


async def token_exchange(tx: Tx, desk: Desk, headers: Headers, form: Form) -> tuple[Tokens, str]:
    """The token endpoint: the tokens, and whose they are."""
    kind = form.get("grant_type", "")
    if not kind:
        raise OAuthRefusal(Error.INVALID_REQUEST, "grant_type is missing")
    credentials = client_auth.read(headers, form)
    if kind == Grant.CLIENT_CREDENTIALS:
        account = await _machine(tx, desk, credentials)
        return await grants.machine_token_mint(tx, desk, account), str(account.id)
    client = client_auth.public_client(desk.issuer, credentials)
    if kind not in set(Grant):
        raise OAuthRefusal(Error.UNSUPPORTED_GRANT_TYPE, "this issuer does not know this grant_type")
    if kind not in client.grants:
        raise OAuthRefusal(Error.UNAUTHORIZED_CLIENT, "this client may not use this grant_type")
    return await _EXCHANGES[Grant(kind)](tx, desk, client, form)


async def _by_code(tx: Tx, desk: Desk, client: Client, form: Form) -> tuple[Tokens, str]:
    family, nonce = await grants.code_redeem(
        tx,
        desk,
        client,
        code=_needed(form, "code"),
        redirect_uri=_needed(form, "redirect_uri"),
        verifier=_needed(form, "code_verifier"),
    )
    return await _mint(tx, desk, family, scopes=family.scopes, nonce=nonce)


async def _by_refresh(tx: Tx, desk: Desk, client: Client, form: Form) -> tuple[Tokens, str]:
    family, scopes, successor = await grants.refresh_redeem(
        tx, desk, client, token=_needed(form, "refresh_token"), scope=form.get("scope")
    )
    return await _mint(tx, desk, family, scopes=scopes, refresh_token=successor)


async def _by_device(tx: Tx, desk: Desk, client: Client, form: Form) -> tuple[Tokens, str]:
    family = await devices.device_redeem(tx, desk, client, _needed(form, "device_code"))
    return await _mint(tx, desk, family, scopes=family.scopes)


_EXCHANGES = {Grant.CODE: _by_code, Grant.REFRESH: _by_refresh, Grant.DEVICE: _by_device}


async def _mint(
    tx: Tx,
    desk: Desk,
    family: Family,
    *,
    scopes: list[str],
    nonce: str | None = None,
    refresh_token: str | None = None,
) -> tuple[Tokens, str]:
    account = await accounts.account_get(tx, family.account_id)
    if account is None:
        raise OAuthRefusal(Error.INVALID_GRANT, "the account is gone")
    tokens = await grants.tokens_mint(
        tx, desk, family, account, scopes=scopes, nonce=nonce, refresh_token=refresh_token
    )
    return tokens, str(account.id)


async def _machine(tx: Tx, desk: Desk, credentials: Credentials) -> Actor:
    """The service account that proved itself with its key."""
    if credentials.client_id in desk.issuer.clients:
        raise OAuthRefusal(Error.UNAUTHORIZED_CLIENT, "only service accounts use client_credentials")
    if credentials.service_account_id is None or not credentials.secret:
        raise OAuthRefusal(Error.INVALID_CLIENT, "the client is not known, or its secret is not right")
    await tx.enter_platform()
    try:
        account = await authority.service_account_by_key(tx, credentials.secret)
    except (Unauthenticated, Denied) as fault:
        raise OAuthRefusal(Error.INVALID_CLIENT, "the client is not known, or its secret is not right") from fault
    if account.id != credentials.service_account_id:
        raise OAuthRefusal(Error.INVALID_CLIENT, "the client is not known, or its secret is not right")
    return account


async def device_begin(tx: Tx, desk: Desk, headers: Headers, form: Form, requested_from: str) -> DeviceAuthorization:
    client = client_auth.public_client(desk.issuer, client_auth.read(headers, form))
    return await devices.device_begin(tx, desk, client, scope=form.get("scope"), requested_from=requested_from)


async def token_revoke(tx: Tx, desk: Desk, headers: Headers, form: Form) -> bool:
    """RFC 7009: whoever it was given to may take a token back; one that does not exist is revoked already."""
    credentials = client_auth.read(headers, form)
    token = _needed(form, "token")
    if credentials.client_id in desk.issuer.clients:
        client_auth.public_client(desk.issuer, credentials)
    else:
        await _machine(tx, desk, credentials)
    return await grants.token_revoke(tx, desk, credentials.client_id, token)


async def userinfo_get(tx: Tx, desk: Desk, headers: Headers, form: Form) -> dict[str, Any]:
    """Who an access token is for, as far as its scopes say."""
    token = client_auth.bearer(headers, form)
    said = await desk.keys.read_token(tx, Purpose.ISSUER, token, typ=ACCESS_TOKEN_TYPE)
    if said is None or said["iss"] != desk.issuer.url or said["exp"] <= clock.epoch_s():
        raise OAuthRefusal(Error.INVALID_TOKEN, "the access token is not valid or has expired")
    scopes = str(said.get("scope", "")).split(" ")
    if "openid" not in scopes:
        raise OAuthRefusal(Error.INSUFFICIENT_SCOPE, "the access token lacks the scope openid")
    family = await grants.family_of_token(tx, said["jti"])
    account = await accounts.account_get(tx, family.account_id) if family is not None else None
    if account is None:
        raise OAuthRefusal(Error.INVALID_TOKEN, "the access token was revoked")
    return claims.about(account.person, scopes)


def _needed(form: Form, name: str) -> str:
    found = form.get(name, "")
    if not found:
        raise OAuthRefusal(Error.INVALID_REQUEST, f"{name} is missing")
    return found
