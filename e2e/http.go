package e2e

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/test/testenv"
)

// Request returns a request. The client sends its target byte for byte. target is relative to the
// base path.
func (s *Server) Request(method, target string, body io.Reader, h Headers) (*http.Request, error) {
	req, err := http.NewRequest(method, s.Scheme+"://"+s.Host, body)
	if err != nil {
		return nil, err
	}
	req.URL = &url.URL{Scheme: s.Scheme, Host: s.Host, Opaque: s.Base + target}
	for i := 0; i < len(h); i += 2 {
		if h[i] == "Host" {
			req.Host = h[i+1]
			continue
		}
		req.Header.Add(h[i], h[i+1])
	}
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	return req, nil
}

// Try sends a request and reads the complete response.
func (s *Server) Try(method, target string, body []byte, h ...string) (Response, error) {
	var source io.Reader
	if body != nil {
		source = bytes.NewReader(body)
	}
	req, err := s.Request(method, target, source, h)
	if err != nil {
		return Response{}, err
	}
	return s.Send(req)
}

// Send sends a request and reads the complete response.
func (s *Server) Send(req *http.Request) (Response, error) {
	resp, err := s.Client.Do(req)
	if err != nil {
		return Response{}, err
	}
	return Collect(resp)
}

// PutFrom is Try for a PUT with a body that is read while it is sent. It has a length unless size
// is -1.
func (s *Server) PutFrom(target string, body io.Reader, size int64) (Response, error) {
	req, err := s.Request("PUT", target, body, nil)
	if err != nil {
		return Response{}, err
	}
	req.ContentLength = size
	return s.Send(req)
}

// Do is like Try, but ends the test on an error.
func (s *Server) Do(method, target string, body []byte, h ...string) Response {
	s.T.Helper()
	r, err := s.Try(method, target, body, h...)
	if err != nil {
		s.T.Fatalf("%s %.200s: %v\n%s", method, target, err, Tail(s.Log.String()))
	}
	return r
}

// Must is like Do, but ends the test if the response has another status.
func (s *Server) Must(status int, method, target string, body []byte, h ...string) Response {
	s.T.Helper()
	r := s.Do(method, target, body, h...)
	if r.Status != status {
		s.T.Fatalf("%s %.200s: %v, want %d", method, target, r, status)
	}
	return r
}

// Holds fails the test unless a GET of a blob returns these bytes.
func (s *Server) Holds(target string, want []byte) {
	s.T.Helper()
	if r := s.Must(200, "GET", target, nil); !bytes.Equal(r.Body, want) {
		s.T.Errorf("%s at %s has %d bytes, other than the %d stored", target, s.Host, len(r.Body), len(want))
	}
}

// Raw sends text on a new connection and reads one response.
func (s *Server) Raw(method, text string) Response {
	s.T.Helper()
	connection := s.Dial()
	s.Write(connection, text)
	return s.Answer(connection, method)
}

// Answer reads one response from a connection.
func (s *Server) Answer(connection net.Conn, method string) Response {
	s.T.Helper()
	r, err := ReadAnswer(bufio.NewReader(connection), method)
	testenv.OK(s.T, err)
	return r
}

// Listed is a page of blobs.
type Listed struct {
	Blobs []struct {
		Name string `json:"name"`
		Size int64  `json:"size"`
		ETag string `json:"etag"`
	} `json:"blobs"`
	Next string `json:"next"`
}

// Names lists all of an account's blobs.
func (s *Server) Names(account string) []string {
	s.T.Helper()
	var all []string
	after := ""
	for {
		var page Listed
		s.Must(200, "GET", "/v1/blobs/"+account+"?limit=1000&after="+url.QueryEscape(after), nil).Decode(s.T, &page)
		for _, b := range page.Blobs {
			all = append(all, b.Name)
		}
		if page.Next == "" {
			return all
		}
		after = page.Next
	}
}

// ListsOnly fails the test unless an account has exactly these blobs.
func (s *Server) ListsOnly(account string, want ...string) {
	s.T.Helper()
	if got := s.Names(account); !slices.Equal(got, want) {
		s.T.Errorf("the account %s has the blobs %q, want %q", account, got, want)
	}
}

// OpenUploads lists the ids of an account's open uploads.
func (s *Server) OpenUploads(account string) []string {
	s.T.Helper()
	var page struct {
		Uploads []struct {
			UploadID string `json:"uploadId"`
		} `json:"uploads"`
	}
	s.Must(200, "GET", "/v1/multipart-uploads?account="+account, nil).Decode(s.T, &page)
	ids := make([]string, len(page.Uploads))
	for i, u := range page.Uploads {
		ids[i] = u.UploadID
	}
	return ids
}

// Begin begins an upload and returns its id.
func (s *Server) Begin(account, name string, partSize int, more ...any) string {
	s.T.Helper()
	o := map[string]any{"rawAccount": account, "rawBlobName": name, "rawPartSize": partSize}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	r := s.Must(200, "POST", "/v1/multipart-uploads", AsJSON(s.T, o), "Content-Type", "application/json")
	id := Text(s.T, r.Object(s.T), "uploadId")
	if !IDForm.MatchString(id) {
		s.T.Errorf("uploadId %q does not match %v", id, IDForm)
	}
	return id
}

// Parts uploads data as an open upload's parts, in order.
func (s *Server) Parts(uploadID string, data []byte, partSize int) {
	s.T.Helper()
	for i := 0; i*partSize < len(data); i++ {
		end := min(len(data), (i+1)*partSize)
		s.Must(200, "PUT", PartTarget(uploadID, i), data[i*partSize:end])
	}
}

// Upload stores data in parts and returns the response to complete.
func (s *Server) Upload(account, name string, data []byte, partSize int) Response {
	s.T.Helper()
	id := s.Begin(account, name, partSize)
	s.Parts(id, data, partSize)
	return s.Must(200, "POST", "/v1/multipart-uploads/"+id+"/complete", nil)
}

// Session creates a session and returns its id.
func (s *Server) Session() string {
	s.T.Helper()
	return Text(s.T, s.Must(201, "POST", "/v1/sessions", []byte("{}")).Object(s.T), "sessionId")
}

// Left returns how many chunksets a session has left.
func (s *Server) Left(id string) string {
	s.T.Helper()
	return Text(s.T, s.Must(200, "GET", "/v1/sessions/"+id, nil).Object(s.T), "chunksetsLeft")
}

// WantCode is like Must, and fails the test if the body has another error code.
func (s *Server) WantCode(status int, code, method, target string, body []byte, h ...string) Response {
	s.T.Helper()
	r := s.Must(status, method, target, body, h...)
	if !strings.Contains(string(r.Body), `"code":"`+code+`"`) {
		s.T.Errorf("%s %s: %v, want code %s", method, target, r, code)
	}
	return r
}
