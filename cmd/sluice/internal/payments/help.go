package payments

import (
	"sluice/cmd/sluice/internal/cli"
)

// Help has the commands' detailed helps by the commands' words.
var Help = map[string]string{
	"channel open":    cli.Examples("sluice channel open --deposit 5000", "sluice channel open --sender 0x7a --deposit 5000 --expires 30d", "sluice channel open --sender 0x7a --payment-channel-id 1"),
	"channel show":    cli.Examples("sluice channel show PN2GSKYIOXGVHYTJIRCOBD7OL5"),
	"channel deposit": cli.Examples("sluice channel deposit PN2GSKYIOXGVHYTJIRCOBD7OL5 1000", "sluice channel deposit PN2GSKYIOXGVHYTJIRCOBD7OL5 1000 --idempotency-key may"),
	"channel renew": `Signs what was paid over the channel of the state file once more, if the payment has expired before
the server has collected it. Nothing is bought. sluice pay and --pay do this by themselves when
they buy. Without need, nothing is signed. It prints the channel.

` + cli.Examples("sluice channel renew", "sluice channel renew --state-file payer.json"),
	"channel reconcile": `Reads a channel from the chain, and prints its state in the server and on the chain. With --write,
the server records the chain's, also if it is less than a fullnode has shown before: the amount
withdrawn counts as settled. It is for a server with data that is older than the chain, as after a
restored backup, or that has believed a fullnode which lied. sluice check --books lists each amount lowered.

` + cli.Examples("sluice channel reconcile PN2GSKYIOXGVHYTJIRCOBD7OL5", "sluice channel reconcile PN2GSKYIOXGVHYTJIRCOBD7OL5 --write"),
	"channel close":  cli.Examples("sluice channel close PN2GSKYIOXGVHYTJIRCOBD7OL5"),
	"account new":    cli.Examples("sluice account new", "sluice account new team.key", "sluice account new team.key --import <exported-key.txt"),
	"account show":   cli.Examples("sluice account show", "sluice account show team.key"),
	"session create": cli.Examples("sluice session create", "sluice session create --user-identity alice --json"),
	"session use":    cli.Examples("sluice session use 2GLUCHDRUOIUYVSV4EBFZZUCZK", "sluice session use 2GLUCHDRUOIUYVSV4EBFZZUCZK --idempotency-key invoice-17"),
	"session show":   cli.Examples("sluice session show 2GLUCHDRUOIUYVSV4EBFZZUCZK"),
	"pay": `Buys a session for paid reads, or adds to the one that was bought before: it opens a payment
channel, signs a micropayment and sends it. It prints the id of the session, and what was paid to
stderr. If it is interrupted, or an answer is lost, the next call goes on, and nothing is paid twice.
The terms of payment of the server are kept in the state file, and no others are paid.

If the server collects on a chain, the account opens the channel there first, and --payment-channel-id
names it at the first payment. Such a server sells little over a channel that it has not collected
from yet: then sluice pay buys a part, and the rest when the server has collected.

` + cli.Examples("sluice pay --max-price 1 --max-spend 1000", "sluice pay --faucet 1000 --max-price 1 --max-spend 1000", "sluice pay --chunksets 500 --max-price 1 --max-spend 1000 --json",
		"sluice pay --max-price 1 --max-spend 1000 --payment-channel-id 1", "sluice pay --max-price 1 --max-spend 9 --channel PN2GSKYIOXGVHYTJIRCOBD7OL5"),
}
