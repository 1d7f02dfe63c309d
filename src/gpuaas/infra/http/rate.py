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
_PER_MINUTE, _BURST = _KEYS[Lane.DEFAULT]


class Buckets:
    """The in-process lane: when the next request of each subject would be on time."""

    def __init__(self) -> None:
        self._next_at: dict[str, float] = {}

    def knows(self, subject: str) -> bool:
        return subject in self._next_at

    def peek(self, subject: str, per_minute: int, burst: int) -> float:
        """0 when there is room, else the seconds to wait."""
        now = clock.monotonic()
        return max(self._next_at.get(subject, now) - now - 60.0 / per_minute * (burst - 1), 0.0)

    def take(self, subject: str, per_minute: int, burst: int) -> float:
        """As `peek`, and takes the room there is."""
        now, gap = clock.monotonic(), 60.0 / per_minute
        next_at = self._next_at.get(subject, now)
        wait = next_at - now - gap * (burst - 1)
        if wait > 0:
            return wait
        if len(self._next_at) >= MAX_SUBJECTS:
            self._next_at = {key: at for key, at in self._next_at.items() if at > now}
        self._next_at[subject] = max(now, next_at) + gap
        return 0.0


class RateLanes:
    def __init__(self, db: Database, policy: PolicyReader) -> None:
        self._db = db
        self._policy = policy
        self._default = Buckets()
        self._failures = Buckets()

    def take_default(self, subject: str) -> None:
        """A place in the lane for which nobody has to ask."""
        wait = self._default.take(subject, self._policy.number(_PER_MINUTE), self._policy.number(_BURST))
        if wait > 0:
            raise limited(wait)

    async def take(self, lane: Lane, subject: str) -> None:
        if lane is Lane.DEFAULT:
            self.take_default(subject)
            return
        per_minute_key, burst_key = _KEYS[lane]
        per_minute, burst = self._policy.number(per_minute_key), self._policy.number(burst_key)
        wait = await self._take_strict(lane, subject, per_minute, burst)
        if wait > 0:
            raise limited(wait)

    async def check_open(self, lane: Lane, subject: str) -> None:
        """Refuse if a strict lane has no room for the subject now; takes none."""
        per_minute, burst = (self._policy.number(key) for key in _KEYS[lane])
        try:
            row = await self._db.statement(WAIT, lane, subject, 60.0 / per_minute * (burst - 1))
        except AWAY as error:
            raise away(error) from error
        if row is not None and float(row["seconds"]) > 0:
            raise limited(float(row["seconds"]))

    async def _take_strict(self, lane: Lane, subject: str, per_minute: int, burst: int) -> float:
        gap = 60.0 / per_minute
        slack = gap * (burst - 1)
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

    def check_guessing(self, client_ip: str) -> None:
        if not self._failures.knows(client_ip):
            return
        per_minute, burst = self._failure_limit()
        wait = self._failures.peek(client_ip, per_minute, burst)
        if wait > 0:
            raise limited(wait)

    def _failure_limit(self) -> tuple[int, int]:
        per_minute = self._policy.number("rate_limit.bad_credentials_per_minute")
        return per_minute, per_minute


def limited(seconds: float) -> Limited:
    return Limited(Code.RATE_LIMITED, f"Too many requests. Try again in {seconds:.1f} s.", retry_after=seconds)
