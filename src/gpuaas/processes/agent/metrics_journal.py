"""What was measured and not yet shipped: a folder of batches, each a file named by its batch id.

Always holds: a batch's id and samples never change once it was sent; at most `most_bytes` and `most_batches` are kept,
the oldest give way; a restart loses at most a line that was being written."""

import os
from pathlib import Path
from uuid import UUID

import msgspec

from gpuaas.contracts.http.agent import Sample, TellMetrics
from gpuaas.kit.ids import new_id

BATCH_SAMPLES = 60
BATCH_BYTES = 256 * 1024
MOST_BYTES = 64 * 1024 * 1024
MOST_BATCHES = 2000
_SUFFIX = ".jsonl"


class MetricsJournal:
    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES, most_batches: int = MOST_BATCHES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._most_batches = most_batches
        self._sizes: dict[UUID, int] = {}
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            try:
                self._sizes[UUID(path.name.removesuffix(_SUFFIX))] = path.stat().st_size
            except ValueError:
                path.unlink()
        self._open: UUID | None = None
        self._samples = 0
        self.dropped_batches = 0

    @property
    def batches(self) -> int:
        return len(self._sizes)

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    def add(self, sample: Sample) -> None:
        """Write it down; the oldest give way when there is too much."""
        line = msgspec.json.encode(sample) + b"\n"
        if self._open is None or self._samples >= BATCH_SAMPLES or self._sizes[self._open] + len(line) > BATCH_BYTES:
            self._open, self._samples = new_id(), 0
            self._sizes[self._open] = 0
        descriptor = os.open(self._path(self._open), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
        self._samples += 1
        self._sizes[self._open] += len(line)
        while len(self._sizes) > 1 and (self.bytes > self._most_bytes or len(self._sizes) > self._most_batches):
            self.shipped(next(iter(self._sizes)))
            self.dropped_batches += 1

    def oldest(self) -> TellMetrics | None:
        """The batch to ship next; no more is added to it from now on."""
        for batch_id in list(self._sizes):
            if batch_id == self._open:
                self._open = None
            samples = self._read(batch_id)
            if samples:
                return TellMetrics(batch_id=batch_id, samples=samples)
            self.shipped(batch_id)
        return None

    def shipped(self, batch_id: UUID) -> None:
        self._path(batch_id).unlink(missing_ok=True)
        self._sizes.pop(batch_id, None)
        if batch_id == self._open:
            self._open = None

    def _read(self, batch_id: UUID) -> list[Sample]:
        """Its samples; a line cut short by a crash is left out, the same each time."""
        samples: list[Sample] = []
        try:
            content = self._path(batch_id).read_bytes()
        except OSError:
            return []
        for line in content.split(b"\n"):
            try:
                samples.append(msgspec.json.decode(line, type=Sample))
            except msgspec.MsgspecError:
                continue
        return samples[:500]

    def _path(self, batch_id: UUID) -> Path:
        return self._folder / f"{batch_id}{_SUFFIX}"
