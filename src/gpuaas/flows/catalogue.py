"""Every flow there is. A kind without its steps does not start a worker."""

from gpuaas.contracts.http.flows import FlowKind
from gpuaas.flows.provision import PROVISION
from gpuaas.flows.refund import REFUND
from gpuaas.flows.release import RELEASE
from gpuaas.flows.start import START
from gpuaas.flows.stop import STOP
from gpuaas.flows.story import Flow

FLOWS: dict[FlowKind, Flow] = {flow.kind: flow for flow in (PROVISION, STOP, START, RELEASE, REFUND)}
if set(FLOWS) != set(FlowKind):
    raise TypeError(f"flows without steps: {set(FlowKind) - set(FLOWS)}")
