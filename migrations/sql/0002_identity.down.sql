DROP TABLE issuer_key_marks, refresh_claims, login_states, revoked_credentials, ssh_keys, service_account_keys, service_accounts, invitations,
    project_members, org_members, projects, orgs CASCADE;
DROP TABLE users;
