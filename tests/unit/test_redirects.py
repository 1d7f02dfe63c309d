"""Where a login may send the browser back to."""

import pytest

from gpuaas.domains.identity.sessions.redirects import redirect_allowed

HOME = "https://gpu.example.com"


@pytest.mark.parametrize(
    "uri",
    [
        "https://gpu.example.com/", "https://gpu.example.com/auth/callback?x=1", "https://GPU.example.com:443/a",
        "http://127.0.0.1:8931/callback", "http://localhost:1/", "http://[::1]:5000/callback", "http://127.0.0.1/",
    ],
)  # fmt: skip
def test_our_own_address_and_the_users_machine_are_allowed(uri):
    assert redirect_allowed(uri, HOME)


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/", "https://gpu.example.com.evil.example/", "https://evil.example/gpu.example.com",
        "http://gpu.example.com/", "https://gpu.example.com:444/", "https://gpu.example.com@evil.example/",
        "https://user@gpu.example.com/", "https://gpu.example.com#frag", "https://evil.example\\@gpu.example.com/",
        "http://127.0.0.1@evil.example/", "http://127.0.0.1.evil.example/", "https://127.0.0.1/", "http://0.0.0.0/",
        "http://127.0.0.1:99999/", "http://[::1/", "javascript:alert(1)", "", "//gpu.example.com/", "http://10.0.0.1/",
        "http://169.254.169.254/", "http://127.0.0.1#@evil.example/",
    ],
)  # fmt: skip
def test_every_other_address_is_refused(uri):
    assert not redirect_allowed(uri, HOME)


def test_only_what_is_below_our_own_path_is_allowed():
    assert redirect_allowed("https://x.example/gpu/callback", "https://x.example/gpu")
    assert not redirect_allowed("https://x.example/other", "https://x.example/gpu")
    assert not redirect_allowed("https://x.example/gpu/../other", "https://x.example/gpu")
