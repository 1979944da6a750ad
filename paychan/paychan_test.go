package paychan_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/metastore/sqlstore"
	"sluice/paychan"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func newService(t *testing.T, clock func() time.Time) *paychan.Service {
	t.Helper()
	meta, err := sqlstore.OpenSQLite(filepath.Join(t.TempDir(), "meta.db"), sqlstore.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	})
	return paychan.New(meta, paychan.Options{Now: clock, Receiver: "0x5", Asset: "0x6", Deposit: 7})
}

func TestOpenFillsInDefaults(t *testing.T) {
	s := newService(t, func() time.Time { return now })
	c, err := s.Open(context.Background(), paychan.Open{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Receiver != "0x5" || c.Asset != "0x6" || c.Deposit != 7 || c.Sender != "" || !c.Expires.Equal(now.Add(paychan.DefaultTTL)) {
		t.Errorf("%+v", c)
	}
	if c.PaymentChannelID < 0 || c.PaymentChannelID >= 1<<53 {
		t.Errorf("payment channel id %d", c.PaymentChannelID)
	}
}

func TestOpenTakesWhatIsAsked(t *testing.T) {
	ctx := context.Background()
	s := newService(t, func() time.Time { return now })
	deposit, id := int64(0), int64(42)
	asked := paychan.Open{Sender: "0x1", Asset: "0x2", Deposit: &deposit, PaymentChannelID: &id, Expires: now.Add(time.Hour)}
	c, err := s.Open(ctx, asked, nil)
	if err != nil || c.Sender != "0x1" || c.Asset != "0x2" || c.Deposit != 0 || c.PaymentChannelID != 42 || !c.Expires.Equal(asked.Expires) {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := s.Open(ctx, asked, nil); !errors.Is(err, metastore.ErrExists) {
		t.Errorf("a second one of the same parties: %v", err)
	}
	asked.Expires = now
	if _, err := s.Open(ctx, asked, nil); !errors.Is(err, paychan.ErrExpiryPast) {
		t.Errorf("one that has expired: %v", err)
	}
}

func TestChannelExpires(t *testing.T) {
	at := now
	s := newService(t, func() time.Time { return at })
	c, err := s.Open(context.Background(), paychan.Open{Expires: now.Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.State(c); got != metastore.ChannelOpen {
		t.Errorf("state %s", got)
	}
	at = now.Add(time.Hour)
	if got := s.State(c); got != metastore.ChannelExpired {
		t.Errorf("state %s at its expiry", got)
	}
}
