"""Verbs on service accounts and their keys."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.service_accounts import (
    KeyCreate,
    KeyCreated,
    KeyRotate,
    KeyView,
    ServiceAccountCreate,
    ServiceAccountUpdate,
    ServiceAccountView,
)

FIRST_PAGE = PageQuery()


def _at(org_id: UUID, account_id: UUID) -> str:
    return f"/orgs/{org_id}/service-accounts/{account_id}"


def service_account_list(org_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[ServiceAccountView]]:
    path = f"/orgs/{org_id}/service-accounts"
    return Call(operation="service_account_list", method="GET", path=path, answer=Page[ServiceAccountView], query=query)


def service_account_create(org_id: UUID, wanted: ServiceAccountCreate) -> Call[ServiceAccountView]:
    path = f"/orgs/{org_id}/service-accounts"
    return Call(operation="service_account_create", method="POST", path=path, answer=ServiceAccountView, body=wanted)


def service_account_get(org_id: UUID, account_id: UUID) -> Call[ServiceAccountView]:
    path = _at(org_id, account_id)
    return Call(operation="service_account_get", method="GET", path=path, answer=ServiceAccountView)


def service_account_update(org_id: UUID, account_id: UUID, wanted: ServiceAccountUpdate) -> Call[ServiceAccountView]:
    path = _at(org_id, account_id)
    return Call(operation="service_account_update", method="PATCH", path=path, answer=ServiceAccountView, body=wanted)


def service_account_delete(org_id: UUID, account_id: UUID) -> Call[Done]:
    return Call(operation="service_account_delete", method="DELETE", path=_at(org_id, account_id), answer=Done)


def service_account_key_list(org_id: UUID, account_id: UUID, query: PageQuery = FIRST_PAGE) -> Call[Page[KeyView]]:
    path = _at(org_id, account_id) + "/keys"
    return Call(operation="service_account_key_list", method="GET", path=path, answer=Page[KeyView], query=query)


def service_account_key_create(org_id: UUID, account_id: UUID, wanted: KeyCreate) -> Call[KeyCreated]:
    path = _at(org_id, account_id) + "/keys"
    return Call(operation="service_account_key_create", method="POST", path=path, answer=KeyCreated, body=wanted)


def service_account_key_rotate(org_id: UUID, account_id: UUID, key_id: UUID, wanted: KeyRotate) -> Call[KeyCreated]:
    path = f"{_at(org_id, account_id)}/keys/{key_id}/rotate"
    return Call(operation="service_account_key_rotate", method="POST", path=path, answer=KeyCreated, body=wanted)


def service_account_key_revoke(org_id: UUID, account_id: UUID, key_id: UUID) -> Call[KeyView]:
    path = f"{_at(org_id, account_id)}/keys/{key_id}"
    return Call(operation="service_account_key_revoke", method="DELETE", path=path, answer=KeyView)
