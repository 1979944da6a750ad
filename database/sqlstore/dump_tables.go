package sqlstore

import (
	"cmp"
	"fmt"
	"strings"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
	"sluice/database/sqlstore/internal/usage"
)

// table describes a table for a dump.
type table struct {
	name string
	key  []string // unique columns with an index, by which rows are ordered
	rest []string // the other columns
	as   string   // the name of its rows in a dump, if it is not name
}

// dumped are the tables that belong to an instance, in the order of dumping and loading.
var dumped = []table{
	{name: "shares", key: []string{"content"}, rest: []string{"refs"}},
	{name: "garbage", key: []string{"content"}, rest: []string{"since", "owner", "charge"}},
	{name: "starts", key: []string{"content", "part"}, rest: []string{"start", "size", "checksum"}},
	{name: "blobs", key: []string{"account", "name_head", "name_hash"},
		rest: []string{"name_tail", "content", "size", "crc64", "part_size", "sha256", "content_type", "modified", "expires", "owner", "shared_second", "metadata", "shared", "row_sum", "version"}},
	{name: "keeping", key: []string{"account"}, rest: []string{"state", "period", "most", "changed", "progress", "handled", "locks"}},
	{name: "rules", key: []string{"account"}, rest: []string{"rules", "changed", "due", "progress", "last"}},
	{name: "deleted_blobs", key: []string{"account", "name_head", "name_hash"}, rest: []string{"modified"}},
	{name: "extents", key: []string{"content", "part", "off"}, rest: []string{"size", "blocks", "object", "row_sum"}},
	{name: "bodies", key: []string{"content", "part", "off"}, rest: []string{"body"}},
	{name: "uploads", key: []string{"id"},
		rest: []string{"account", "name", "content", "part_size", "content_type", "expires", "create_only", "state", "bytes", "revision",
			"created", "touched", "ended", "size", "crc64", "modified", "owner", "parts", "metadata", "charge", "version"}},
	{name: "parts", key: []string{"content", "idx"}, rest: []string{"size", "crc64", "stored", "checksum"}},
	{name: "sessions", key: []string{"id"}, rest: []string{"user_identity", "total", "remaining", "created", "expires", "channel", "used", "charges", "row_sum"}},
	{name: "channels", key: []string{"id"},
		rest: []string{"payment_channel_id", "sender", "receiver", "asset", "deposit", "created", "expires",
			"accepted", "sequence", "proof", "credit", "settled", "closed", "folded", "owner", "submitted", "stopped", "withdrawn", "next_sequence", "ledger", "read_at",
			"collected", "elsewhere", "form", "chain_created"}},
	{name: "sales", key: []string{"id"}, rest: []string{"channel", "sequence", "session", "count", "price", "at", "charge"}},
	{name: "settlements", key: []string{"channel"}, rest: []string{"sequence", "amount", "proof", "expires", "due"}},
	{name: "submissions", key: []string{"channel"}, rest: []string{"sequence", "amount", "hash", "body", "expires", "state", "status", "begun", "ended", "form"}},
	{name: "ledger", key: []string{"channel", "sequence"}, rest: []string{"amount", "at"}},
	{name: "idempotency", key: []string{"id"}, rest: []string{"request", "outcome", "created", "owner", "charge"}},
	{name: "key_groups", key: []string{"name"}, rest: strings.Split(limitNames, ", ")},
	{name: "api_keys", key: []string{"id"}, rest: []string{"hash", "label", "grants", "key_group", "created", "expires", "revoked", "s3_secret"}},
	{name: "keys_version", key: []string{"version"}},
	{name: "places", key: []string{"account", "name", "exact"}, rest: []string{"reads", "lists", "may_open", "guard", "blocked_since", "blocked_reason", "blocked_by", "mark", "number"}},
	{name: "places_version", key: []string{"one"}, rest: []string{"number", "marks", "live", "empty", "forgotten"}},
	{name: "actions", key: []string{"id"}, rest: []string{"key_id", "key_group", "source", "name", "subject", "accounts", "was", "became"}},
	{name: "aliases", key: []string{"name"}, rest: []string{"account"}},
	{name: "aliases_version", key: []string{"version"}},
	{name: "webhooks", key: []string{"id"}, rest: []string{"key_group", "created", "settings", "progress"}},
	{name: "usage", key: []string{"owner", "id"}, rest: strings.Split(usage.Columns, ", ")},
	{name: "usage_sums", key: []string{"owner"}, rest: strings.Split(usage.Columns, ", ")},
}

// notDumped are the tables that Dump does not read. Most belong to one database; triggers fill the
// counts of accounts; sessions is a view of SQLite's tables for sessions; facts holds the
// properties, from which the caller of Dump chooses those that describe the instance. A loaded
// instance begins a record of changes of its own, and loading adds nothing to it.
var notDumped = []string{"changes", "changes_queue", "changes_state", "change_owners", "change_floors", "damaged", "facts", "holds", "leases", "history", "nodes", "records", "scrub", "session_counts", "session_terms", "tasks", "transactions", "schema_version", meta.AccountCounts.Sums, meta.AccountCounts.Deltas}

func (tb *table) columns() []string { return append(append([]string{}, tb.key...), tb.rest...) }

// rows returns how a query for columns begins.
func (tb *table) rows(columns string) string { return "SELECT " + columns + " FROM " + tb.name }

// dumpName returns what the rows are named in a dump.
func (tb *table) dumpName() string { return cmp.Or(tb.as, tb.name) }

// selectPage returns the query for a page of rows that meet a condition, after a key or from the
// first one on. An empty condition is met by all rows. The parameters are the key and the number of
// rows.
func (tb *table) selectPage(first bool, condition string) string {
	limit := 1
	key := strings.Join(tb.key, ", ")
	var conditions []string
	if !first {
		conditions = append(conditions, fmt.Sprintf("(%s) > (%s)", key, engine.Parameters(1, len(tb.key))))
		limit += len(tb.key)
	}
	if condition != "" {
		conditions = append(conditions, condition)
	}
	if condition = ""; len(conditions) > 0 {
		condition = " WHERE " + strings.Join(conditions, " AND ")
	}
	return tb.rows(strings.Join(tb.columns(), ", ")) + condition + fmt.Sprintf(" ORDER BY %s LIMIT ($%d + 0)", key, limit)
}

func (tb *table) selectCount() string { return tb.rows("COUNT(*)") }

// insert returns the statement that inserts n rows. Their columns are its parameters.
func (tb *table) insert(n int) string {
	columns := tb.columns()
	values := make([]string, n)
	for i := range values {
		values[i] = "(" + engine.Parameters(1+i*len(columns), len(columns)) + ")"
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", tb.name, strings.Join(columns, ", "), strings.Join(values, ", "))
}

// remove returns the statement that deletes up to limit rows.
func (tb *table) remove(limit int) string {
	key := strings.Join(tb.key, ", ")
	return fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (%s ORDER BY %s LIMIT %d)", tb.name, key, tb.rows(key), key, limit)
}
