"""How we speak with the outside: PostgreSQL, HTTP, NATS, OpenID issuers, embedded servers."""
