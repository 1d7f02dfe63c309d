DROP FUNCTION project_spent, month_of;
DROP INDEX meters_of_project;
DROP TABLE budget_marks, budgets;
DROP VIEW invariant_14_standings_move, invariant_38_standing_is_balance, meter_burn;
DROP TABLE standings;
