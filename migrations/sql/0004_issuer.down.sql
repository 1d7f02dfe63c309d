DROP TABLE issuer_device_codes, issuer_codes, issuer_access_tokens, issuer_refresh_tokens, issuer_families,
    issuer_sessions, issuer_login_attempts, issuer_accounts;
