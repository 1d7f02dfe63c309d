"""Certificates of sanitisation: what was cleaned after a release, kept by its tenant and checked without us."""

import base64
import binascii
from pathlib import Path
from uuid import UUID

import msgspec

from gpuaas.client import allocations
from gpuaas.client.api import decode
from gpuaas.contracts.certificates import CERTIFICATE_TYPE, CheckedGpu, SanitisationStatement
from gpuaas.contracts.http.allocations import CertificateKey, CertificateOfRelease, CertificateQuery
from gpuaas.contracts.tasks.catalogue import Cleaning
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, PROJECT, Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.naming_allocations import allocation_of
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.pinned_keys import PinnedKeys, keys_in, signs_at
from gpuaas.processes.cli.run import Run

GROUP = Group("certificates", "Proofs that GPUs were cleaned after you gave them back; checked without us.")
_MAX_BYTES = 1_000_000
_COLUMNS: list[Column[CertificateOfRelease]] = [
    ("id", lambda one: one.id),
    ("issued", lambda one: one.issued_at),
    ("clean gpus", lambda one: one.serials),
    ("key", lambda one: one.key_id),
    ("allocation", lambda one: one.allocation_id),
    ("node", lambda one: one.node_id),
]
_KEY_COLUMNS: list[Column[CertificateKey]] = [
    ("key", lambda key: key.key_id),
    ("public key", lambda key: key.public_key),
    ("signs from", lambda key: key.signs_from),
    ("until", lambda key: key.signs_until or "it is the current one"),
]
_GPU_COLUMNS: list[Column[CheckedGpu]] = [
    ("gpu", lambda gpu: gpu.serial),
    ("model", lambda gpu: gpu.model),
    ("clean", lambda gpu: gpu.clean),
    ("detail", lambda gpu: gpu.detail),
]
_CLEANING_COLUMNS: list[Column[Cleaning]] = [
    ("what", lambda one: one.target),
    ("how", lambda one: one.method.value.replace("_", " ")),
    ("clean", lambda one: one.clean),
    ("evidence", lambda one: one.evidence),
    ("at", lambda one: one.at),
]


