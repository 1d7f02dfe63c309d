"""How an allocation gets on, while somebody waits: a live list of phases on a terminal, plain lines elsewhere. It is
told beside the answer, where programs do not read."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gpuaas.client.watching import timeline_watch
from gpuaas.contracts.http.allocations import AllocationState, TimelineMoment, TimelineView
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.text import clean

if TYPE_CHECKING:
    from rich.text import Text

S = AllocationState
ENDED = frozenset({S.RELEASED, S.FAILED})
CONTROL = "control"
_WIDTH = 14
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_NEXT = {
    "queued": "waiting in the queue",
    "reserved": "setting the deposit aside",
    "held": "the node takes the GPUs out of everybody else's reach",
    "leased": "making the account",
    "account": "proving the GPUs healthy",
    "proven": "handing over",
    "stopping": "taking back what was made ready",
    "stop": "closing the login and ending what runs",
    "suspended": "keeping home and GPUs",
    "start": "opening the login",
    "releasing": "charging the last seconds, giving the deposit back",
    "settled": "ending processes and removing the account",
    "revoked": "clearing memory and disks, checking the GPUs",
    "cleaned": "giving the GPUs back",
    "forced": "trying again",
}
_BAD = frozenset({"failed", "release_failed", "stop_failed", "start_failed"})
_GOOD = frozenset({"active", "released", "stopped", "started"})


def wait_until(
    run: Run, project_id: UUID, allocation_id: UUID, states: frozenset[AllocationState], *, after: str = ""
) -> AllocationState:
    """Show phases as they come, until it is in one of these states or has ended; the state it is in then. `after`: only
    what comes from the last moment of this phase on is shown."""
    kind = _Live if run.out.err.isatty() and run.environment.colour else _Lines
    state = S.REQUESTED
    with kind(run, after) as shown, closing(timeline_watch(run.api, project_id, allocation_id)) as watched:
        for timeline in watched:
            state = timeline.state
            shown.tell(timeline)
            if state in states | ENDED:
                break
    return state


def _ours(timeline: TimelineView, after: str) -> list[TimelineMoment]:
    """Our own moments: what nodes tell is between them."""
    ours = [moment for moment in timeline.moments if moment.source == CONTROL]
    starts = [place for place, moment in enumerate(ours) if moment.phase == after]
    return ours[starts[-1] :] if starts else ours


class _Lines:
    """For logs: a line for each phase, once."""

    def __init__(self, run: Run, after: str) -> None:
        self._run = run
        self._after = after
        self._told = 0

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, timeline: TimelineView) -> None:
        ours = _ours(timeline, self._after)
        for moment in ours[self._told :]:
            seconds = (moment.at - ours[0].at).total_seconds()
            self._run.out.note(f"{seconds:8.1f} s  {moment.phase:<{_WIDTH}} {moment.detail}".rstrip())
        self._told = len(ours)


class _Live:
    """For people: phases with ticks, the one under way moving, with what its node tells."""

    def __init__(self, run: Run, after: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._after = after
        self._timeline: TimelineView | None = None
        self._began = time.monotonic()
        console = Console(file=run.out.err, highlight=False, markup=False, emoji=False)
        self._live = Live(self, console=console, refresh_per_second=12, vertical_overflow="visible")

    def __enter__(self) -> "_Live":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, timeline: TimelineView) -> None:
        self._timeline = timeline
        self._live.refresh()

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        if self._timeline is None:
            return Text("")
        ours = _ours(self._timeline, self._after)
        lines = [self._line(ours[0], moment) for moment in ours]
        last = ours[-1].phase if ours else ""
        if last in _NEXT:
            lines.append(self._moving(last))
        return Group(*lines)

    def _line(self, first: TimelineMoment, moment: TimelineMoment) -> "Text":
        from rich.text import Text

        mark, style = ("✗", "red") if moment.phase in _BAD else ("✓", "green")
        seconds = f"{(moment.at - first.at).total_seconds():6.1f} s"
        return Text.assemble(
            (f" {mark} ", style),
            (f"{clean(moment.phase):<{_WIDTH}}", "bold" if moment.phase in _BAD | _GOOD else ""),
            (f"{seconds}  ", "dim"),
            clean(moment.detail),
            overflow="fold",
        )

    def _moving(self, last: str) -> "Text":
        from rich.text import Text

        assert self._timeline is not None  # noqa: S101 # only drawn once there is one
        elapsed = time.monotonic() - self._began
        frame = _FRAMES[int(elapsed * 10) % len(_FRAMES)]
        told = [moment for moment in self._timeline.moments if moment.source != CONTROL]
        from_node = f"  {told[-1].source}: {told[-1].phase} {told[-1].detail}" if told else ""
        return Text.assemble((f" {frame} ", "cyan"), _NEXT[last], (clean(from_node), "dim"), overflow="ellipsis")
