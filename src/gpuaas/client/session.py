"""The session of a logged-in person: tokens in a private file, renewed before they expire.

Always holds: a refresh token is spent by one process at a time. The issuer rotates it, and spending one twice looks
like theft and ends the session; so renewal happens under a lock, on what the file says then."""

from pathlib import Path

import msgspec

from gpuaas.client import oidc, private_file
from gpuaas.client.errors import FileRefused, LoginFailed, NotLoggedIn
from gpuaas.kit import clock

EARLY_SECONDS = 30
SESSION_ENDED = "Your session has ended."


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a login."""

    url: str
    issuer: str
    client_id: str
    audience: str = ""
    token_endpoint: str
    revocation_endpoint: str = ""
    access_token: str
    expires_at: int
    refresh_token: str = ""
    email: str = ""
    name: str = ""


class SessionFile:
    """Credentials for `Api`, from a session's file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Session | None:
        content = private_file.read(self.path)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Session)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FileRefused(f"{self.path} is not a session of ours ({error}). Delete it and log in again.") from error

    def write(self, session: Session) -> None:
        private_file.write(self.path, msgspec.json.format(msgspec.json.encode(session)))

    def delete(self) -> None:
        private_file.delete(self.path)

    def token(self) -> str | None:
        session = self.read()
        if session is None:
            return None
        if session.expires_at - EARLY_SECONDS > clock.epoch_s():
            return session.access_token
        return self._renewed(session.access_token).access_token

    def renew(self, refused: str) -> str | None:
        return self._renewed(refused).access_token

    def _renewed(self, stale: str) -> Session:
        """The session with another access token than `stale`: as another process left it, or renewed by us."""
        with private_file.locked(self.path):
            session = self.read()
            if session is None:
                raise NotLoggedIn(SESSION_ENDED)
            if session.access_token != stale and session.expires_at > clock.epoch_s():
                return session
            if not session.refresh_token:
                raise NotLoggedIn(SESSION_ENDED)
            try:
                tokens = oidc.refresh(
                    session.token_endpoint, session.client_id, session.refresh_token, session.audience
                )
            except LoginFailed as error:
                self.delete()
                raise NotLoggedIn(f"{SESSION_ENDED} The issuer says: {error}") from error
            renewed = msgspec.structs.replace(
                session,
                access_token=tokens.access_token,
                expires_at=clock.epoch_s() + tokens.expires_in,
                refresh_token=tokens.refresh_token or session.refresh_token,
            )
            self.write(renewed)
            return renewed
