"""The settings of all programs: read once, by main, from the environment. `contracts/settings.md` is printed from here.

A secret may be given as a file: GPUAAS_MASTER_KEY_FILE. A file that others may read is refused."""

import base64
import os
import re
import stat
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

import msgspec

from gpuaas.contracts.tokens import BUILT_IN

PREFIX = "GPUAAS_"
SEED_BYTES = 32
_TRUST_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_MAIL_FROM = re.compile(r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
PortOrNone = Annotated[int, msgspec.Meta(ge=0, le=65535)]
PoolSize = Annotated[int, msgspec.Meta(ge=1, le=200)]


def _about(text: str, *, secret: bool = False) -> msgspec.Meta:
    return msgspec.Meta(description=text, extra={"secret": secret})


class SettingsError(Exception):
    """One line that says which setting is wrong and what to do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    database_url: Annotated[str, _about("PostgreSQL, as the application's role.", secret=True)]
    database_owner_url: Annotated[
        str, _about("PostgreSQL, as the owner's role; only `migrate` and `up` need it.", secret=True)
    ] = ""
    nats_url: Annotated[str, _about("NATS with JetStream, 2.12 or newer.", secret=True)]
    master_key: Annotated[str, _about("32 random bytes in base64; seals signing keys, signs cursors.", secret=True)]
    public_url: Annotated[str, _about("Where people and programs reach the API.")]
    host: Annotated[str, _about("Address the API listens on.")] = "127.0.0.1"
    port: Annotated[Port, _about("Port the API listens on.")] = 8080
    metrics_port: Annotated[Port, _about("Port for health and metrics of programs other than the API.")] = 9090
    agent_host: Annotated[str, _about("Address the agents' listener of the API listens on.")] = "127.0.0.1"
    agent_port: Annotated[PortOrNone, _about("Port of the agents' listener; 0: there is none.")] = 0
    agent_url: Annotated[
        str, _about("Where agents reach it (https); empty: the public URL's host, at the agents' port.")
    ] = ""
    trust_domain: Annotated[
        str, _about("Names this installation in nodes' certificates: spiffe://…/node/<id>. It stays as it is.")
    ] = "gpuaas.internal"
    probe_networks: Annotated[
        str, _about("Networks in which nodes' addresses may be probed, comma-separated; empty: none may be.")
    ] = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,fd00::/8"
    task_signing_key: Annotated[
        str, _about("32 random bytes in base64: signs what nodes are asked. For the worker alone.", secret=True)
    ] = ""
    task_signing_key_previous: Annotated[
        str, _about("The key it follows, given until every worker has the new one.", secret=True)
    ] = ""
    invoice_seller: Annotated[
        str, _about("Who sells, as invoices and statements print it: name, address, tax number, in lines.")
    ] = "gpuaas"
    objects_url: Annotated[
        str,
        _about(
            "Where files are kept (versions of the agent, invoices): file:///a/folder, or s3://bucket/prefix with "
            "AWS_… variables; empty: nowhere, and none can be published. The same for all programs.",
        ),
    ] = ""
    stripe_secret_key: Annotated[
        str, _about("Our key at Stripe (sk_…), for the API and the worker; empty: nobody can pay here.", secret=True)
    ] = ""
    stripe_webhook_secrets: Annotated[
        str,
        _about(
            "What Stripe signs its notices with (whsec_…), comma-separated: both while one is rotated. For the "
            "webhooks program alone.",
            secret=True,
        ),
    ] = ""
    stripe_api_base: Annotated[
        str, _about("Where Stripe's API is; empty: Stripe's own. `up` without a key sets its demo provider's.")
    ] = ""
    webhooks_host: Annotated[str, _about("Address the webhooks program listens on.")] = "127.0.0.1"
    webhooks_port: Annotated[Port, _about("Port the webhooks program listens on.")] = 8081
    trusted_proxies: Annotated[str, _about("Networks whose X-Forwarded-For is believed, comma-separated.")] = ""
    issuer_url: Annotated[str, _about("OpenID issuer to trust; empty: the built-in one.")] = ""
    oidc_client_id: Annotated[str, _about("Our client at the issuer.")] = "gpuaas-api"
    oidc_client_secret: Annotated[str, _about("Its secret, if it has one.", secret=True)] = ""
    oidc_cli_client_id: Annotated[str, _about("The command line's public client at the issuer.")] = "gpuaas-cli"
    oidc_audience: Annotated[str, _about("Audience that access tokens must name.")] = "gpuaas"
    read_pool_size: Annotated[PoolSize, _about("Connections for reads, per program.")] = 4
    write_pool_size: Annotated[PoolSize, _about("Connections for changes, per program.")] = 8
    otlp_endpoint: Annotated[str, _about("Where spans are shipped (OTLP over HTTP); empty: nowhere.")] = ""
    log_level: Annotated[str, _about("debug, info, warning or error.")] = "info"
    log_format: Annotated[str, _about("json, or console for people.")] = "json"
    smtp_url: Annotated[
        str,
        _about(
            "Mail server: smtps://user:password@host:465, smtp+starttls://user:password@host:587, or smtp://host:25 "
            "without a password (with one on this machine only); empty: email is not sent, and its rows say so.",
            secret=True,
        ),
    ] = ""
    mail_from: Annotated[str, _about("The address email comes from; needed with a mail server.")] = ""
    environment: Annotated[str, _about("demo or production; demo allows what only a demo may.")] = "production"

    @property
    def builtin_issuer(self) -> bool:
        return not self.issuer_url

    @property
    def issuer(self) -> str:
        return self.issuer_url or self.public_url.rstrip("/") + "/oidc"

    @property
    def agents_url(self) -> str:
        """Empty where there is no agents' listener."""
        if not self.agent_url and not self.agent_port:
            return ""
        host = urlsplit(self.public_url).hostname or "localhost"
        return self.agent_url.rstrip("/") or f"https://{f'[{host}]' if ':' in host else host}:{self.agent_port}"

    @property
    def webhook_secrets(self) -> tuple[str, ...]:
        return tuple(secret.strip() for secret in self.stripe_webhook_secrets.split(",") if secret.strip())

    @property
    def realm(self) -> str:
        """How the issuer is called in users' rows."""
        return BUILT_IN if self.builtin_issuer else self.issuer_url

    @property
    def app_role(self) -> str:
        return urlsplit(self.database_url).username or "gpuaas_app"


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The settings, or SettingsError with one clear line."""
    known = {field.name: field for field in msgspec.structs.fields(Settings)}
    given: dict[str, str] = {}
    for name in known:
        value = read_variable(environ, PREFIX + name.upper())
        if value is not None:
            given[name] = value
    missing = [PREFIX + f.name.upper() for f in known.values() if f.required and not given.get(f.name)]
    if missing:
        raise SettingsError(f"missing {', '.join(missing)}: see contracts/settings.md")
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"a {PREFIX}… setting is wrong: {error}") from error
    _check(settings)
    return settings


def read_variable(environ: Mapping[str, str], variable: str) -> str | None:
    """A setting from its variable, or from the file its _FILE variable names."""
    if variable in environ and variable + "_FILE" in environ:
        raise SettingsError(f"set {variable} or {variable}_FILE, not both")
    if variable in environ:
        return environ[variable]
    if variable + "_FILE" in environ:
        return _secret_file(variable + "_FILE", environ[variable + "_FILE"])
    return None


def _check(settings: Settings) -> None:
    for name, schemes in (
        ("database_url", ("postgresql", "postgres")),
        ("nats_url", ("nats", "tls")),
        ("public_url", ("http", "https")),
        ("issuer_url", ("http", "https")),
        ("agent_url", ("https",)),
        ("objects_url", ("file", "s3")),
        ("smtp_url", ("smtp", "smtps", "smtp+starttls")),
        ("stripe_api_base", ("http", "https")),
    ):
        value = getattr(settings, name)
        if value and _parts(name, value).scheme not in schemes:
            raise SettingsError(f"{PREFIX}{name.upper()} must start with {' or '.join(s + '://' for s in schemes)}")
    for name in ("public_url", "issuer_url"):
        value = getattr(settings, name)
        if value and not _parts(name, value).hostname:
            raise SettingsError(f"{PREFIX}{name.upper()} must name a host")
    issuer = _parts("issuer_url", settings.issuer_url)
    if issuer.scheme == "http" and not _is_loopback(issuer.hostname):
        raise SettingsError(f"{PREFIX}ISSUER_URL must start with https:// (http:// is for this machine only)")
    _check_mail(settings)
    stripe = _parts("stripe_api_base", settings.stripe_api_base)
    if stripe.scheme == "http" and not _is_loopback(stripe.hostname):
        raise SettingsError(f"{PREFIX}STRIPE_API_BASE must start with https:// (http:// is for this machine only)")
    for name in ("trusted_proxies", "probe_networks"):
        try:
            for network in getattr(settings, name).split(","):
                ip_network(network.strip() or "::1")
        except ValueError as error:
            raise SettingsError(f"{PREFIX}{name.upper()} must be networks such as 10.0.0.0/8: {error}") from None
    for name, words in (
        ("log_level", ("debug", "info", "warning", "error")),
        ("log_format", ("json", "console")),
        ("environment", ("demo", "production")),
    ):
        if getattr(settings, name) not in words:
            raise SettingsError(f"{PREFIX}{name.upper()} must be one of {', '.join(words)}")
    if not _TRUST_DOMAIN.fullmatch(settings.trust_domain):
        raise SettingsError(f"{PREFIX}TRUST_DOMAIN must be a name like gpuaas.example.com, in lower case")
    for name in ("task_signing_key", "task_signing_key_previous"):
        if not _is_seed(getattr(settings, name)):
            raise SettingsError(f"{PREFIX}{name.upper()} must be 32 random bytes in base64: openssl rand -base64 32")
    from gpuaas.kit.secrets import MasterKey

    try:
        MasterKey.from_text(settings.master_key)
    except ValueError:
        raise SettingsError(f"{PREFIX}MASTER_KEY must be 32 random bytes in base64: openssl rand -base64 32") from None


def _check_mail(settings: Settings) -> None:
    if not settings.smtp_url:
        return
    server = _parts("smtp_url", settings.smtp_url)
    if not server.hostname:
        raise SettingsError(f"{PREFIX}SMTP_URL must name a host")
    if server.scheme == "smtp" and server.password and not _is_loopback(server.hostname):
        raise SettingsError(f"{PREFIX}SMTP_URL would send its password in clear: use smtps:// or smtp+starttls://")
    if not _MAIL_FROM.fullmatch(settings.mail_from):
        raise SettingsError(f"{PREFIX}MAIL_FROM must be an address such as gpuaas@example.com")


def _is_seed(text: str) -> bool:
    try:
        return not text or len(base64.b64decode(text, validate=True)) == SEED_BYTES
    except ValueError:
        return False


def _parts(name: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read, because only then is a wrong one found
    except ValueError as error:
        raise SettingsError(f"{PREFIX}{name.upper()} is not an address: {error}") from None
    return parts


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def _secret_file(variable: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SettingsError(f"{variable}: others may read {path}; chmod 600 it")
            return file.read(100_000).decode().strip()
    except OSError as error:
        raise SettingsError(f"{variable}: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{variable}: {path} is not text") from None
