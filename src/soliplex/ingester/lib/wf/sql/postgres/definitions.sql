-- Definitions are written one at a time: their ids become visible in order, so whoever has seen one has seen all that
-- are smaller.
-- :name hold_definitions
LOCK TABLE definition IN SHARE ROW EXCLUSIVE MODE;
