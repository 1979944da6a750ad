package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/ledger"
	"sluice/session"
)

// A session is granted and used up. A use that is repeated with its idempotency key takes
// nothing again.
func Example() {
	dir, err := os.MkdirTemp("", "session")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()

	sessions := session.New(store, session.Options{Grant: 3})
	granted, err := sessions.Grant(ctx, "alice", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("granted", granted.Left)

	request := &database.Idempotency{Scope: "use " + granted.ID, Key: "request-1"}
	for range 2 {
		used, err := sessions.Use(ctx, granted.ID, 2, request)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("used", used.Used, "left", used.Left)
	}

	unchanged, err := sessions.Use(ctx, granted.ID, 2, nil)
	fmt.Println("exhausted:", errors.Is(err, ledger.ErrExhausted), "left", unchanged.Left)

	// Output:
	// granted 3
	// used 2 left 1
	// used 2 left 1
	// exhausted: true left 1
}
