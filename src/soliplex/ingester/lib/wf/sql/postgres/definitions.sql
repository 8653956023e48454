-- One at a time: ids become visible in their order, so whoever has seen one has seen all that are smaller.
-- :name hold_definitions
LOCK TABLE definition IN SHARE ROW EXCLUSIVE MODE;
