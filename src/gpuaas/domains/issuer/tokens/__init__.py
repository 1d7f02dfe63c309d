"""What programs ask of the issuer: the token, revocation, userinfo and device authorization endpoints."""
