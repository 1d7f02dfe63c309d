"""Where payers come back to."""

import msgspec


class PaymentSite(msgspec.Struct, frozen=True):
    """Filled by a program's main."""

    public_url: str

    @property
    def return_url(self) -> str:
        return self.public_url.rstrip("/") + "/"
