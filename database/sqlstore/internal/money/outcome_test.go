package money

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
	"sluice/ledger"
	"sluice/test/testenv"
)

// outcomeClock is the time of all calls below.
var outcomeClock = time.Date(2026, 3, 4, 5, 6, 7, 890123000, time.UTC)

// TestEveryFieldIsRemembered encodes and decodes results with every field set.
func TestEveryFieldIsRemembered(t *testing.T) {
	var session ledger.Session
	var channel ledger.Channel
	for i, v := range []reflect.Value{reflect.ValueOf(&session).Elem(), reflect.ValueOf(&channel).Elem()} {
		for f := range v.NumField() {
			switch field := v.Field(f).Addr().Interface().(type) {
			case *string:
				*field = fmt.Sprint("text ", i, f)
			case *int64:
				*field = int64(100*i + f + 1)
			case *[]byte:
				*field = []byte{byte(f), 0xff}
			case *time.Time:
				*field = outcomeClock.Add(time.Duration(f) * time.Microsecond)
			default:
				t.Fatalf("field %s has a type that this test does not set", v.Type().Field(f).Name)
			}
		}
	}
	s, serr := encodeOutcome(outcomeOfSession(session))
	c, cerr := encodeOutcome(outcomeOfChannel(channel))
	testenv.OK(t, errors.Join(serr, cerr))
	if got, err := decodeOutcome[ledger.Session, sessionOutcome](s); err != nil || got != session {
		t.Errorf("%+v is read from %s, %v", got, s, err)
	}
	if got, err := decodeOutcome[ledger.Channel, channelOutcome](c); err != nil || !reflect.DeepEqual(got, channel) {
		t.Errorf("%+v is read from %s, %v", got, c, err)
	}
}

// TestOutcomesOfNewerVersions: members that this version does not know are ignored, and
// an outcome that it would misunderstand is an error, so that nothing is done twice.
func TestOutcomesOfNewerVersions(t *testing.T) {
	s := openAt(t, databasePath(t), engine.Options{Now: func() time.Time { return outcomeClock }})
	ignored := &database.Idempotency{Key: "ignored"}
	rememberOutcome(t, s, ignored, `{"version":1,"id":"session","total":9,"left":9,"colour":"blue"}`)
	fresh := ledger.Session{ID: "session", Total: 9, Left: 9}
	testenv.Equal(t, testenv.Must(s.CreateSession(t.Context(), fresh, ignored))(t), fresh, "with an unknown member")
	refused := &database.Idempotency{Key: "refused"}
	rememberOutcome(t, s, refused, `{"version":2,"id":"session","total":9,"left":9}`)
	if got, err := s.CreateSession(t.Context(), fresh, refused); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("of version 2: %+v, %v", got, err)
	}
	testenv.Is(t, testenv.Error(s.Session(t.Context(), "session")), database.ErrNotFound, "a session was created")
}

func rememberOutcome(t *testing.T, s *Ledger, idem *database.Idempotency, outcome string) {
	t.Helper()
	testenv.OK(t, s.db.Write(t.Context(), func(t *engine.Tx) error {
		_, err := t.Exec(`INSERT INTO idempotency (id, request, outcome, created) VALUES ($1, $2, $3, $4)`,
			requests.ID(idem), idem.Hash[:], []byte(outcome), engine.Micros(t.Now))
		return err
	}))
}
