package conformance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
)

// answer is a response before it is sent.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answerOf lets a server answer a request.
func answerOf(next http.Handler, r *http.Request) *answer {
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	return &answer{recorder.Code, recorder.Header(), recorder.Body.Bytes()}
}

// send sends the response.
func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a HEAD's body is not sent, and a client may be gone
}

// setBody replaces the body, and its length.
func (a *answer) setBody(body []byte) {
	a.body = body
	a.header.Set("Content-Length", strconv.Itoa(len(body)))
}

// edit replaces the body's JSON object.
func (a *answer) edit(change func(o map[string]any)) {
	var o map[string]any
	if json.Unmarshal(a.body, &o) != nil {
		return
	}
	change(o)
	if body, err := json.Marshal(o); err == nil {
		a.setBody(body)
	}
}

// matches selects requests by their method, "" for all, and a part of their path.
type matches struct{ method, path string }

func (m matches) match(r *http.Request) bool {
	return (m.method == "" || m.method == r.Method) && strings.Contains(r.URL.Path, m.path)
}

// The requests that breakages are about.
var (
	puts      = matches{"PUT", "/v1/blobs/"}
	gets      = matches{"GET", "/v1/blobs/"}
	heads     = matches{"HEAD", "/v1/blobs/"}
	copies    = matches{"POST", "/v1/blobs/"}
	deletes   = matches{"DELETE", "/v1/blobs/"}
	parts     = matches{"PUT", "/parts/"}
	completes = matches{"POST", "/complete"}
	uses      = matches{"POST", "/use"}
	all       = matches{}
)

// answers returns a proxy that changes the responses to some requests.
func answers(m matches, change func(a *answer, r *http.Request)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !m.match(r) {
				next.ServeHTTP(w, r)
				return
			}
			a := answerOf(next, r)
			change(a, r)
			a.send(w)
		})
	}
}

// requests returns a proxy that changes some requests.
func requests(m matches, change func(r *http.Request)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.match(r) {
				change(r)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// bodies returns a proxy that changes the JSON object in some requests.
func bodies(m matches, change func(o map[string]any)) func(http.Handler) http.Handler {
	return requests(m, func(r *http.Request) {
		a := &answer{header: http.Header{}}
		var err error
		if a.body, err = io.ReadAll(r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		a.edit(change)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	})
}

// without returns a proxy that removes headers from some requests.
func without(m matches, names ...string) func(http.Handler) http.Handler {
	return requests(m, func(r *http.Request) {
		for _, name := range names {
			r.Header.Del(name)
		}
	})
}

// losing returns a proxy that removes headers from the responses to some requests.
func losing(m matches, names ...string) func(http.Handler) http.Handler {
	return answers(m, func(a *answer, _ *http.Request) {
		for _, name := range names {
			a.header.Del(name)
		}
	})
}

// status returns a proxy that replaces one status by another.
func status(m matches, from, to int) func(http.Handler) http.Handler {
	return answers(m, func(a *answer, _ *http.Request) {
		if a.status == from {
			a.status = to
		}
	})
}

// query returns a proxy that changes the parameters of some requests.
func query(m matches, change func(values map[string][]string)) func(http.Handler) http.Handler {
	return requests(m, func(r *http.Request) {
		values := r.URL.Query()
		change(values)
		r.URL.RawQuery = values.Encode()
	})
}

// ignoring returns a proxy that removes parameters.
func ignoring(names ...string) func(http.Handler) http.Handler {
	return query(gets, func(values map[string][]string) {
		for _, name := range names {
			delete(values, name)
		}
	})
}

// swallowing returns a proxy that answers some requests itself and does nothing.
func swallowing(m matches, status int, body string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !m.match(r) {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			a := &answer{status, http.Header{"Content-Type": {"application/json"}, "Chunksets-Left": {"999"}}, []byte(body)}
			a.send(w)
		})
	}
}

// twice returns a proxy that sends some requests two times.
func twice(m matches) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.match(r) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				first := r.Clone(r.Context())
				first.Body = io.NopCloser(bytes.NewReader(body))
				r.Body = io.NopCloser(bytes.NewReader(body))
				answerOf(next, first)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// remembering returns a proxy that repeats its first response to some requests, by their path.
func remembering(m matches) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		first := map[string]*answer{}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !m.match(r) {
				next.ServeHTTP(w, r)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			key := r.Method + r.URL.Path
			if first[key] == nil {
				if a := answerOf(next, r); a.status < 300 {
					first[key] = a
				} else {
					a.send(w)
					return
				}
			}
			first[key].send(w)
		})
	}
}

// entries changes a list in a JSON object.
func entries(m matches, member string, change func([]any) []any) func(http.Handler) http.Handler {
	return answers(m, func(a *answer, _ *http.Request) {
		a.edit(func(o map[string]any) {
			if list, ok := o[member].([]any); ok {
				o[member] = change(list)
			}
		})
	})
}
