package database_test

import (
	"context"
	"fmt"
	"time"

	"sluice/database"
)

// The calls of one request share its patience: after that time they return ErrBusy.
func ExampleWithPatience() {
	ctx := database.WithPatience(context.Background(), 10*time.Second)
	call := database.Await(ctx, time.Minute)
	fmt.Println(time.Until(call.Until).Round(time.Second))
	call.End()
	// Output:
	// 10s
}
