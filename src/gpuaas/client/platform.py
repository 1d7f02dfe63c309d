"""The platform's verbs: proofs and health, users, credentials, dead letters, the built-in issuer."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.admin import Health, ProcessStats, Verification, VerifyQuery
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.issuer import (
    IssuerAccountCreate,
    IssuerAccountOpened,
    IssuerAccountPasswordReset,
    IssuerAccountQuery,
    IssuerAccountView,
    IssuerKeyList,
    IssuerKeyRotate,
)
from gpuaas.contracts.http.orgs import OrgQuery, OrgView
from gpuaas.contracts.http.outbox import DeadLetterDetail, DeadLetterDiscard, DeadLetterQuery, DeadLetterView
from gpuaas.contracts.http.sessions import CredentialRevoke, IssuerKeysRefreshed, RevokedCredential
from gpuaas.contracts.http.users import PlatformRolesSet, UserQuery, UserStateReason, UserView


def ops_verify(query: VerifyQuery) -> Call[Verification]:
    return Call(operation="ops_verify", method="GET", path="/ops/verify", answer=Verification, query=query)


def ops_health() -> Call[Health]:
    return Call(operation="ops_health", method="GET", path="/ops/health", answer=Health)


def process_stats() -> Call[ProcessStats]:
    return Call(operation="process_stats", method="GET", path="/internal/stats", answer=ProcessStats)


def user_list(query: UserQuery) -> Call[Page[UserView]]:
    return Call(operation="user_list", method="GET", path="/platform/users", answer=Page[UserView], query=query)


def org_list_all(query: OrgQuery) -> Call[Page[OrgView]]:
    return Call(operation="org_list_all", method="GET", path="/platform/orgs", answer=Page[OrgView], query=query)


def user_get(user_id: UUID) -> Call[UserView]:
    return Call(operation="user_get", method="GET", path=f"/platform/users/{user_id}", answer=UserView)


def user_disable(user_id: UUID, wanted: UserStateReason) -> Call[UserView]:
    path = f"/platform/users/{user_id}/disable"
    return Call(operation="user_disable", method="POST", path=path, answer=UserView, body=wanted)


def user_enable(user_id: UUID, wanted: UserStateReason) -> Call[UserView]:
    path = f"/platform/users/{user_id}/enable"
    return Call(operation="user_enable", method="POST", path=path, answer=UserView, body=wanted)


def user_platform_roles_set(user_id: UUID, wanted: PlatformRolesSet) -> Call[UserView]:
    path = f"/platform/users/{user_id}/platform-roles"
    return Call(operation="user_platform_roles_set", method="PUT", path=path, answer=UserView, body=wanted)


def credential_revoke(wanted: CredentialRevoke) -> Call[RevokedCredential]:
    path = "/platform/revoked-credentials"
    return Call(operation="credential_revoke", method="POST", path=path, answer=RevokedCredential, body=wanted)


def issuer_keys_refresh() -> Call[IssuerKeysRefreshed]:
    path = "/platform/issuer-keys/refresh"
    return Call(operation="issuer_keys_refresh", method="POST", path=path, answer=IssuerKeysRefreshed)


def dead_letter_list(query: DeadLetterQuery) -> Call[Page[DeadLetterView]]:
    path = "/dead-letters"
    return Call(operation="dead_letter_list", method="GET", path=path, answer=Page[DeadLetterView], query=query)


def dead_letter_get(dead_letter_id: UUID) -> Call[DeadLetterDetail]:
    path = f"/dead-letters/{dead_letter_id}"
    return Call(operation="dead_letter_get", method="GET", path=path, answer=DeadLetterDetail)


def dead_letter_replay(dead_letter_id: UUID) -> Call[DeadLetterView]:
    path = f"/dead-letters/{dead_letter_id}/replay"
    return Call(operation="dead_letter_replay", method="POST", path=path, answer=DeadLetterView)


def dead_letter_discard(dead_letter_id: UUID, wanted: DeadLetterDiscard) -> Call[DeadLetterView]:
    path = f"/dead-letters/{dead_letter_id}/discard"
    return Call(operation="dead_letter_discard", method="POST", path=path, answer=DeadLetterView, body=wanted)


def issuer_account_list(query: IssuerAccountQuery) -> Call[Page[IssuerAccountView]]:
    path = "/platform/issuer/accounts"
    return Call(operation="issuer_account_list", method="GET", path=path, answer=Page[IssuerAccountView], query=query)


def issuer_account_create(wanted: IssuerAccountCreate) -> Call[IssuerAccountOpened]:
    path = "/platform/issuer/accounts"
    return Call(operation="issuer_account_create", method="POST", path=path, answer=IssuerAccountOpened, body=wanted)


def issuer_account_password_reset(account_id: UUID, wanted: IssuerAccountPasswordReset) -> Call[IssuerAccountOpened]:
    path = f"/platform/issuer/accounts/{account_id}/password-reset"
    operation = "issuer_account_password_reset"
    return Call(operation=operation, method="POST", path=path, answer=IssuerAccountOpened, body=wanted)


def issuer_key_list() -> Call[IssuerKeyList]:
    return Call(operation="issuer_key_list", method="GET", path="/platform/issuer/keys", answer=IssuerKeyList)


def issuer_key_rotate(wanted: IssuerKeyRotate) -> Call[IssuerKeyList]:
    path = "/platform/issuer/keys/rotate"
    return Call(operation="issuer_key_rotate", method="POST", path=path, answer=IssuerKeyList, body=wanted)
