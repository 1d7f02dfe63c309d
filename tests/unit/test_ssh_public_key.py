"""Which SSH public keys are taken."""

import base64
import re

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.identity.ssh_keys.public_key import parse
from gpuaas.kit.errors import Refused


def line(key) -> str:
    written: bytes = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return written.decode()


def string(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def text(kind: str, blob: bytes) -> str:
    return f"{kind} {base64.b64encode(blob).decode()}"


ED25519 = line(ed25519.Ed25519PrivateKey.generate())
ED_RAW = base64.b64decode(ED25519.split()[1])[-32:]
P256 = line(ec.generate_private_key(ec.SECP256R1()))
P256_POINT = base64.b64decode(P256.split()[1])[-65:]
RSA_3072 = line(rsa.generate_private_key(65537, 3072))
RSA_2048 = line(rsa.generate_private_key(65537, 2048))
SK_ED = text("sk-ssh-ed25519@openssh.com", string(b"sk-ssh-ed25519@openssh.com", ED_RAW, b"ssh:"))
SK_EC = text(
    "sk-ecdsa-sha2-nistp256@openssh.com",
    string(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", P256_POINT, b"ssh:work"),
)
# As printed by `ssh-keygen -l`.
KNOWN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
KNOWN_FINGERPRINT = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name)
def test_every_curve_of_ecdsa_is_taken(curve):
    given = line(ec.generate_private_key(curve))
    assert parse(given).line == given


@pytest.mark.parametrize("given", [ED25519, P256, RSA_3072, SK_ED, SK_EC], ids=lambda given: given.split()[0])
def test_a_good_key_is_taken_and_written_anew(given):
    key = parse(f"  {given} ada@laptop\r\n")
    assert (key.line, key.comment, key.algorithm) == (given, "ada@laptop", given.split()[0])
    assert re.fullmatch(r"SHA256:[A-Za-z0-9+/]{43}", key.fingerprint)


def test_a_fingerprint_is_the_one_ssh_keygen_prints():
    assert parse(KNOWN).fingerprint == KNOWN_FINGERPRINT


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("a  b", "a b"), ("$(rm -rf /) `x` ;\"'|", "rm -rf / x"), ("\u202eevil", None), ("x" * 500, "x" * 120),
        ("né", "n"), ("", ""), ("command=\"/bin/sh\" no-pty", "command=/bin/sh no-pty"),
    ],
)  # fmt: skip
def test_a_comment_is_cleaned(given, clean):
    if clean is None:
        with pytest.raises(Refused):
            parse(f"{ED25519} {given}")
    else:
        assert parse(f"{ED25519} {given}").comment == clean


DSA = text("ssh-dss", string(b"ssh-dss", b"\x01" * 129, b"\x01" * 21, b"\x01" * 128, b"\x01" * 128))
CERTIFICATE = text("ssh-ed25519-cert-v01@openssh.com", string(b"ssh-ed25519-cert-v01@openssh.com", b"n" * 32, ED_RAW))
WEAK_EXPONENT = text("ssh-rsa", string(b"ssh-rsa", b"\x03", b"\x00\xff" + b"\x7f" * 383))
PRIVATE = (
    ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
)


BAD = [
    ("", "type"), ("ssh-ed25519", "base64"), ("ssh-ed25519 ", "type|base64"), ("hello world", "type"),
    (RSA_2048, "3072"), (DSA, "type"), (CERTIFICATE, "type"), (WEAK_EXPONENT, "exponent|parse"),
    (PRIVATE, "one line|private"), (PRIVATE.replace("\n", " "), "private"),
    (f'command="/bin/sh" {ED25519}', "options"), (f"no-pty,restrict {ED25519}", "options"),
    (f"{ED25519}\n{P256}", "one line"), (f"{ED25519} a\nb", "one line"), (f"{ED25519} a\rb", "one line"),
    (f"{ED25519} \x00", "one line"), (f"{ED25519} \x1b[2J", "one line"),
    ("ssh-ed25519 AAAA", "parse"), ("ssh-ed25519 !!!!", "base64"), ("ssh-ed25519  " + ED25519.split()[1], "base64"),
    ("ssh-rsa " + ED25519.split()[1], "another type"), ("ssh-ed25519 " + P256.split()[1], "another type"),
    (text("ssh-ed25519", string(b"ssh-ed25519", ED_RAW) + b"x"), "parse"),
    (text("ssh-ed25519", string(b"ssh-ed25519", ED_RAW, b"more")), "parse"),
    (text("ssh-ed25519", string(b"ssh-ed25519", ED_RAW[:-1])), "parse"),
    (text("ssh-ed25519", b"\xff\xff\xff\xff"), "parse"),
    (text("ecdsa-sha2-nistp256", string(b"ecdsa-sha2-nistp256", b"nistp256", b"\x04" + b"\x01" * 64)), "parse"),
    (text("ecdsa-sha2-nistp256", string(b"ecdsa-sha2-nistp256", b"nistp384", P256_POINT)), "parse"),
    (text("sk-ssh-ed25519@openssh.com", string(b"sk-ssh-ed25519@openssh.com", ED_RAW)), "application"),
    (text("sk-ssh-ed25519@openssh.com", string(b"sk-ssh-ed25519@openssh.com", ED_RAW, b"")), "application"),
    (text("sk-ssh-ed25519@openssh.com", string(b"sk-ssh-ed25519@openssh.com", ED_RAW[:9], b"ssh:")), "parse"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=map(str, range(len(BAD))))
def test_a_bad_key_is_refused_with_the_reason(bad, reason):
    with pytest.raises(Refused) as refused:
        parse(bad)
    assert refused.value.code == Code.SSH_KEY_INVALID
    assert re.search(reason, refused.value.details[0].reason)
