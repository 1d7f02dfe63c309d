"""Rate lanes. Each is a generic cell rate: a subject may send `per_minute` requests a minute, `burst` of them at once.

The default lane is a number in this process's memory. The strict lanes (financial, admin, auth, enrolment, terminal)
are a row in PostgreSQL: exact across replicas, and when the database is away they refuse."""

from gpuaas.contracts.error_codes import Code
from gpuaas.infra.http.operation import Lane
from gpuaas.infra.postgres.database import AWAY, Database, away
from gpuaas.kit import clock
from gpuaas.kit.errors import Limited
from gpuaas.ports.policy import PolicyReader

MAX_SUBJECTS = 100_000

# Takes a place in the queue if there is one; no row means there is none.
TAKE = """
INSERT INTO rate_marks AS m (lane, subject, next_at) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second')
ON CONFLICT (lane, subject) DO UPDATE
    SET next_at = greatest(m.next_at, clock_timestamp()) + $3 * interval '1 second'
    WHERE m.next_at <= clock_timestamp() + $4 * interval '1 second'
RETURNING true
"""
WAIT = """
SELECT extract(epoch FROM next_at - clock_timestamp())::float8 - $3 AS seconds FROM rate_marks
WHERE lane = $1 AND subject = $2
"""


_KEYS = {lane: (f"rate_limit.{lane}_per_minute", f"rate_limit.{lane}_burst") for lane in Lane}


class Buckets:
    """The in-process lane: when the next request of each subject would be on time."""

    def __init__(self) -> None:
        self.next_at: dict[str, float] = {}

    def peek(self, subject: str, slack: float) -> float:
        """0 when there is room, else the seconds to wait."""
        now = clock.monotonic()
        return max(self.next_at.get(subject, now) - now - slack, 0.0)

    def take(self, subject: str, gap: float, slack: float) -> float:
        """Takes the room there is, and says 0; else the seconds to wait."""
        now = clock.monotonic()
        next_at = self.next_at.get(subject, now)
        wait = next_at - now - slack
        if wait > 0:
            return wait
        if len(self.next_at) >= MAX_SUBJECTS:
            self.next_at = {key: at for key, at in self.next_at.items() if at > now}
        self.next_at[subject] = max(now, next_at) + gap
        return 0.0


class RateLanes:
    def __init__(self, db: Database, policy: PolicyReader) -> None:
        self._db = db
        self._policy = policy
        self._default = Buckets()
        self._failures = Buckets()

    def take_default(self, subject: str) -> None:
        """A place in the lane for which nobody has to wait."""
        gap, slack = self._limits(Lane.DEFAULT)
        wait = self._default.take(subject, gap, slack)
        if wait > 0:
            raise limited(wait)

    async def take(self, lane: Lane, subject: str) -> None:
        if lane is Lane.DEFAULT:
            self.take_default(subject)
            return
        wait = await self._take_strict(lane, subject, *self._limits(lane))
        if wait > 0:
            raise limited(wait)

    def _limits(self, lane: Lane) -> tuple[float, float]:
        per_minute, burst = _KEYS[lane]
        return gap_and_slack(self._policy.number(per_minute), self._policy.number(burst))

    async def check_open(self, lane: Lane, subject: str) -> None:
        """Refuse if a strict lane has no room for the subject now; takes none."""
        _, slack = self._limits(lane)
        try:
            row = await self._db.statement(WAIT, lane, subject, slack)
        except AWAY as error:
            raise away(error) from error
        if row is not None and float(row["seconds"]) > 0:
            raise limited(float(row["seconds"]))

    async def _take_strict(self, lane: Lane, subject: str, gap: float, slack: float) -> float:
        try:
            if await self._db.statement(TAKE, lane, subject, gap, slack) is not None:
                return 0.0
            row = await self._db.statement(WAIT, lane, subject, slack)
        except AWAY as error:
            raise away(error) from error
        return max(float(row["seconds"]), 0.01) if row else 0.01

    def failed_login(self, client_ip: str) -> None:
        """An unknown credential came from this address; the address waits when it keeps guessing."""
        self._failures.take(client_ip, *self._failure_limit())

    def suspects(self, client_ip: str) -> bool:
        """Whether unknown credentials came from this address of late: then `check_guessing`."""
        return client_ip in self._failures.next_at

    def check_guessing(self, client_ip: str) -> None:
        wait = self._failures.peek(client_ip, self._failure_limit()[1])
        if wait > 0:
            raise limited(wait)

    def _failure_limit(self) -> tuple[float, float]:
        per_minute = self._policy.number("rate_limit.bad_credentials_per_minute")
        return gap_and_slack(per_minute, per_minute)


def gap_and_slack(per_minute: int, burst: int) -> tuple[float, float]:
    """Seconds from one request to the next, and the seconds a subject may be ahead of that."""
    gap = 60.0 / per_minute
    return gap, gap * (burst - 1)


def limited(seconds: float) -> Limited:
    return Limited(Code.RATE_LIMITED, f"Too many requests. Try again in {seconds:.1f} s.", retry_after=seconds)
