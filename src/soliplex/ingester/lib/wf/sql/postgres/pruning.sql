-- PostgreSQL has a type for intervals.
-- :fragment seconds_of_step
CAST(extract(epoch FROM s.completed_date - s.start_date) AS double precision)

-- PostgreSQL writes a moment in the zone that it is asked for.
-- :fragment day_of_step
to_char(coalesce(s.completed_date, s.created_date) AT TIME ZONE 'UTC', 'YYYY-MM-DD')
