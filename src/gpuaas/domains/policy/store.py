"""All SQL of policy. Changes take turns on the revision row, so a guardrail and what it holds never race."""

from collections.abc import Iterator
from uuid import UUID

import msgspec

from gpuaas.contracts.policy_keys import Level, Value
from gpuaas.domains.policy.models import Override, Pattern, Place, Subject
from gpuaas.infra.postgres.tx import NIL, Row, Tx

REVISION = "SELECT revision FROM policy_revision"
TAKE_TURN = "UPDATE policy_revision SET revision = revision + 1"
_COLUMNS = "key, org_id, project_id, value, guardrail, set_from, set_by_name, set_at, reason"
ALL = f"SELECT {_COLUMNS} FROM policy_overrides"  # noqa: S608 - made of the constants above
# What is set of a key (or of all) at a place and above it.
ABOVE = f"""
SELECT {_COLUMNS} FROM policy_overrides
WHERE ($1::text IS NULL OR key = $1)
  AND (org_id IS NULL OR (org_id = $2 AND (project_id IS NULL OR project_id = $3)))
"""  # noqa: S608 - made of the constants above
SET = f"""
INSERT INTO policy_overrides AS o (key, org_id, project_id, value, guardrail, set_from, set_by, set_by_name, reason)
VALUES ($1, $2, $3, $4::jsonb, $5, $6, $7, $8, $9)
ON CONFLICT ON CONSTRAINT policy_overrides_one_place DO UPDATE
    SET value = excluded.value, guardrail = excluded.guardrail, set_from = excluded.set_from,
        set_by = excluded.set_by, set_by_name = excluded.set_by_name, set_at = now(), reason = excluded.reason
RETURNING {_COLUMNS}
"""  # noqa: S608 - made of the constants above
UNSET = """
DELETE FROM policy_overrides
WHERE key = $1 AND org_id IS NOT DISTINCT FROM $2 AND project_id IS NOT DISTINCT FROM $3
"""
PLACE_EXISTS = """
SELECT EXISTS (SELECT FROM orgs WHERE id = $1 AND deleted_at IS NULL) AS org,
       $2::uuid IS NULL OR EXISTS (
           SELECT FROM projects WHERE id = $2 AND org_id = $1 AND deleted_at IS NULL) AS project
"""
# Live organisations and their live projects, each with what it and its organisation have set of the key $1; all of
# them, or one organisation's ($2), or one project ($3).
_SUBJECTS = """
SELECT o.id AS org_id, o.name AS org_name, s.project_id, s.project_name, s.project_id IS NOT NULL AS is_project,
       ov.value AS org_value, ov.guardrail AS org_guardrail,
       pv.value AS project_value, pv.guardrail AS project_guardrail
FROM orgs o
CROSS JOIN LATERAL (
    SELECT NULL::uuid AS project_id, NULL::text AS project_name WHERE $3::uuid IS NULL
    UNION ALL
    SELECT p.id, p.name FROM projects p
    WHERE p.org_id = o.id AND p.deleted_at IS NULL AND ($3::uuid IS NULL OR p.id = $3)
) s
LEFT JOIN policy_overrides ov ON ov.key = $1 AND ov.org_id = o.id AND ov.project_id IS NULL
LEFT JOIN policy_overrides pv ON pv.key = $1 AND pv.org_id = o.id AND pv.project_id = s.project_id
WHERE o.deleted_at IS NULL AND ($2::uuid IS NULL OR o.id = $2)
"""
PATTERNS = f"""
SELECT is_project, org_value, org_guardrail, project_value, project_guardrail, count(*) AS subjects
FROM ({_SUBJECTS}) found GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608 - made of the constants above
# A page of the subjects whose pattern is one of those given, column by column, in $4 … $8.
SUBJECTS_OF = f"""
SELECT found.* FROM ({_SUBJECTS}) found
WHERE EXISTS (
    SELECT FROM unnest($4::boolean[], $5::jsonb[], $6::boolean[], $7::jsonb[], $8::boolean[]) AS w (a, b, c, d, e)
    WHERE found.is_project = a AND found.org_value IS NOT DISTINCT FROM b AND found.org_guardrail IS NOT DISTINCT FROM c
      AND found.project_value IS NOT DISTINCT FROM d AND found.project_guardrail IS NOT DISTINCT FROM e
) AND ($9::uuid IS NULL OR (org_id, coalesce(project_id, '{NIL}'::uuid)) > ($9, $10::uuid))
ORDER BY org_id, coalesce(project_id, '{NIL}'::uuid)
LIMIT $11
"""  # noqa: S608 - made of the constants above

_DECODER: msgspec.json.Decoder[Value] = msgspec.json.Decoder(Value)


async def revision(tx: Tx) -> int:
    return int(await tx.value(REVISION))


async def take_turn(tx: Tx) -> None:
    """Wait for the change before ours to end, and hold those after it until ours does."""
    await tx.run(TAKE_TURN)


async def place_exists(tx: Tx, place: Place) -> tuple[bool, bool]:
    row = await tx.row(PLACE_EXISTS, place.org_id, place.project_id)
    return (row["org"], row["project"]) if row else (False, False)


async def overrides(tx: Tx) -> Iterator[Override]:
    """All there are; each is made when it is asked for, so that somebody else's thread can do it."""
    return map(_override, await tx.rows(ALL))


