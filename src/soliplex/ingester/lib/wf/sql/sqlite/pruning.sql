-- SQLite counts moments in days.
-- :fragment seconds_of_step
(julianday(s.completed_date) - julianday(s.start_date)) * 86400.0

-- In SQLite a moment is text that begins with the day, in UTC.
-- :fragment day_of_step
substr(coalesce(s.completed_date, s.created_date), 1, 10)
