DROP VIEW invariant_14_emails_end;
DROP TABLE emails, action_links, notifications, notification_preferences;
