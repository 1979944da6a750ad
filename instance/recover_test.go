package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/datadir"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// run opens an instance as a node does, and lets work use it. The node then adds a record.
func run(t *testing.T, data string, work func(*storage.Stores, *blob.Service)) {
	t.Helper()
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	defer func() { testenv.Check(t, s.Close()) }()
	opt := s.BlobOptions()
	opt.InlineSize = -1
	work(s, blob.New(s.Meta, s.Bytes, opt))
	ended, end := context.WithCancel(t.Context())
	end()
	s.History.Watch(ended, func(error, error) {})
}

func put(t *testing.T, blobs *blob.Service, name string) metastore.Blob {
	t.Helper()
	return testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: name}, bytes.NewReader(make([]byte, 1000)), 1000))(t)
}

// newSetback creates an instance with channels, one of them by itself, lets it store lost blobs,
// and sets its database back to before that. The blob "damaged" has lost its object.
func newSetback(t *testing.T, lost int, channels ...ledger.Channel) (data string) {
	t.Helper()
	data = filepath.Join(testenv.MemoryDir(t), "data")
	run(t, data, func(s *storage.Stores, blobs *blob.Service) {
		put(t, blobs, "kept")
		for _, c := range append(channels, ledger.Channel{ID: "channel", Sender: "0x1"}) {
			c.Receiver, c.Asset, c.Deposit, c.Expires = "0x2", "0x3", 100, s.Meta.Now().Add(KeptFor)
			testenv.Must(s.Meta.OpenChannel(t.Context(), c, nil))(t)
		}
		put(t, blobs, "damaged")
		_, extents, err := s.Meta.OpenBlob(t.Context(), "a", "damaged")
		testenv.Check(t, err)
		testenv.Check(t, s.Bytes.Delete(t.Context(), bytestore.Name(extents[0].Object)))
	})
	file := filepath.Join(data, datadir.Database)
	older := testenv.Must(os.ReadFile(file))(t)
	run(t, data, func(_ *storage.Stores, blobs *blob.Service) {
		for i := range lost {
			put(t, blobs, string(rune('a'+i)))
		}
	})
	testenv.Check(t, os.WriteFile(file, older, 0o600))
	return data
}

// withdrawn40 reads channels with 40 units withdrawn.
func withdrawn40(_ context.Context, of ...ledger.Channel) (readings []ledger.Reading, skip bool, err error) {
	now := time.Now()
	return slices.Repeat([]ledger.Reading{{Deposit: 100, Withdrawn: 40, NextSequence: 3, Expires: now.Add(KeptFor), ChainTime: now}}, len(of)), false, nil
}

// TestRecover: the losses of an instance that was set back are reported, nothing is changed before
// they are confirmed, and afterwards it accepts changes in the next generation.
// Invariant 100.
func TestRecover(t *testing.T) {
	data := newSetback(t, 3)
	run(t, data, func(s *storage.Stores, blobs *blob.Service) {
		testenv.Is(t, s.History.Err(), database.ErrSetBack, "before the recovery")
		_, err := blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: "refused"}, bytes.NewReader(nil), 0)
		testenv.Is(t, err, database.ErrSetBack, "a PUT before the recovery")
		testenv.Equal(t, testenv.Must(s.Meta.Blob(t.Context(), "a", "kept"))(t).Size, 1000, "the size of a blob that is read")
		_, _, err = Recover(t.Context(), Location{Data: data}, RecoverOptions{})
		testenv.Is(t, err, datadir.ErrInUse, "a recovery beside a server")
	})
	var found Setback
	confirm := func(f Setback) error { found = f; return nil }
	declined := errors.New("no")
	_, _, err := Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: func(Setback) error { return declined }})
	testenv.Is(t, err, declined, "a recovery that is not confirmed")
	_, generation, err := Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: confirm, ReadChannels: withdrawn40})
	testenv.Check(t, err)
	if generation != 2 || found.Seen == "" || !found.Holds || found.Unknown != 3 || found.UnknownBytes != 3000 || found.First.After(found.Last) ||
		found.Missing != 1 || found.MissingBytes != 1000 || found.DamagedBlobs != 1 || !slices.Equal(found.Blobs, []string{"a/damaged"}) ||
		found.Channels != 1 || found.Withdrawn != 40 || !slices.Equal(found.WithdrawnFrom, []string{"channel"}) {
		t.Errorf("generation %d, and it was %+v", generation, found)
	}
	run(t, data, func(s *storage.Stores, blobs *blob.Service) {
		testenv.Check(t, s.History.Err())
		put(t, blobs, "new")
		testenv.Equal(t, testenv.Must(s.Meta.Channel(t.Context(), "channel"))(t).Settled, 40, "what is settled")
		testenv.Equal(t, database.GenerationOf(s.History.NewID()), 2, "the generation of a new id")
		_, err := s.Meta.Session(t.Context(), database.NewID(1))
		testenv.Is(t, err, database.ErrLost, "a session from before")
	})
	_, _, err = Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: confirm})
	testenv.Is(t, err, ErrNotSetBack, "another recovery")
}

