package metering

import (
	"errors"
	"math"
	"testing"

	"sluice/blob"
	"sluice/ledger"
	"sluice/test/testenv"
	"sluice/wire"
)

// spans returns ranges from pairs of an offset and a number of bytes.
func spans(pairs ...int64) (ranges []blob.Range) {
	for i := 0; i < len(pairs); i += 2 {
		ranges = append(ranges, blob.Range{Off: pairs[i], N: pairs[i+1]})
	}
	return ranges
}

func TestChunksets(t *testing.T) {
	const cs = wire.ChunksetSize
	for _, tc := range []struct {
		ranges []blob.Range
		want   int64
	}{
		{nil, 0},
		{spans(0, 1), 1},
		{spans(0, cs), 1},
		{spans(0, cs+1), 2},
		{spans(cs-1, 2), 2},
		{spans(cs, 1), 1},
		{spans(0, 1, 2, 1, cs-1, 1), 1},
		{spans(cs-1, 1, 0, 1), 1},
		{spans(5*cs, 1, 0, 1, 2*cs-1, 2), 4},
		{spans(cs/2, cs, 0, 1, 2*cs-1, 1), 2},
		{spans(0, 5<<40), (5 << 40) / cs},
		{spans(0, math.MaxInt64), math.MaxInt64/cs + 1},
	} {
		if got := Chunksets(tc.ranges); got != tc.want {
			t.Errorf("%v: %d chunksets, want %d", tc.ranges, got, tc.want)
		}
	}
}

// FuzzChunksets compares the number of chunksets of two ranges with a count one by one.
func FuzzChunksets(f *testing.F) {
	const cs = wire.ChunksetSize
	f.Add(int64(0), int64(cs), int64(cs-1), int64(2))
	f.Add(int64(5*cs), int64(1), int64(0), int64(3*cs))
	f.Fuzz(func(t *testing.T, off1, n1, off2, n2 int64) {
		const most = 100 * cs
		if off1 < 0 || off2 < 0 || n1 < 1 || n2 < 1 || off1 > most || off2 > most || n1 > most || n2 > most {
			return
		}
		ranges := spans(off1, n1, off2, n2)
		want := int64(0)
		for i := range int64(2*most/cs + 1) {
			for _, r := range ranges {
				if r.Off < (i+1)*cs && i*cs < r.Off+r.N {
					want++
					break
				}
			}
		}
		if got := Chunksets(ranges); got != want {
			t.Errorf("%v: %d chunksets, want %d", ranges, got, want)
		}
	})
}

func TestBillReportsTheMissingPayer(t *testing.T) {
	f := newFixture(t)
	_, err := f.NewBill(t.Context(), Payer{Session: "none"})
	testenv.Is(t, err, ErrSessionNotFound, "a session that does not exist")
	other := f.payment()
	other.Sender = "0x00000000000000000000000000000000000000000000000000000000000000bb"
	_, err = f.NewBill(t.Context(), Payer{Payment: other})
	testenv.Is(t, err, ErrChannelNotFound, "a channel that does not exist")
	b := testenv.Must(f.NewBill(t.Context(), Payer{}))(t)
	var short *ShortfallError
	if err := b.Require(3 * wire.ChunksetSize); !errors.Is(err, ErrPaymentRequired) || !errors.As(err, &short) || short.Required != 3 {
		t.Errorf("a read that nothing pays for: %v, %+v", err, short)
	}
}

func TestChargeRefusesWithTheAmounts(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		payer Payer
		n     int64
		want  ShortfallError
	}{
		{Payer{Session: f.session, Limit: 1}, 2, ShortfallError{Err: ErrAboveLimit, Required: 2, Available: 1}},
		{Payer{Session: f.session, Limit: -1}, 101, ShortfallError{Err: ledger.ErrExhausted, Required: 101, Available: 100}},
	} {
		b, err := f.NewBill(t.Context(), tc.payer)
		testenv.OK(t, err)
		_, _, err = b.Charge(t.Context(), spans(0, tc.n*wire.ChunksetSize))
		var short *ShortfallError
		if !errors.As(err, &short) || *short != tc.want {
			t.Errorf("%d chunksets for %+v: %v", tc.n, tc.payer, err)
		}
		b.Return(nil) // nothing was charged
	}
	f.awaitReturns()
	f.checkFunds(100, 0)
}

func TestFreeReadHasNoBill(t *testing.T) {
	var b *Bill
	charged, left, err := b.Charge(t.Context(), spans(0, 1))
	if b.Require(1) != nil || charged != 0 || left != 0 || err != nil {
		t.Errorf("%d charged, %d left, %v", charged, left, err)
	}
	b.Return(nil)
}
