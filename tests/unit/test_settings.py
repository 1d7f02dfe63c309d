"""Settings that are wrong: one clear line each, before anything starts."""

import base64
from pathlib import Path

import pytest

from gpuaas.processes.settings import SettingsError, load_settings

GOOD = {
    "GPUAAS_DATABASE_URL": "postgresql://app:secret@db.example/gpuaas",
    "GPUAAS_NATS_URL": "nats://nats.example",
    "GPUAAS_MASTER_KEY": base64.b64encode(b"m" * 32).decode(),
    "GPUAAS_PUBLIC_URL": "https://gpu.example",
}


def test_what_is_right_is_taken():
    more = {"GPUAAS_TRUSTED_PROXIES": "10.0.0.0/8, 2001:db8::/32", "GPUAAS_ISSUER_URL": "http://127.0.0.1:9000/realm"}
    mail = {"GPUAAS_SMTP_URL": "smtp+starttls://ada:s%40@mail.example:587", "GPUAAS_MAIL_FROM": "gpuaas@example.com"}
    assert load_settings(GOOD | mail).mail_from == "gpuaas@example.com"
    assert load_settings(GOOD | more).issuer == "http://127.0.0.1:9000/realm"


@pytest.mark.parametrize(
    "wrong",
    [
        {"GPUAAS_MASTER_KEY": ""},
        {"GPUAAS_MASTER_KEY": "short"},
        {"GPUAAS_MASTER_KEY": "\u00fc"},
        {"GPUAAS_DATABASE_URL": "mysql://db"},
        {"GPUAAS_DATABASE_URL": "postgresql://[db"},
        {"GPUAAS_DATABASE_URL": "postgresql://db:port/x"},
        {"GPUAAS_PUBLIC_URL": "http://"},
        {"GPUAAS_PUBLIC_URL": "gpu.example"},
        {"GPUAAS_ISSUER_URL": "http://idp.example"},
        {"GPUAAS_ISSUER_URL": "https://"},
        {"GPUAAS_TRUSTED_PROXIES": "10.0.0.0/99"},
        {"GPUAAS_TRUSTED_PROXIES": "10.0.0.1/8"},
        {"GPUAAS_TRUSTED_PROXIES": "everybody"},
        {"GPUAAS_PORT": "0"},
        {"GPUAAS_PORT": "http"},
        {"GPUAAS_LOG_LEVEL": "loud"},
        {"GPUAAS_READ_POOL_SIZE": "-1"},
        {"GPUAAS_SMTP_URL": "mail.example:25"},
        {"GPUAAS_SMTP_URL": "smtp://", "GPUAAS_MAIL_FROM": "gpuaas@example.com"},
        {"GPUAAS_SMTP_URL": "smtp://ada:secret@mail.example", "GPUAAS_MAIL_FROM": "gpuaas@example.com"},
        {"GPUAAS_MAIL_FROM": "", "GPUAAS_SMTP_URL": "smtps://mail.example"},
        {"GPUAAS_MAIL_FROM": "GPUaaS <gpuaas@example.com>", "GPUAAS_SMTP_URL": "smtps://mail.example"},
    ],
    ids=str,
)
def test_what_is_wrong_is_one_line_that_names_it(wrong: dict[str, str]):
    with pytest.raises(SettingsError) as said:
        load_settings(GOOD | wrong)
    assert "\n" not in str(said.value)
    assert next(iter(wrong)).removeprefix("GPUAAS_").lower() in str(said.value).lower()
    assert "secret" not in str(said.value)


@pytest.mark.parametrize(("content", "mode"), [(b"x", 0o644), (b"\xff\xfe", 0o600), (None, 0)], ids=str)
def test_a_secret_is_read_from_a_file_of_its_own_only(tmp_path: Path, content: bytes | None, mode: int):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
        file.chmod(mode)
    with pytest.raises(SettingsError) as said:
        load_settings(GOOD | {"GPUAAS_OIDC_CLIENT_SECRET_FILE": str(file)})
    assert "GPUAAS_OIDC_CLIENT_SECRET_FILE" in str(said.value)
    assert "\n" not in str(said.value)