// TestRecoverBesideUnreadableChannels: the channels of each sender are read in one call. A sender
// who cannot be read is named, and the other senders' channels are recovered; without a chain
// nothing is changed.
// Invariant 100.
func TestRecoverBesideUnreadableChannels(t *testing.T) {
	const count = 450 // more than two pages
	var channels []ledger.Channel
	for i := range count {
		channels = append(channels, ledger.Channel{ID: fmt.Sprintf("c%03d", i), PaymentChannelID: int64(i + 1), Sender: "0x" + strconv.Itoa(5+i%3)})
	}
	data := newSetback(t, 1, channels...)
	broken := errors.New("it is too long")
	var calls int
	var found Setback
	recovery := func(skip bool) error {
		calls = 0
		_, _, err := Recover(t.Context(), Location{Data: data}, RecoverOptions{
			Confirm: func(f Setback) error { found = f; return nil },
			ReadChannels: func(ctx context.Context, of ...ledger.Channel) ([]ledger.Reading, bool, error) {
				if calls++; of[0].Sender == "0x6" {
					return nil, skip, broken
				}
				return withdrawn40(ctx, of...)
			},
		})
		return err
	}
	testenv.Is(t, recovery(false), broken, "a recovery without the chain")
	testenv.OK(t, recovery(true))
	if want := []Unread{{"0x6", count / 3, broken}}; calls != 4 || !slices.Equal(found.Unread, want) || found.Channels != count*2/3+1 {
		t.Errorf("after %d calls %d channels were read, and not %v, want %v", calls, found.Channels, found.Unread, want)
	}
	run(t, data, func(s *storage.Stores, _ *blob.Service) {
		for id, want := range map[string]int64{"channel": 40, "c000": 40, "c001": 0, "c002": 40, "c448": 0, "c449": 40} {
			testenv.Equal(t, testenv.Must(s.Meta.Channel(t.Context(), id))(t).Settled, want, "the amount settled over %s", id)
		}
	})
}

// TestObjectsAreKeptAfterARecovery: a sweep deletes nothing that the lost changes may have stored,
// until the time has passed or an operator permits it.
// Invariant 100.
func TestObjectsAreKeptAfterARecovery(t *testing.T) {
	data := newSetback(t, 2)
	_, _, err := Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: func(Setback) error { return nil }})
	testenv.Check(t, err)
	run(t, data, func(s *storage.Stores, _ *blob.Service) {
		if kept := s.History.KeptBefore(); kept.IsZero() || kept.After(s.Meta.Now()) {
			t.Errorf("objects are kept that were made before %v", kept)
		}
	})
	testenv.Check(t, ReleaseObjects(t.Context(), Location{Data: data}))
	run(t, data, func(s *storage.Stores, _ *blob.Service) {
		testenv.Equal(t, s.History.KeptBefore().IsZero(), true, "nothing is kept after a release")
	})
}

// TestRecoverACopy recovers a copy in which a kept version lacks its object: it reports that
// without a start, and the next start finds nothing to check. A whole copy needs no recovery.
// Invariant 111.
func TestRecoverACopy(t *testing.T) {
	original := filepath.Join(testenv.MemoryDir(t), "data")
	var object bytestore.Name
	var lost metastore.Blob
	run(t, original, func(s *storage.Stores, blobs *blob.Service) {
		put(t, blobs, "kept")
		lost = put(t, blobs, "lost")
		_, extents, err := s.Meta.OpenBlob(t.Context(), "a", "lost")
		testenv.OK(t, err)
		object = bytestore.Name(extents[0].Object)
		testenv.OK(t, testenv.Error(blobs.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
			k.State = metastore.KeepOn
			return nil, nil
		})))
		testenv.OK(t, blobs.Delete(t.Context(), "a", "lost", nil))
	})
	data := filepath.Join(testenv.MemoryDir(t), "copy")
	testenv.OK(t, os.CopyFS(data, os.DirFS(original)))
	var found Setback
	confirm := func(f Setback) error { found = f; return nil }
	_, _, err := Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: confirm})
	testenv.Is(t, err, ErrNotSetBack, "the recovery of a whole copy")
	e := testenv.Must(storage.OpenEndpoint(t.Context(), storage.Location{Data: data}, true, nil))(t)
	testenv.OK(t, errors.Join(e.Bytes.Delete(t.Context(), object), e.Close()))
	_, generation, err := Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: confirm})
	testenv.OK(t, err)
	if generation != 2 || !strings.Contains(found.Seen, "1 of 2 objects are missing") || !slices.Equal(found.Blobs, []string{"a/lost, version " + metastore.VersionOf(&lost).String()}) {
		t.Errorf("generation %d, and it was %+v", generation, found)
	}
	run(t, data, func(s *storage.Stores, blobs *blob.Service) {
		testenv.Equal(t, s.Look.Why, "", "why it is checked after a recovery")
		testenv.OK(t, s.History.Err())
		put(t, blobs, "lost")
	})
}
