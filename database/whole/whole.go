// Package whole joins the contracts of an instance's database to one interface.
package whole

import (
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/database"
	"sluice/internal/lease"
	"sluice/ledger"
	"sluice/metastore"
)

// Database is everything that an instance's database does. Only code that opens, copies or traces
// databases needs it; all other code requires the contracts that it uses.
type Database interface {
	metastore.Store
	ledger.Store
	keys.Store
	places.Store
	actions.Store
	lease.Leases
	database.Properties
	database.Nodes
	database.Tasks
	database.Maintenance
	database.Clock
	database.History
}
