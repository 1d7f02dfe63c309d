DROP VIEW invariant_07_billed_is_usable, invariant_07_none_twice, invariant_07_pauses_apart, invariant_08_usage_is_posted,
    invariant_34_usage_months_ahead, invariant_05_deposits_of_live, invariant_07_active_is_metered;
DROP TRIGGER orgs_stay ON orgs;
DROP FUNCTION org_stays, usage_settle, usage_accrue, usage_post, usage_id, meter_resume, meter_pause_later, meter_pause, meter_stand, meter_close, meter_open, meter_enter,
    meter_lost, pause_seconds, meter_seconds, meter_owed;
DROP TABLE usage, meter_causes, meter_pauses, meters;
