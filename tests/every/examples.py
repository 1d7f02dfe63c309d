"""A valid request for every operation. `EXAMPLES` is by operation id, and complete: a test compares it with the
register.

A builder gets the setting and whoever asks, adds the rows its request is about, and says the path's parameters (those
of the scope are the setting's), the query and the body. `instead` says what the domain answers somebody whose role
would do, but for whom the verb cannot."""

import base64
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.infra.passwords import hash_now
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import INVITATION_PREFIX, REFRESH_PREFIX, MasterKey, new_token, token_hash
from tests.every.world import FRESH_POLICY, SET_POLICY, Caller, Setting, ssh_public_key

REASON = "as an example"
PASSWORD, NEXT_PASSWORD = "correct horse battery staple", "staple battery horse correct"


@dataclass(frozen=True)
class Example:
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    instead: dict[str, tuple[int, Code]] = field(default_factory=dict)
    credential: str | None = None
    """The caller's credential, when the request needs one that the issuer has a row of."""


@dataclass(frozen=True)
class Stage:
    """What a builder may need beside the setting."""

    setting: Setting
    caller: Caller
    master: MasterKey
    issuer: str
    mint: Any


Builder = Callable[[Stage], Awaitable[Example]]
EXAMPLES: dict[str, Builder] = {}


def example(build: Callable[[Stage], Awaitable[Example]]) -> Builder:
    """Its name is the operation's id."""
    assert build.__name__ not in EXAMPLES
    EXAMPLES[build.__name__] = build
    return build


def plain(operation_id: str, **parts: Any) -> None:
    """A request that is the same for everybody and needs no rows of its own."""

    async def build(stage: Stage) -> Example:
        return Example(**parts)

    build.__name__ = operation_id
    example(build)


for _id in (
    "org_list",
    "org_get",
    "project_list",
    "project_get",
    "project_delete",
    "member_list",
    "project_member_list",
    "invitation_list",
    "service_account_list",
    "ssh_key_list",
    "user_me_get",
    "session_get",
    "auth_config_get",
    "policy_key_list",
    "policy_list",
    "policy_org_list",
    "policy_project_list",
    "dead_letter_list",
    "audit_list",
    "audit_platform_list",
    "audit_export_csv",
    "audit_export_jsonl",
    "audit_platform_export_csv",
    "audit_platform_export_jsonl",
    "audit_checkpoint_list",
    "user_list",
    "org_list_all",
    "issuer_account_list",
    "issuer_key_list",
    "ops_verify",
    "ops_health",
    "process_stats",
):
    plain(_id)

for _where in ("", "org_", "project_"):
    plain(f"policy_{_where}get", path={"name": SET_POLICY})
    plain(f"policy_{_where}explain", path={"name": SET_POLICY})
    plain(f"policy_{_where}set", path={"name": FRESH_POLICY}, body={"value": 9, "reason": REASON})
for _where in ("", "org_"):
    plain(f"policy_{_where}rehearse", path={"name": SET_POLICY}, query={"value": "6"})
for _where in ("org_", "project_"):
    plain(f"policy_{_where}unset", path={"name": SET_POLICY}, query={"reason": REASON})
plain("issuer_key_rotate", body={"reason": REASON})
plain("user_me_update", body={"name": "Another Name"})
plain("login_start", body={"redirect_uri": "http://127.0.0.1:8931/callback"})


# organisations, projects ---------------------------------------------------------------------------------------------
@example
async def org_create(stage: Stage) -> Example:
    return Example(body={"name": _name("made"), "title": "Made"})


@example
async def org_update(stage: Stage) -> Example:
    return Example(body={"name": _name("renamed"), "title": "Renamed"})


@example
async def org_delete(stage: Stage) -> Example:
    await stage.setting.sql.execute("UPDATE projects SET deleted_at = now() WHERE org_id = $1", stage.setting.org_id)
    return Example()


@example
async def project_create(stage: Stage) -> Example:
    return Example(body={"name": _name("made")})


@example
async def project_update(stage: Stage) -> Example:
    return Example(body={"name": _name("renamed")})


# members, invitations ------------------------------------------------------------------------------------------------
@example
async def member_update(stage: Stage) -> Example:
    return Example(path={"user_id": stage.setting.people["target"].id}, body={"role": "viewer"})


@example
async def member_remove(stage: Stage) -> Example:
    return Example(path={"user_id": stage.setting.people["target"].id})


@example
async def member_leave(stage: Stage) -> Example:
    nobody = (404, Code.MEMBER_MISSING)
    return Example(instead={"platform_admin": nobody, "platform_auditor": nobody, "any_account": nobody})


@example
async def project_member_set(stage: Stage) -> Example:
    return Example(path={"user_id": stage.setting.people["target"].id}, body={"role": "member"})


@example
async def project_member_remove(stage: Stage) -> Example:
    return Example(path={"user_id": stage.setting.people["target"].id})