@GROUP.command(
    "list",
    Argument("--allocation", help="Only those of this allocation, by name or id.", completes="allocation"),
    PROJECT,
    ORG,
    LIMIT,
    ALL,
    summary="List certificates of sanitisation, the newest first.",
)
def sanitisation_list(
    run: Run, *, allocation: str | None, project: str | None, org: str | None, limit: int, all: bool
) -> None:
    if allocation is None:
        project_id, allocation_id = names.project(run, project, org), None
    else:
        project_id, allocation_id = allocation_of(run, allocation, project, org)
    empty = "No certificates yet: one is issued for each node when an allocation is released."
    call = allocations.sanitisation_list(project_id, CertificateQuery(allocation_id=allocation_id))
    run.table(call, _COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command(
    "download",
    Argument("certificate", help="Its id, or the name or id of the allocation it is of.", completes="allocation"),
    Argument(
        "--to-file", help="Where to; several go into this folder. Default: certificate-ID.json here.", completes="file"
    ),
    PROJECT,
    ORG,
    summary="Save a certificate, and keep the public keys that check it.",
    about="The file is a DSSE envelope, byte for byte as it was signed. Check it with: gpuaas certificates verify FILE",
)
def sanitisation_get(run: Run, *, certificate: str, to_file: str | None, project: str | None, org: str | None) -> None:
    project_id, ids = _meant(run, certificate, project, org)
    _keep_keys(run)
    for certificate_id in ids:
        call = allocations.sanitisation_get(project_id, certificate_id)
        body = run.api.send_raw(call)
        found = decode(call, body)
        path = _target(to_file, certificate_id, several=len(ids) > 1)
        try:
            path.write_bytes(found.envelope.encode())
        except OSError as error:
            raise Stop(f"Cannot write {path}: {error.strerror}.") from error
        if run.out.json:
            run.out.raw(body)
        else:
            run.out.line(str(path))
            run.out.note(f"Check it with: gpuaas certificates verify {path}")


def _target(to_file: str | None, certificate_id: UUID, *, several: bool) -> Path:
    name = f"certificate-{certificate_id}.json"
    if to_file is None:
        return Path(name)
    path = Path(to_file).expanduser()
    return path / name if several or path.is_dir() else path


def _meant(run: Run, word: str, project: str | None, org: str | None) -> tuple[UUID, list[UUID]]:
    """A certificate's id is one; an allocation's, or its name, means all of its certificates."""
    project_id, known = allocation_of(run, word, project, org)
    query = CertificateQuery(allocation_id=known, limit=MAX_LIMIT)
    found = [one.id for one in run.api.items(allocations.sanitisation_list(project_id, query))]
    if found:
        return project_id, found
    if names.as_id(word) is not None:
        return project_id, [known]
    raise Stop(
        f"{word} has no certificate: one is issued when an allocation is released.",
        f"See: gpuaas allocations show {word}",
        Exit.MISSING,
    )


def _keep_keys(run: Run) -> list[CertificateKey]:
    keys = run.api.send(allocations.sanitisation_keys()).keys
    pinned = PinnedKeys(run.config_file.directory)
    for key_id in pinned.keep(keys):
        run.out.note(f"Kept the public key {key_id} of {run.url} in {pinned.path}.")
    return keys


@GROUP.command(
    "keys",
    summary="Show the public keys certificates are signed with, and keep them for checking without us.",
    examples=["gpuaas certificates keys --output json > keys.json"],
)
def sanitisation_keys(run: Run) -> None:
    body = run.api.send_raw(allocations.sanitisation_keys())
    keys = _keep_keys(run)
    if run.out.json:
        run.out.raw(body)
    else:
        run.out.table(_KEY_COLUMNS, keys, empty="There is no key yet: one is made for the first certificate.")


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify --output json` prints."""

    valid: bool
    key_id: str
    statement: SanitisationStatement


@GROUP.command(
    "verify",
    Argument("file", help="A certificate, as downloaded.", completes="file"),
    Argument("--keys", help="Check with the keys in this file. Default: those that were kept.", completes="file"),
    summary="Check a certificate without the network: its signature, its key's time, what was cleaned and how.",
    about="Ends with 1 if a single byte is not as it was signed.",
    examples=["gpuaas certificates verify certificate.json", "gpuaas certificates verify c.json --keys keys.json"],
)
def verify(run: Run, *, file: str, keys: str | None) -> None:
    path = Path(file).expanduser()
    try:
        envelope = path.read_bytes()[: _MAX_BYTES + 1]
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    trusted = keys_in(Path(keys).expanduser()) if keys else PinnedKeys(run.config_file.directory).read()
    if not trusted:
        raise UsageError(
            "There are no keys to check it with.",
            "Keep them with: gpuaas certificates keys (once, from the API), or say --keys FILE",
        )
    checked = _checked(envelope, trusted, str(path))
    if run.out.json:
        run.out.raw(msgspec.json.encode(checked))
    else:
        _show(run, checked)


def _checked(envelope: bytes, trusted: list[CertificateKey], name: str) -> Checked:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from gpuaas.kit import dsse

    try:
        public = {
            key.key_id: Ed25519PublicKey.from_public_bytes(base64.b64decode(key.public_key, validate=True))
            for key in trusted
        }
    except (binascii.Error, ValueError) as error:
        raise UsageError("A key to check it with is not an Ed25519 public key in base64.") from error
    try:
        payload, key_id = dsse.unseal(envelope, CERTIFICATE_TYPE, public)
        statement = msgspec.json.decode(payload, type=SanitisationStatement)
    except dsse.EnvelopeRefused as error:
        raise Stop(f"NOT VALID: {name}: {error}.", "It was changed, or it was signed by somebody else.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Stop(f"NOT VALID: {name}: it is signed, but it is not such a certificate.") from error
    key = next(key for key in trusted if key.key_id == key_id)
    if not signs_at(key, statement.issued_at):
        when = f"{statement.issued_at:%Y-%m-%d %H:%M:%S} UTC"
        raise Stop(f"NOT VALID: {name}: it says {when}, when the key {key_id} did not sign.")
    return Checked(valid=True, key_id=key_id, statement=statement)


def _show(run: Run, checked: Checked) -> None:
    it = checked.statement
    clean = [gpu for gpu in it.gpus if gpu.clean]
    run.out.line(f"Valid: signed by {checked.key_id}, and not a byte was changed since.")
    run.out.line("")
    run.out.fields(
        [
            ("certificate", it.certificate_id),
            ("allocation", it.allocation_id),
            ("project", it.project_id),
            ("node", f"{it.node_name} ({it.node_id})"),
            ("held", f"{it.held_from:%Y-%m-%d %H:%M:%S} to {it.held_until:%Y-%m-%d %H:%M:%S} UTC"),
            ("issued", f"{it.issued_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("isolation", it.isolation),
            ("account", "removed" if it.account_removed else "NOT proven removed"),
            ("processes ended", it.processes_ended),
            ("gpus", f"{len(clean)} of {len(it.gpus)} clean and healthy"),
        ]
    )
    run.out.line("")
    columns = _GPU_COLUMNS if any(gpu.detail for gpu in it.gpus) else _GPU_COLUMNS[:-1]
    run.out.table(columns, it.gpus, empty="It names no GPU.")
    run.out.line("")
    run.out.table(_CLEANING_COLUMNS, it.cleanings, empty="It names nothing that was cleaned.")
    if len(clean) < len(it.gpus):
        run.out.line("")
        run.out.line("Those that are not clean went into quarantine: nobody is given them.")
