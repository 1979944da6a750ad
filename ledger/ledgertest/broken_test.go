package ledgertest_test

import (
	"testing"

	"sluice/database/dbtest"
)

// TestBrokenRowsAreCaught breaks a store's rows. Planted faults break how its methods answer.
// Invariants 42, 164, 167.
func TestBrokenRowsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "folds sales into nothing", AfterPurge: `UPDATE channels SET folded = 0`, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "folds sales twice", AfterPurge: `UPDATE channels SET folded = 2 * folded`, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "loses returns", BeforePurge: `DELETE FROM sales WHERE count < 0`, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "folds sales too early", BeforePurge: `UPDATE sales SET at = 0 WHERE session IS NULL`, Caught: []string{"payments/fold"}},
		{Name: "folds sales to live sessions", BeforePurge: `UPDATE sales SET session = NULL, at = 0`, Caught: []string{"payments/fold"}},
		{Name: "forgets the channels", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET channels = 0`), Caught: []string{"channels/racing"}},
		{Name: "forgets the credit", Schema: dbtest.On(`AFTER UPDATE OF credit ON channels`, `UPDATE channels SET credit = 0`), Caught: []string{"payments/credit", "payments/buy"}},
		{Name: "forgets the settlement", Schema: dbtest.On(`AFTER INSERT ON settlements`, `DELETE FROM settlements`), Caught: []string{"settlements/list", "payments/read"}},
		{Name: "returns a charge twice", Schema: dbtest.On(`AFTER UPDATE OF charges ON session_terms WHEN COALESCE(length(NEW.charges), 0) < length(OLD.charges)`, `UPDATE session_terms SET charges = OLD.charges WHERE id = NEW.id`), Caught: []string{"sessions/charge", "sessions/racing-charge-returns"}},
		{Name: "returns a read twice", Schema: dbtest.On(`AFTER UPDATE OF charge ON sales WHEN NEW.charge IS NULL`, `UPDATE sales SET charge = OLD.charge WHERE id = NEW.id`), Caught: []string{"payments/return-read"}},
		{Name: "books and forgets the newer", Schema: dbtest.On(`AFTER INSERT ON ledger`, `DELETE FROM settlements WHERE channel = NEW.channel`), Caught: []string{"settlements/pay-out", "settlements/pay-out-one"}},
		{Name: "forgets bookings", Schema: dbtest.On(`AFTER INSERT ON ledger`, `DELETE FROM ledger`), Caught: []string{"settlements/any-order"}},
		{Name: "books again", Schema: dbtest.On(`BEFORE INSERT ON ledger`, `UPDATE ledger SET at = at + 1`), Caught: []string{"settlements/any-order"}},
		{Name: "forgets submissions", Schema: dbtest.On(`AFTER INSERT ON submissions`, `DELETE FROM submissions`), Caught: []string{"submissions/outcomes", "submissions/many"}},
		{Name: "submits each payment", Schema: dbtest.On(`AFTER INSERT ON settlements WHEN NEW.due IS NOT NULL`, `UPDATE settlements SET due = 0 WHERE channel = NEW.channel`), Caught: []string{"submissions/due", "submissions/settle-at"}},
		{Name: "sells after a failure", Schema: dbtest.On(`AFTER UPDATE OF stopped ON channels`, `UPDATE channels SET stopped = NULL WHERE id = NEW.id`), Caught: []string{"submissions/newer"}},
		{Name: "loses the newer payment", Schema: dbtest.On(`AFTER UPDATE OF state ON submissions`, `DELETE FROM settlements WHERE channel = NEW.channel`), Caught: []string{"submissions/newer"}},
		{Name: "forgets the withdrawn amount", Schema: dbtest.On(`AFTER INSERT ON channels`, `UPDATE channels SET withdrawn = 0 WHERE id = NEW.id`), Caught: []string{"channels/on-chain"}},
	})
}
