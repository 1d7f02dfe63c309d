"""Becoming a node: a key made here, a request for its certificate, a token that works once.

Always holds: `agent.json` is written last, so a node is enrolled entirely or not at all; a lost answer is asked for
again under the same key, so the token is not lost with it."""

import socket

import msgspec

from gpuaas.client.agent import node_enrol
from gpuaas.client.api import Api, check_plain_http
from gpuaas.client.errors import ClientError
from gpuaas.contracts.http.agent import Enrol, Enrolled
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.identity import ENROLMENT, Enrolment, keep_identity, make_request
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.task_log import TaskLog
from gpuaas.processes.agent.trust import first_trust, keep_trust


def enrol(
    state: StateDirectory, api: Api, *, token: str, version: str, plain_http: bool = False, replace: bool = False
) -> Enrolment:
    if state.read(ENROLMENT) is not None and not replace:
        raise AgentError(f"{state.path} is enrolled already: say --replace to enrol it as another node")
    request = make_request(socket.gethostname())
    try:
        check_plain_http(api.url, allowed=plain_http)
        enrolled = api.send(node_enrol(Enrol(token=token, csr=request.csr, agent_version=version)))
    except ClientError as error:
        raise AgentError(str(error)) from error
    except msgspec.ValidationError as error:
        raise AgentError(f"this cannot be a token: {error}") from error
    return keep(state, api.url, request.key, enrolled)


def keep(state: StateDirectory, url: str, key: bytes, enrolled: Enrolled) -> Enrolment:
    """Write everything down; what a node was before is gone."""
    state.lock()
    try:
        state.remove(ENROLMENT)
        state.remove("desired.json")
        keep_identity(state, enrolled.node_id, key, enrolled.certificate.certificate)
        keep_trust(state, first_trust(enrolled.trust))
        TaskLog.begin(state)
        enrolment = Enrolment(
            node_id=enrolled.node_id, name=enrolled.name, agent_url=enrolled.agent_url, enrolled_from=url
        )
        state.write(ENROLMENT, msgspec.json.encode(enrolment))
    finally:
        state.unlock()
    return enrolment
