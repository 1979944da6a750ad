-- Nothing changes here. Objects in a data folder may be durable in a journal alone, which earlier
-- versions do not read, so they must not open the folder after a crash.
SELECT 1;
