"""Verbs of standing: how an organisation stands with its money."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.standing import StandingPause, StandingsView


def standing_get(org_id: UUID) -> Call[StandingsView]:
    return Call(operation="standing_get", method="GET", path=f"/orgs/{org_id}/standing", answer=StandingsView)


def standing_pause(org_id: UUID, wanted: StandingPause) -> Call[StandingsView]:
    path = f"/admin/orgs/{org_id}/standing-pause"
    return Call(operation="standing_pause", method="PUT", path=path, answer=StandingsView, body=wanted)
