"""The built-in OpenID issuer: logins with a password, for installations without an identity provider of their own.

What follows RFCs is in concept files (authorization requests, clients, claims, pages); people's logins are in
`accounts`, tokens in `grants`, browsers in `sessions`, machines without a browser in `devices`."""
