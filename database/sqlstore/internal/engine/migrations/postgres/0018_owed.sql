-- Of a channel of the chain: collected is what this service has collected over it, elsewhere what
-- was withdrawn of it by others in the name of the receiver, form that of a payment that was
-- simulated or collected, and chain_created when the channel was opened on the chain. Of a channel
-- over which something was submitted, all that is settled counts as collected.
ALTER TABLE channels ADD COLUMN collected BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN elsewhere BIGINT NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN form BYTEA;
ALTER TABLE channels ADD COLUMN chain_created BIGINT;
UPDATE channels SET collected = settled WHERE EXISTS (SELECT 1 FROM submissions s WHERE s.channel = channels.id);
CREATE INDEX channels_elsewhere ON channels (elsewhere) WHERE elsewhere > 0;

-- The form of the payment that was submitted.
ALTER TABLE submissions ADD COLUMN form BYTEA;
