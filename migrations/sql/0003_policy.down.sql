DROP TABLE policy_overrides, policy_revision;
DROP FUNCTION policy_overrides_changed;
