"""How a story is told: steps in order, each with what takes it back, a deadline and a budget of attempts.

Always holds of a step: it may run twice, and so may its undo, even if the step was only half done; what it changes,
what it tells of and the run's progress commit together. A step that speaks with the outside does so before its
transaction: `Call.load` reads, `Call.act` speaks, and `do` applies the outcome under the fence taken before."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.runs.models import Run
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.parts import Parts


class StepFailed(Exception):
    """The step cannot succeed: trying again would change nothing."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Again(Exception):
    """Not now: the step is tried again, within its budget."""


@dataclass(frozen=True)
class Wait:
    """The step is under way elsewhere. It is looked at again when its subject is woken, after `seconds`, or at its
    deadline."""

    seconds: float | None = None


@dataclass
class Scene:
    """What a step sees: its transaction, its run, and what earlier steps noted. `memo` is saved with the progress."""

    tx: Tx
    run: Run
    memo: dict[str, Any]
    parts: Parts
    outcome: Any = None
    """What the outside said, for a step with a `call`."""

    @property
    def subject_id(self) -> UUID:
        return self.run.subject_id


Act = Callable[[Scene], Awaitable[Wait | None]]


@dataclass(frozen=True)
class Call:
    """A word with the outside. `act` may be repeated with the same `load`: what it asks for carries a key."""

    load: Callable[[Scene], Awaitable[Any]]
    act: Callable[[Parts, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Step:
    name: str
    do: Act
    undo: Act | None
    """None: it cannot be taken back; a failure here or later surrenders."""
    deadline: timedelta
    attempts: int = 5
    undo_deadline: timedelta = timedelta(minutes=10)
    undo_attempts: int = 10
    call: Call | None = None


async def nothing(scene: Scene) -> None:
    """The undo of a step that leaves nothing behind."""


@dataclass(frozen=True)
class Flow:
    kind: FlowKind
    version: int
    steps: tuple[Step, ...]
    surrender: Act
    """When taking back fails too: leave everything where it can do no harm. In the database alone, so that it cannot
    fail for any reason but ours."""
    retired: Mapping[str, Act] = field(default_factory=dict)
    """Undos of steps that this version has no more, for runs that passed them."""
    upgrade: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda _, memo: memo
    """The memo of a run begun by an older version, as this one reads it."""

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if not names or len(set(names)) != len(names) or set(names) & set(self.retired):
            raise TypeError(f"flow {self.kind}: steps have names of their own, and there is at least one")

    def named(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    def after(self, passed: list[str]) -> Step | None:
        """The first step that was not passed, in today's order."""
        return next((step for step in self.steps if step.name not in passed), None)

    def at(self, run: Run) -> Step:
        """The step a run stands at, going forward. One that was removed is skipped."""
        step = self.named(run.step) or self.after(run.passed)
        if step is None:  # all steps that are left were removed
            return Step("end", nothing, nothing, timedelta(minutes=1))
        return step

    def undo_of(self, name: str) -> Act | None:
        step = self.named(name)
        return self.retired.get(name) if step is None else step.undo
