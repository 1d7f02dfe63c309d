"""The built-in certificate authority: ECDSA P-256. Always holds: a private key leaves this module only sealed with the
master key, bound to its authority's id; a sealed key of one authority does not open as another's."""

from ipaddress import ip_address
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_der_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpuaas.kit.secrets import MasterKey
from gpuaas.ports.ca import Authority, Leaf, Usage, Validity

ORGANISATION = "GPUaaS"
UNBOUNDED = None  # a root may vouch for its successor, and that one for its own; an intermediate for leaves only
_PURPOSE = {Usage.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH, Usage.SERVER: ExtendedKeyUsageOID.SERVER_AUTH}


class BuiltInCa:
    """Implements `ports.ca.CertificateAuthority`."""

    def __init__(self, master: MasterKey) -> None:
        self._master = master
        self._unsealed: dict[UUID, tuple[bytes, ec.EllipticCurvePrivateKey]] = {}

    async def root(self, authority_id: UUID, subject: str, validity: Validity) -> Authority:
        key, name = ec.generate_private_key(ec.SECP256R1()), _name(subject)
        built = _authority(name, name, key.public_key(), key.public_key(), validity, UNBOUNDED)
        return self._kept(authority_id, built.sign(key, hashes.SHA256()), key)

    async def intermediate(self, parent: Authority, authority_id: UUID, subject: str, validity: Validity) -> Authority:
        key, above, parent_key = ec.generate_private_key(ec.SECP256R1()), _read(parent.certificate), self._key(parent)
        built = _authority(_name(subject), above.subject, key.public_key(), parent_key.public_key(), validity, 0)
        return self._kept(authority_id, built.sign(parent_key, hashes.SHA256()), key)

    async def cross(self, parent: Authority, root: Authority, validity: Validity) -> bytes:
        below, above, parent_key = _read(root.certificate), _read(parent.certificate), self._key(parent)
        built = _authority(
            below.subject, above.subject, below.public_key(), parent_key.public_key(), validity, UNBOUNDED
        )
        return built.sign(parent_key, hashes.SHA256()).public_bytes(Encoding.DER)

    async def sign(self, authority: Authority, leaf: Leaf) -> bytes:
        key, above = self._key(authority), _read(authority.certificate)
        public: CertificatePublicKeyTypes = load_der_public_key(leaf.public_key)  # type: ignore[assignment] # the caller has checked its kind
        built = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(above.subject)
            .public_key(public)
            .serial_number(leaf.serial)
            .not_valid_before(leaf.not_before)
            .not_valid_after(leaf.not_after)
            # Without a subject the alternative name is the identity: it is critical then (RFC 5280, 4.2.1.6).
            .add_extension(x509.SubjectAlternativeName(_names(leaf)), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_PURPOSE[leaf.usage]]), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        )
        return built.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)

    def _kept(self, authority_id: UUID, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Authority:
        plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        sealed = self._master.seal(plain, _seal_purpose(authority_id))
        return Authority(id=authority_id, certificate=certificate.public_bytes(Encoding.DER), key_sealed=sealed)

    def _key(self, authority: Authority) -> ec.EllipticCurvePrivateKey:
        known = self._unsealed.get(authority.id)
        if known is not None and known[0] == authority.key_sealed:
            return known[1]
        key = load_der_private_key(self._master.unseal(authority.key_sealed, _seal_purpose(authority.id)), None)
        if (
            not isinstance(key, ec.EllipticCurvePrivateKey)
            or key.public_key() != _read(authority.certificate).public_key()
        ):
            raise ValueError(f"the key of authority {authority.id} is not that of its certificate")
        self._unsealed[authority.id] = (authority.key_sealed, key)
        return key


def _seal_purpose(authority_id: UUID) -> str:
    return f"certificate-authority:{authority_id}"


def _read(der: bytes) -> x509.Certificate:
    return x509.load_der_x509_certificate(der)


def _name(subject: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION), x509.NameAttribute(NameOID.COMMON_NAME, subject)]
    )


def _authority(
    subject: x509.Name,
    issuer: x509.Name,
    public: CertificatePublicKeyTypes,
    issuer_public: ec.EllipticCurvePublicKey,
    validity: Validity,
    path_length: int | None,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.not_before)
        .not_valid_after(validity.not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _names(leaf: Leaf) -> list[x509.GeneralName]:
    if leaf.usage is Usage.CLIENT:
        return [x509.UniformResourceIdentifier(name) for name in leaf.names]
    return [_host(name) for name in leaf.names]


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