@example
async def invitation_create(stage: Stage) -> Example:
    return Example(body={"email": f"{_name('new')}@example.com", "role": "viewer"})


@example
async def invitation_revoke(stage: Stage) -> Example:
    return Example(path={"invitation_id": stage.setting.invitation_id})


@example
async def invitation_accept(stage: Stage) -> Example:
    """Into an organisation next door of which nobody here is a member."""
    s, token, org_id = stage.setting, new_token(INVITATION_PREFIX), new_id()
    await s.put("orgs", id=org_id, name=_name("inviting"), title="Inviting")
    await s.put("org_members", org_id=org_id, user_id=s.people["nobody"].id, role="owner")
    email = stage.caller.person.email if stage.caller.person else "nobody@example.com"
    await s.put(
        "invitations",
        id=new_id(),
        org_id=org_id,
        email=email,
        role="member",
        token_hash=token_hash(token),
        invited_by=s.people["nobody"].id,
        expires_at=clock.now() + timedelta(days=1),
    )
    return Example(body={"token": token})


# service accounts, SSH keys ------------------------------------------------------------------------------------------
@example
async def service_account_create(stage: Stage) -> Example:
    return Example(body={"name": _name("robot"), "role": "viewer", "allowed_operations": ["project_list"]})


@example
async def service_account_get(stage: Stage) -> Example:
    return Example(path=_tended(stage))


@example
async def service_account_update(stage: Stage) -> Example:
    return Example(path=_tended(stage), body={"name": _name("robot"), "allowed_operations": ["project_get"]})


@example
async def service_account_delete(stage: Stage) -> Example:
    return Example(path=_tended(stage))


@example
async def service_account_key_list(stage: Stage) -> Example:
    return Example(path=_tended(stage))


@example
async def service_account_key_create(stage: Stage) -> Example:
    return Example(path=_tended(stage), body={"expires_in_days": 7})


@example
async def service_account_key_rotate(stage: Stage) -> Example:
    return Example(path=_tended_key(stage), body={"overlap_seconds": 60})


@example
async def service_account_key_revoke(stage: Stage) -> Example:
    return Example(path=_tended_key(stage))


@example
async def ssh_key_add(stage: Stage) -> Example:
    return Example(body={"public_key": f"{ssh_public_key()} ada@laptop", "name": "Laptop"})


@example
async def ssh_key_delete(stage: Stage) -> Example:
    key_id, owner = new_id(), stage.caller.person or stage.setting.people["nobody"]
    await stage.setting.put(
        "ssh_keys",
        id=key_id,
        user_id=owner.id,
        name="laptop",
        algorithm="ssh-ed25519",
        public_key=ssh_public_key(),
        fingerprint=f"SHA256:{key_id.hex}",
    )
    return Example(path={"ssh_key_id": key_id})


# users, sessions -----------------------------------------------------------------------------------------------------
@example
async def user_get(stage: Stage) -> Example:
    return Example(path={"user_id": stage.setting.people["target"].id})


@example
async def user_disable(stage: Stage) -> Example:
    return Example(path={"user_id": stage.setting.people["target"].id}, body={"reason": REASON})


@example
async def user_enable(stage: Stage) -> Example:
    user_id = stage.setting.people["nobody"].id
    await stage.setting.sql.execute("UPDATE users SET state = 'disabled' WHERE id = $1", user_id)
    return Example(path={"user_id": user_id}, body={"reason": REASON})


@example
async def user_platform_roles_set(stage: Stage) -> Example:
    path = {"user_id": stage.setting.people["target"].id}
    return Example(path=path, body={"roles": ["platform-auditor"], "reason": REASON})


@example
async def session_end(stage: Stage) -> Example:
    return Example(body={})


@example
async def credential_revoke(stage: Stage) -> Example:
    return Example(body={"credential_id": new_id().hex, "reason": REASON})


@example
async def issuer_keys_refresh(stage: Stage) -> Example:
    """Once every few seconds: the last time was long ago."""
    await stage.setting.sql.execute("UPDATE issuer_key_marks SET marked_at = now() - interval '1 hour'")
    return Example()


@example
async def login_finish(stage: Stage) -> Example:
    """The browser is just back from the issuer, with a code."""
    s, redirect_uri = stage.setting, "http://127.0.0.1:8931/callback"
    state, nonce, verifier, code = (new_token() for _ in range(4))
    account_id, session_id = await _login(s), new_id()
    await s.put(
        "issuer_sessions",
        id=session_id,
        token_hash=token_hash(new_token()),
        account_id=account_id,
        auth_time=clock.now(),
        expires_at=clock.now() + timedelta(hours=1),
    )
    await s.put(
        "login_states",
        state_hash=token_hash(state),
        nonce=nonce,
        redirect_uri=redirect_uri,
        code_verifier=stage.master.seal(verifier.encode(), "login"),
        expires_at=clock.now() + timedelta(minutes=10),
    )
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    await s.put(
        "issuer_codes",
        code_hash=token_hash(code),
        client_id="gpuaas-api",
        redirect_uri=redirect_uri,
        account_id=account_id,
        session_id=session_id,
        scopes=["openid", "profile", "email", "offline_access"],
        nonce=nonce,
        code_challenge=challenge,
        auth_time=clock.now(),
        expires_at=clock.now() + timedelta(minutes=5),
    )
    return Example(body={"authorization_code": code, "state": state})


