package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestSwitch: machines on a switch are reached until their cable is pulled, or they send nothing
// any more, and then again.
func TestSwitch(t *testing.T) {
	network := NewSwitch(t)
	primary := StartPostgresOn(t, network.NewMachine())
	machine := network.NewMachine()
	standby := StartStandbyOn(t, machine, primary)
	reach := func(when string, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if !want {
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		}
		defer cancel()
		conn, err := pgx.Connect(ctx, "host="+machine.Address+" user=sluice dbname=postgres sslmode=disable")
		if (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
		if err == nil {
			OK(t, conn.Close(ctx))
		}
	}
	reach("connected", true)
	OK(t, primary.AwaitStandby()) // from machine to machine
	OK(t, machine.Unplug())
	reach("unplugged", false)
	OK(t, machine.Plug())
	reach("plugged", true)
	OK(t, machine.Mute())
	reach("mute", false)
	OK(t, machine.Unmute())
	reach("not mute", true)
	if got := query(t, standby.DSN(), "SELECT pg_is_in_recovery()::text"); got != "true" {
		t.Errorf("the standby is in recovery: %s", got)
	}
}