async def above(tx: Tx, place: Place, key: str | None = None) -> list[Override]:
    return [_override(row) for row in await tx.rows(ABOVE, key, place.org_id, place.project_id)]


async def put(tx: Tx, wanted: Override, set_by: UUID | None) -> Override:
    row = await tx.row(
        SET,
        wanted.key,
        wanted.place.org_id,
        wanted.place.project_id,
        _json(wanted.value),
        wanted.guardrail,
        wanted.set_from,
        set_by,
        wanted.set_by_name,
        wanted.reason,
    )
    assert row is not None  # noqa: S101 # an upsert that returns answers with its row
    return _override(row)


async def remove(tx: Tx, key: str, place: Place) -> bool:
    return await tx.run(UNSET, key, place.org_id, place.project_id) > 0


async def patterns(tx: Tx, key: str, place: Place) -> list[tuple[Pattern, int]]:
    """How many subjects there are of each pattern, in a place and below it."""
    rows = await tx.rows(PATTERNS, key, place.org_id, place.project_id)
    return [(_pattern(row), row["subjects"]) for row in rows]


async def subjects_of(
    tx: Tx, key: str, place: Place, wanted: list[Pattern], *, after: tuple[UUID, UUID] | None, limit: int
) -> list[Subject]:
    columns = (
        [p.is_project for p in wanted],
        [_json_or_none(p.org_value) for p in wanted],
        [p.org_guardrail for p in wanted],
        [_json_or_none(p.project_value) for p in wanted],
        [p.project_guardrail for p in wanted],
    )
    rows = await tx.rows(SUBJECTS_OF, key, place.org_id, place.project_id, *columns, *(after or (None, None)), limit)
    return [
        Subject(
            org_id=row["org_id"],
            org_name=row["org_name"],
            project_id=row["project_id"],
            project_name=row["project_name"],
            pattern=_pattern(row),
        )
        for row in rows
    ]


def _override(row: Row) -> Override:
    return Override(
        key=row["key"],
        place=Place(row["org_id"], row["project_id"]),
        value=_value(row["value"]),
        guardrail=row["guardrail"],
        set_from=Level(row["set_from"]),
        set_by_name=row["set_by_name"],
        set_at=row["set_at"],
        reason=row["reason"],
    )


def _pattern(row: Row) -> Pattern:
    return Pattern(
        row["is_project"],
        _value_or_none(row["org_value"]),
        row["org_guardrail"],
        _value_or_none(row["project_value"]),
        row["project_guardrail"],
    )


def _value(text: str) -> Value:
    """Something no key takes (set by hand) stays text, so that it counts as unset instead of failing every reader."""
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError:
        return text


def _value_or_none(text: str | None) -> Value | None:
    return None if text is None else _value(text)


def _json(value: Value) -> str:
    return msgspec.json.encode(value).decode()


def _json_or_none(value: Value | None) -> str | None:
    return None if value is None else _json(value)
