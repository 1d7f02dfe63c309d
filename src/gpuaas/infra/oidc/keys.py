"""The public keys of one issuer, kept in memory.

Always holds: keys are read again after five minutes; an unknown key id forces at most one read every few seconds,
however many tokens name one; while the issuer is away the last good keys stay; only signature keys of the kinds we
accept are ever held, and never a symmetric one."""

import asyncio
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from gpuaas.contracts.error_codes import Code
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Fault, Unavailable
from gpuaas.ports.issuer_keys import IssuerKeys

REFRESH_SECONDS = 300.0
FORCED_APART_SECONDS = 3.0
RETRY_SECONDS = 15.0
PATIENCE_SECONDS = 1.0
FETCH_SECONDS = 10.0
MAX_KEYS = 64
MAX_KEY_ID = 255
MIN_RSA_CHARACTERS = 342
KEY_KINDS: dict[str, tuple[type[Any], str]] = {"EC": (ECKey, "P-256"), "OKP": (OKPKey, "Ed25519"), "RSA": (RSAKey, "")}
ALGORITHM_KINDS = {"ES256": "EC", "EdDSA": "OKP", "RS256": "RSA", "PS256": "RSA"}


class KeyCache:
    def __init__(self, source: IssuerKeys) -> None:
        self._source = source
        self._keys: dict[str, list[Key]] = {}
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self.generation = 0
        """Counts changes of the set: what was verified under another one is verified again."""

    def key_ids(self) -> list[str]:
        return sorted(self._keys)

    async def find(self, key_id: str, algorithm: str) -> Key | None:
        """The key a token names; without a name, the only one that fits."""
        await self.renew()
        found = self._match(key_id, algorithm)
        if found is None and (self._reading or clock.monotonic() - self._tried_at >= FORCED_APART_SECONDS):
            await self._wait(self._start())
            found = self._match(key_id, algorithm)
        if self.generation == 0:
            raise Unavailable(
                Code.DEPENDENCY_UNAVAILABLE, "The identity provider cannot be reached. Try again.", retry_after=3
            )
        return found

    async def renew(self) -> None:
        """Read the keys again if they are old. Waits a moment only: an issuer that hangs must not hang us."""
        now = clock.monotonic()
        if now - self._read_at < REFRESH_SECONDS or (not self._reading and now - self._tried_at < RETRY_SECONDS):
            return
        await asyncio.wait({self._start()}, timeout=PATIENCE_SECONDS if self.generation else FETCH_SECONDS)

    async def refresh(self) -> bool:
        """Read the keys now, whatever their age; says whether the issuer answered."""
        if self._reading:
            await self._wait(self._start())  # begun before we were asked: not new enough
        started = clock.monotonic()
        await self._wait(self._start())
        return self._read_at >= started

    @property
    def _reading(self) -> bool:
        return self._fetching is not None and not self._fetching.done()

    def _start(self) -> "asyncio.Task[None]":
        """The read under way, or a new one: never two at once."""
        if self._fetching is None or self._fetching.done():
            self._tried_at = clock.monotonic()
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    @staticmethod
    async def _wait(fetching: "asyncio.Task[None]") -> None:
        await asyncio.wait({fetching}, timeout=FETCH_SECONDS)  # one waiter's cancellation leaves the read to the others

    async def _fetch(self) -> None:
        started = clock.monotonic()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                found = usable_keys(await self._source.fetch())
        except (Fault, TimeoutError, OSError) as error:
            reason = getattr(error, "log", "") or str(error) or type(error).__name__
            log.get_logger().warning("issuer keys not read, keeping the last good ones", reason=reason)
            return
        if not found:
            log.get_logger().warning("issuer has no usable key, keeping the last good ones")
            return
        self._read_at = started
        if _identity(found) != _identity(self._keys):
            self._keys = found
            self.generation += 1

    def _match(self, key_id: str, algorithm: str) -> Key | None:
        kind = ALGORITHM_KINDS[algorithm]
        named = self._keys.get(key_id, []) if key_id else [key for keys in self._keys.values() for key in keys]
        fitting = [key for key in named if key.key_type == kind and key.get("alg", algorithm) == algorithm]
        return fitting[0] if len(fitting) == 1 or (fitting and key_id) else None


def usable_keys(document: dict[str, Any]) -> dict[str, list[Key]]:
    """The keys of a JWK set we would accept a signature from; what we cannot use is passed over, as RFC 7517 says."""
    listed = document.get("keys")
    found: dict[str, list[Key]] = {}
    for jwk in listed[:MAX_KEYS] if isinstance(listed, list) else []:
        key = _import(jwk) if isinstance(jwk, dict) else None
        if key is not None:
            found.setdefault(str(jwk.get("kid", "")), []).append(key)
    return found


def _import(jwk: dict[str, Any]) -> Key | None:
    kind, curve = KEY_KINDS.get(str(jwk.get("kty")), (None, ""))
    key_id = jwk.get("kid", "")
    if kind is None or jwk.get("use", "sig") != "sig" or not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID:
        return None
    if (curve and jwk.get("crv") != curve) or jwk.get("alg", "ES256") not in ALGORITHM_KINDS:
        return None
    # 2048 bits are at least 342 characters of base64url; a smaller key is not even read.
    if jwk["kty"] == "RSA" and len(str(jwk.get("n", ""))) < MIN_RSA_CHARACTERS:
        return None
    public = {name: jwk[name] for name in ("kty", "kid", "alg", "crv", "x", "y", "n", "e") if name in jwk}
    try:
        key: Key = kind.import_key(public)
        key.get_op_key("verify")
    except (JoseError, ValueError, TypeError, KeyError) as error:
        log.get_logger().warning("issuer key passed over", key_id=key_id, reason=str(error))
        return None
    return key


def _identity(keys: dict[str, list[Key]]) -> set[tuple[str, str]]:
    return {(key_id, key.thumbprint()) for key_id, same in keys.items() for key in same}
