"""The name of a node in its certificate: read exactly as it is written."""

from uuid import UUID

import pytest
from cryptography import x509

from gpuaas.domains.pki.spiffe import node_name, node_of, node_of_certificate
from tests.support.certificates import Forger

NODE = UUID("01932b1c-7d3e-7abc-8def-0123456789ab")
NAME = f"spiffe://cloud.example/node/{NODE}"


def test_what_is_written_is_read():
    assert node_name("cloud.example", NODE) == NAME
    assert node_of("cloud.example", NAME) == NODE


@pytest.mark.parametrize(
    "name",
    [
        NAME.upper(),
        NAME + "/",
        NAME + "\n",
        " " + NAME,
        NAME + "?a=b",
        NAME + "#x",
        NAME.replace("//", "/"),
        NAME.replace("cloud.example", "cloudXexample"),
        NAME.replace("cloud.example", "cloud.example:443"),
        NAME.replace("cloud.example", "x@cloud.example"),
        NAME.replace("cloud.example", "evil.cloud.example"),
        NAME.replace("/node/", "/node//"),
        NAME.replace("/node/", "/node/../node/"),
        NAME.replace("/node/", "/user/"),
        NAME.replace("spiffe", "https"),
        NAME.replace("-", ""),
        NAME.replace("0", "%30"),
        NAME[:-1],
        NAME + "0",
        "",
        NAME.replace("0193", "٠١٩٣"),
        f"urn:uuid:{NODE}",
    ],
)
def test_nothing_else_is(name):
    assert node_of("cloud.example", name) is None


@pytest.mark.parametrize(
    ("names", "read"),
    [
        ([x509.UniformResourceIdentifier(NAME)], NODE),
        ([], None),
        ([x509.DNSName("cloud.example")], None),
        ([x509.UniformResourceIdentifier(NAME), x509.UniformResourceIdentifier(NAME)], None),
        ([x509.UniformResourceIdentifier(NAME), x509.DNSName("cloud.example")], None),
        ([x509.DNSName("cloud.example"), x509.UniformResourceIdentifier(NAME)], None),
        ([x509.RFC822Name("a@cloud.example")], None),
    ],
    ids=["one", "none", "dns", "twice", "with dns", "after dns", "mail"],
)
def test_a_certificate_has_one_name(names, read):
    assert node_of_certificate("cloud.example", Forger().leaf(*names).leaf) == read
