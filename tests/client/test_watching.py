"""Watching an allocation, against a server that breaks off, refuses streams or goes away."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gpuaas.client import watching
from gpuaas.client.api import Api, Fixed
from gpuaas.client.errors import ApiError, ClientError
from gpuaas.client.watching import events, timeline_watch
from gpuaas.kit.ids import new_id
from tests.client.test_api import HANG_UP, Stubborn, said, server

__all__ = ["server"]
PLACE = (new_id(), new_id())


def timeline(*phases: str, state: str = "provisioning") -> dict[str, Any]:
    moment = {"at": "2026-01-01T00:00:00Z", "detail": "", "seconds": None, "source": "control", "actor": "x"}
    return {"state": state, "moments": [moment | {"phase": phase, "correlation_id": ""} for phase in phases]}


def stream(*told: dict[str, Any], end: bool = False) -> tuple[int, bytes, dict[str, str]]:
    body = b": still here\n\n" + b"".join(
        b"event: timeline\ndata: " + msgspec.json.encode(one) + b"\n\n" for one in told
    )
    return 200, body + (b"event: end\ndata: {}\n\n" if end else b""), {"content_type": "text/event-stream"}


@pytest.fixture
def api(server: Stubborn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.01)
    with Api(server.url, Fixed("a-key"), tries=1) as made:
        yield made


def watched(api: Api, most: int = 10) -> list[list[str]]:
    found = itertools.islice(timeline_watch(api, *PLACE), most)
    return [[moment.phase for moment in one.moments] for one in found]


def test_each_change_is_told_once_until_it_has_ended(server: Stubborn, api: Api):
    server.answers = [stream(timeline("a"), timeline("a"), timeline("a", "b", state="released"), end=True)]
    assert watched(api) == [["a"], ["a", "b"]]
    assert len(server.asked) == 1
    assert server.asked[0]["path"].endswith("/timeline/live")


def test_a_stream_that_breaks_off_is_connected_again_and_nothing_is_told_twice(server: Stubborn, api: Api):
    server.answers = [
        stream(timeline("a")),
        (HANG_UP, b"", {}),
        (200, timeline("a"), {}),
        stream(timeline("a"), timeline("a", "b", state="failed"), end=True),
    ]
    assert watched(api) == [["a"], ["a", "b"]]
    assert [one["path"].rpartition("/")[2] for one in server.asked] == ["live", "live", "timeline", "live"]


@pytest.mark.parametrize(
    "refusal", [said(503, "overloaded", retry_after="1"), (502, b"<html>", {}), (HANG_UP, b"", {})], ids=str
)
def test_where_no_stream_comes_through_the_timeline_is_asked_for(server: Stubborn, api: Api, refusal: Any):
    server.answers = [refusal, (200, timeline("a"), {}), (200, timeline("a"), {}), (200, timeline("a", "b"), {})]
    assert watched(api, 2) == [["a"], ["a", "b"]]
    assert [one["path"].rpartition("/")[2] for one in server.asked] == ["live", "timeline", "timeline", "timeline"]


@pytest.mark.parametrize("refusal", [said(404, "allocation_missing"), said(403, "permission_denied")], ids=str)
def test_what_is_not_there_or_not_allowed_is_told_at_once(server: Stubborn, api: Api, refusal: Any):
    server.answers = [refusal]
    with pytest.raises(ApiError):
        watched(api)
    assert len(server.asked) == 1


def test_an_api_that_stays_away_is_told(server: Stubborn, api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "AWAY_SECONDS", -1.0)
    server.answers = [(502, b"", {})]
    with pytest.raises(ApiError) as told:
        watched(api)
    assert told.value.status == 502


def test_events_are_read_however_they_are_cut():
    whole = b': hello\n\nevent: a\ndata: {"x": 1}\n\nevent: b\n\ndata: nobody\'s\n\nevent: end\ndata: {}\n\nevent: half'
    expected = [("a", b'{"x": 1}'), ("b", b""), ("end", b"{}")]
    for size in (1, 2, 7, len(whole)):
        cut = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert list(events(cut)) == expected


def test_an_event_without_end_is_refused():
    with pytest.raises(ClientError, match="larger than any"):
        list(events(b"x" * 65_536 for _ in range(100)))
