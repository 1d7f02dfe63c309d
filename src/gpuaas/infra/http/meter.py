"""Counts and times of requests, kept as plain numbers and turned into Prometheus metrics when asked: the library's own
histogram and counter cost more than the rest of a small request."""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Operation:
    __slots__ = ("buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.statuses: dict[int, int] = {}


class RequestMeter(Collector):
    def __init__(self) -> None:
        self._operations: dict[str, _Operation] = {}

    def count(self, operation: str, status: int, seconds: float) -> None:
        seen = self._operations.get(operation)
        if seen is None:
            seen = self._operations[operation] = _Operation()
        seen.seconds += seconds
        seen.buckets[bisect_left(BUCKETS, seconds)] += 1
        seen.statuses[status] = seen.statuses.get(status, 0) + 1

    def collect(self) -> Iterator[Metric]:
        times = HistogramMetricFamily("gpuaas_http_request_seconds", "Time to answer a request.", labels=["operation"])
        answers = CounterMetricFamily(
            "gpuaas_http_answers", "Answers by operation and status.", labels=["operation", "status"]
        )
        for name, seen in list(self._operations.items()):
            times.add_metric([name], list(_cumulative(seen.buckets)), sum_value=seen.seconds)
            for status, count in seen.statuses.items():
                answers.add_metric([name, str(status)], count)
        yield times
        yield answers


def _cumulative(buckets: list[int]) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
        total += count
        yield bound, total
