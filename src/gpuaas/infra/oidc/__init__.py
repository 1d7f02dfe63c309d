"""OpenID Connect as a relying party: discovery, keys, verification of tokens, and the client of the login flow."""
