"""The policy in memory: what every request asks, at the price of a lookup. `service.policy_follow` keeps it fresh.

Always holds: values are of one revision, never a mix of two; while the database is away the last good ones stay."""

import asyncio
from collections.abc import Iterable
from uuid import UUID

import msgspec

from gpuaas.contracts.policy_keys import POLICY_KEYS, PolicyKey, Value
from gpuaas.domains.policy.layers import Layer, decide
from gpuaas.domains.policy.models import Override, Place
from gpuaas.kit import clock
from gpuaas.ports.policy import PolicyReader

NEVER = -1


class _Values(msgspec.Struct, frozen=True):
    """Effective values, decided when the overrides were loaded: a subject without its own follows the one above."""

    everywhere: dict[str, Value]
    by_org: dict[str, dict[UUID, Value]]
    by_project: dict[str, dict[UUID, Value]]


class MemoryPolicy(PolicyReader):
    """Found in the parts of a program as a `PolicyReader`."""

    def __init__(self, keys: dict[str, PolicyKey] = POLICY_KEYS) -> None:
        self._keys = keys
        self.revision = NEVER
        self.hint = asyncio.Event()
        self._values = _resolve(keys, ())
        self._checked_at = clock.monotonic()

    @property
    def loaded(self) -> bool:
        """Whether the values are the database's; before that they are the defaults."""
        return self.revision != NEVER

    def changed(self) -> None:
        """Somebody said that a policy changed: look at once. Called from this process's loop."""
        self.hint.set()

    def checked(self) -> None:
        """The values were found to be the newest just now."""
        self._checked_at = clock.monotonic()

    @property
    def age_seconds(self) -> float:
        """How long ago they were; more than a few seconds means that the database is away."""
        return clock.monotonic() - self._checked_at

    def load(self, revision: int, overrides: Iterable[Override]) -> None:
        """Take over the overrides of one revision, all of them. May run in a thread: readers see all of it or none."""
        self._values = _resolve(self._keys, overrides)
        self.revision = revision

    def number(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> int:
        value = self._find(key, org_id, project_id)
        if type(value) is not int:
            raise TypeError(f"policy {key} is not a number")
        return value

    def text(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> str:
        value = self._find(key, org_id, project_id)
        if type(value) is not str:
            raise TypeError(f"policy {key} is not a choice")
        return value

    def flag(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> bool:
        value = self._find(key, org_id, project_id)
        if type(value) is not bool:
            raise TypeError(f"policy {key} is not a flag")
        return value

    def _find(self, key: str, org_id: UUID | None, project_id: UUID | None) -> Value:
        values = self._values
        if org_id is not None:
            if project_id is not None:
                of_projects = values.by_project.get(key)
                if of_projects is not None and project_id in of_projects:
                    return of_projects[project_id]
            of_orgs = values.by_org.get(key)
            if of_orgs is not None and org_id in of_orgs:
                return of_orgs[org_id]
        elif project_id is not None:
            raise ValueError("a project's policy is asked for with its organisation")
        return values.everywhere[key]


def _resolve(keys: dict[str, PolicyKey], overrides: Iterable[Override]) -> _Values:
    """Overrides of keys this version does not know are left out: an older replica runs beside a newer one."""
    layers = {(o.key, o.place): o.layer() for o in overrides if o.key in keys}
    values = _Values({}, {}, {})
    for name, key in keys.items():
        values.everywhere[name] = decide(key, _present(layers.get((name, Place())))).value
    for (name, place), own in layers.items():
        if place.org_id is None:
            continue
        everywhere = layers.get((name, Place()))
        if place.project_id is None:
            values.by_org.setdefault(name, {})[place.org_id] = decide(keys[name], _present(everywhere, own)).value
        else:
            of_org = layers.get((name, Place(place.org_id)))
            decision = decide(keys[name], _present(everywhere, of_org, own))
            values.by_project.setdefault(name, {})[place.project_id] = decision.value
    return values


def _present(*layers: Layer | None) -> list[Layer]:
    return [layer for layer in layers if layer is not None]