@example
async def session_refresh(stage: Stage) -> Example:
    token, family_id = new_token(REFRESH_PREFIX), await _family(stage.setting, "gpuaas-api")
    await stage.setting.put("issuer_refresh_tokens", token_hash=token_hash(token), family_id=family_id)
    return Example(body={"refresh_token": token})


@example
async def password_change(stage: Stage) -> Example:
    """By somebody who logged in at the built-in issuer."""
    body = {"current_password": PASSWORD, "new_password": NEXT_PASSWORD}
    if stage.caller.person is None or stage.caller.name == "revoked":
        return Example(body=body)
    family_id, jti = await _family(stage.setting, "gpuaas-cli"), new_id().hex
    await stage.setting.put(
        "issuer_access_tokens", jti=jti, family_id=family_id, expires_at=clock.now() + timedelta(hours=1)
    )
    return Example(body=body, credential=stage.mint(stage.caller.person, jti=jti))


@example
async def issuer_account_create(stage: Stage) -> Example:
    return Example(body={"email": f"{_name('login')}@example.com", "name": "A Login"})


@example
async def issuer_account_password_reset(stage: Stage) -> Example:
    return Example(path={"account_id": await _login(stage.setting)}, body={"reason": REASON})


# policy, audit, dead letters -----------------------------------------------------------------------------------------
@example
async def policy_unset(stage: Stage) -> Example:
    await stage.setting.sql.execute(
        "INSERT INTO policy_overrides (key, value, guardrail, set_from, set_by_name, reason) "
        "VALUES ($1, '8', false, 'global', 'tests', $2) ON CONFLICT DO NOTHING",
        SET_POLICY,
        REASON,
    )
    return Example(path={"name": SET_POLICY}, query={"reason": REASON})


@example
async def audit_get(stage: Stage) -> Example:
    return Example(path={"audit_id": stage.setting.audit_id})


@example
async def audit_platform_get(stage: Stage) -> Example:
    return Example(path={"audit_id": stage.setting.audit_id})


@example
async def dead_letter_get(stage: Stage) -> Example:
    return Example(path={"dead_letter_id": stage.setting.dead_letter_id})


@example
async def dead_letter_replay(stage: Stage) -> Example:
    return Example(path={"dead_letter_id": stage.setting.dead_letter_id})


@example
async def dead_letter_discard(stage: Stage) -> Example:
    return Example(path={"dead_letter_id": stage.setting.dead_letter_id}, body={"reason": REASON})


def _name(kind: str) -> str:
    return f"{kind}-{new_id().hex[-12:]}"


def _tended(stage: Stage) -> dict[str, UUID]:
    return {"service_account_id": stage.setting.accounts["tended"].id}


def _tended_key(stage: Stage) -> dict[str, UUID]:
    return _tended(stage) | {"key_id": stage.setting.accounts["tended"].key_id}


@cache
def _password_hash() -> str:
    return hash_now(PASSWORD)


async def _login(s: Setting) -> UUID:
    """At the built-in issuer."""
    account_id = new_id()
    await s.put(
        "issuer_accounts",
        id=account_id,
        email=f"{_name('login')}@example.com",
        email_verified=True,
        name="A Login",
        password_hash=_password_hash(),
        must_change=False,
    )
    return account_id


async def _family(s: Setting, client_id: str) -> UUID:
    """A login of a client that goes on."""
    family_id = new_id()
    await s.put(
        "issuer_families",
        id=family_id,
        account_id=await _login(s),
        client_id=client_id,
        session_id=None,
        scopes=["openid", "profile", "email", "offline_access"],
        auth_time=clock.now(),
        expires_at=clock.now() + timedelta(days=1),
    )
    return family_id


from tests.every import (  # noqa: E402 # the fleet's, in files of their own that use what is above
    allocation_examples,  # noqa: F401 # declares its examples
    billing_examples,  # noqa: F401 # declares its examples
    fleet_examples,  # noqa: F401 # declares its examples
    invoice_examples,  # noqa: F401 # declares its examples
    node_examples,  # noqa: F401 # declares its examples
    notification_examples,  # noqa: F401 # declares its examples
    orphan_examples,  # noqa: F401 # declares its examples
    payment_examples,  # noqa: F401 # declares its examples
    pki_examples,  # noqa: F401 # declares its examples
    quota_examples,  # noqa: F401 # declares its examples
    sealing_examples,  # noqa: F401 # declares its examples
    standing_examples,  # noqa: F401 # declares its examples
    usage_examples,  # noqa: F401 # declares its examples
)
