"""What sessions forget by themselves."""

from gpuaas.domains.identity.sessions.handlers import sessions_tidy


async def test_what_has_ended_is_forgotten_and_what_lives_is_kept(city, superuser):
    for name, ends in (("old", "-2 days"), ("live", "1 hour")):
        await superuser.execute(
            f"""INSERT INTO login_states VALUES ('{name}', 'v', 'n', 'r', now() + interval '{ends}');
            INSERT INTO refresh_claims VALUES ('{name}', now() + interval '{ends}');
            INSERT INTO revoked_credentials VALUES ('{name}', 'test', now(), now() + interval '{ends}')"""
        )
    await superuser.execute(
        "INSERT INTO revoked_credentials VALUES ('just ended', 'test', now(), now() - interval '1 minute')"
    )
    await sessions_tidy(city.parts)
    for table, column in (("login_states", "state_hash"), ("refresh_claims", "token_hash")):
        rows = await superuser.fetch(f"SELECT encode({column}, 'escape') AS name FROM {table}")
        assert [row["name"] for row in rows] == ["live"]
    kept = await superuser.fetch("SELECT credential_id FROM revoked_credentials ORDER BY 1")
    assert [row["credential_id"] for row in kept] == ["just ended", "live"]
