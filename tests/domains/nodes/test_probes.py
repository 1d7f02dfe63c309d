"""Probing a node's address: what is allowed, what never is, and a name that leads elsewhere in between."""

from collections.abc import Sequence

import pytest

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.nodes.probes.addresses import networks, why_not
from gpuaas.domains.nodes.probes.service import ProbeRules, node_probe
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.probing import TcpProber
from gpuaas.kit.errors import Refused
from gpuaas.ports.prober import Prober, Unreachable
from tests.support.fleet import Fleet

EVERYWHERE = networks("0.0.0.0/0,::/0")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "::1",
        "0.0.0.0",
        "::",
        "169.254.169.254",
        "169.254.1.1",
        "fe80::1",
        "fe80::1%eth0",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::7f00:1",
        "::ffff:0:169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "2001:0:4136:e378:8000:63bf:8000:fffe",
        "not an address",
        "",
        "127.0.0.1.nip.io",
    ],
)
def test_some_addresses_are_never_probed_whatever_is_allowed(address: str) -> None:
    assert why_not(address, EVERYWHERE) != ""


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("192.168.7.7", False),
        ("8.8.8.8", False),
        ("::ffff:10.1.2.3", True),
        ("fd12::1", True),
        ("2001:4860::8888", False),
    ],
)
def test_of_the_others_only_those_in_allowed_networks(address: str, allowed: bool) -> None:
    assert (why_not(address, networks("10.0.0.0/8, fd12::/16")) == "") is allowed


class Names(Prober):
    """A name server of the test's own, and a network on which what is asked for is written down."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.connected: list[str] = []

    async def resolve(self, host: str) -> Sequence[str]:
        return self._answers.pop(0)

    async def connect(self, address: str, port: int) -> float:
        self.connected.append(address)
        if address.endswith(".9"):
            raise Unreachable("no route to host")
        return 1.5


RULES = ProbeRules(networks("10.0.0.0/8"))


async def test_a_name_that_changes_between_check_and_connection_leads_nowhere_else(fleet: Fleet):
    agent = await fleet.enrolled(address="gpu-1.example.com")
    names = Names(["10.0.0.5"], ["127.0.0.1"])
    view = await node_probe(fleet.db, names, RULES, agent.id, 22)
    assert (view.reached, view.address, names.connected) == (True, "10.0.0.5", ["10.0.0.5"])


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["10.0.0.5", "127.0.0.1"],
        ["10.0.0.5", "::ffff:169.254.169.254"],
        [],
    ],
)
async def test_a_name_one_of_whose_addresses_may_not_be_probed_is_not_probed_at_all(fleet: Fleet, answer: list[str]):
    agent = await fleet.enrolled(address="gpu-1.example.com")
    names = Names(answer)
    with pytest.raises(Refused) as refused:
        await node_probe(fleet.db, names, RULES, agent.id, 22)
    assert refused.value.code == Code.PROBE_REFUSED
    assert names.connected == []


async def test_what_cannot_be_reached_is_told_with_the_reason(fleet: Fleet):
    agent = await fleet.enrolled(address="10.0.0.9")
    view = await node_probe(fleet.db, Names(["10.0.0.9"]), RULES, agent.id, 22)
    assert (view.reached, view.detail) == (False, "no route to host")
    prober = TcpProber()
    with pytest.raises(Unreachable):
        await prober.connect("127.0.0.1", free_port())
    with pytest.raises(Unreachable):
        await prober.resolve("no-such-host.invalid")
    assert await prober.resolve("10.0.0.1") == ["10.0.0.1"]
