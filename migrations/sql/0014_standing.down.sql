DROP VIEW invariant_14_standings_move, invariant_38_standing_is_balance, meter_burn;
DROP TABLE standings;
