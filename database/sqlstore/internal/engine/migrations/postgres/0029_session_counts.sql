-- Nothing changes here: a use updates a row of sessions in place. SQLite has other tables.
SELECT 1;
