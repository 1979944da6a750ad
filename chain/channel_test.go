package chain

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/micropay"
	"sluice/test/testenv"
)

// channelText is a channel in a node's answer, with more members.
func channelText(number int, more string) string {
	return fmt.Sprintf(`{"asset_metadata":{"inner":"0x%064x"},"balance":"1000","creation_micros":"1760000000000000","expiration_micros":"1770000000000000",`+
		`"next_withdrawn_sequence_number":"3","payment_channel_id":"%d","receiver_withdrawn_amount":"%d"%s}`, 1, number, number, more)
}

// named is the channel of channelText with a number.
func named(number uint64) ChannelName {
	return ChannelName{Asset: micropay.Address{31: 1}, PaymentChannelID: number}
}

// manyChannels is the body of an answer with count channels. It makes each when it is read, and
// calls before the last one is.
type manyChannels struct {
	sent, count int
	rest        string
	before      func()
}

func (m *manyChannels) Read(p []byte) (int, error) {
	if m.rest == "" {
		switch m.sent++; {
		case m.sent > m.count:
			return 0, io.EOF
		case m.sent == m.count:
			m.before()
			m.rest = channelText(m.sent, "") + "]]"
		default:
			m.rest = channelText(m.sent, "") + ","
		}
		if m.sent == 1 {
			m.rest = "[[" + m.rest
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// TestOneOfManyChannels reads two channels of a payer who has as many as do not fit into
// maxResponse. Memory does not grow with their number.
// Invariant 100.
func TestOneOfManyChannels(t *testing.T) {
	const count, most = 15_000, 1 << 20
	before := testenv.Heap()
	var took int64
	body := &manyChannels{count: count, before: func() { took = testenv.Heap() - before }}
	c := newClient(t, Options{Nodes: []string{"https://node.example/v1"}, Rounds: 1, Transport: transport(func(*http.Request) (*http.Response, error) {
		r := response(200, "", "")
		r.Body = io.NopCloser(body)
		return r, nil
	})})
	channels := testenv.Must(c.Channels(t.Context(), micropay.Address{1}, micropay.Address{2}, named(count), named(7), named(count+1)))(t)
	if len(channels.ByName) != 2 || channels.ByName[named(count)].Withdrawn != count || channels.ByName[named(7)].Withdrawn != 7 {
		t.Errorf("the channels are %+v", channels.ByName)
	}
	if took > most || len(channelText(1, ""))*count < maxResponse {
		t.Errorf("%d bytes of memory before the last channel, want at most %d", took, most)
	}
}

// TestListsThatAreNoAnswer asks nodes that answer with a list which is wrong at its end, or
// has a value that is too long.
func TestListsThatAreNoAnswer(t *testing.T) {
	long := strings.Repeat("x", maxResponse)
	for name, test := range map[string]struct {
		body string
		good bool
	}{
		"good":                 {"[[" + channelText(1, "") + "," + channelText(7, "") + "]] \n", true},
		"long members":         {"[[" + channelText(1, `,"more":"`+long[1000:]+`"`) + "," + channelText(7, `,"more":"`+long[1000:]+`"`) + "]]", true},
		"cut":                  {"[[" + channelText(7, ""), false},
		"cut before its end":   {"[[" + channelText(7, "") + "]", false},
		"two lists":            {"[[" + channelText(7, "") + "],[]]", false},
		"two values":           {"[[" + channelText(7, "") + "]] []", false},
		"an object":            {`{"channels":[]}`, false},
		"no comma":             {"[[" + channelText(1, "") + channelText(7, "") + "]]", false},
		"no channel":           {"[[null," + channelText(7, "") + "]]", false},
		"listed twice":         {"[[" + channelText(7, "") + "," + channelText(7, "") + "]]", false},
		"a channel too long":   {"[[" + channelText(1, `,"more":"`+long+long+`"`) + "," + channelText(7, "") + "]]", false},
		"too much white space": {"[[" + channelText(1, "") + "," + strings.Repeat(" ", 2*maxResponse) + channelText(7, "") + "]]", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Options{Nodes: []string{node(t, answers(200, test.body))}, Rounds: 1})
			channels, err := c.Channels(t.Context(), micropay.Address{1}, micropay.Address{2}, named(7))
			if test.good {
				testenv.OK(t, err)
				testenv.Equal(t, channels.ByName[named(7)].Withdrawn, 7, "the amount withdrawn")
			} else {
				testenv.Is(t, err, ErrUnavailable, "the answer %.100s", test.body)
			}
		})
	}
}
