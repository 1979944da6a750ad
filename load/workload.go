package load

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"sluice/client"
	"sluice/wire"
)

// Options describe a Workload.
type Options struct {
	Client *client.Client // prepares and cleans up
	Target *Target        // where operations go

	Mix Mix // how often each kind of operation is sent

	// Blobs are stored in Account with names below Prefix, which is empty or ends in a slash. Blobs
	// is their number. Blob i has a size that Sizes chooses. Operations that store replace blobs if
	// there are more of them than blobs, and operations that read choose blobs at random.
	Account string
	Prefix  string
	Blobs   int64
	Sizes   Sizes

	RangeSize int64 // for a Range, in bytes; the whole blob if that is smaller
	PartSize  int64 // for a Multipart

	// Sessions is the number of sessions that each Use chooses from at random. They are created,
	// and replaced when they are used up, unless SessionIDs names existing ones. The first one of
	// SessionIDs also pays for reads.
	Sessions   int
	SessionIDs []string

	Connections int // concurrent requests that prepare and clean up
}

// Workload makes operations on a service. The caller calls Prepare, then uses Workers in a Plan,
// and in the end, whether Prepare failed or not, calls Clean.
type Workload struct {
	options Options
	prefix  string // that all blobs' names have
	path    string // the same, escaped
	reads   string // header fields of reads
	pool    *pool
	stored  atomic.Int64 // blobs with a lower index may exist

	mu      sync.Mutex
	uploads map[string]struct{} // that may be open
}

// New returns a workload.
func New(o Options) *Workload {
	w := &Workload{options: o, prefix: o.Prefix + "sluice-bench-" + strings.ToLower(rand.Text()[:10]) + "/", uploads: map[string]struct{}{}}
	segments := strings.Split(w.prefix, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	w.path = "/v1/blobs/" + url.PathEscape(o.Account) + "/" + strings.Join(segments, "/")
	if len(o.SessionIDs) > 0 {
		w.reads = wire.HeaderSessionID + ": " + o.SessionIDs[0] + "\r\n"
	}
	return w
}

// Prefix returns the prefix of all names in the workload. It ends in a slash.
func (w *Workload) Prefix() string { return w.prefix }

// Kind returns the kind of operation n.
func (w *Workload) Kind(n int64) Kind { return w.options.Mix.kind(n) }

// ToStore returns the number of blobs that Prepare stores.
func (w *Workload) ToStore() int64 {
	if w.options.Mix[Get]+w.options.Mix[Range] == 0 {
		return 0
	}
	return w.options.Blobs
}

// Prepare stores the blobs that operations read, and creates sessions. It calls progress with the
// number of blobs that are stored.
func (w *Workload) Prepare(ctx context.Context, progress func(done int64)) error {
	if w.options.Mix[Use] > 0 {
		w.pool = newPool(ctx, w.options.Client, w.options.SessionIDs, w.options.Sessions)
		if err := w.pool.fill(ctx); err != nil {
			return err
		}
	}
	return each(ctx, w.options.Connections, w.ToStore(), progress, func(i int64) error {
		content := w.content(i)
		_, err := w.options.Client.Put(ctx, w.options.Account, w.name(i), content.reader(), client.PutOptions{SkipDigest: true})
		if err == nil || errors.Is(err, client.ErrOutcomeUnknown) {
			w.storing(i)
		}
		return err
	})
}

func (w *Workload) name(i int64) string { return w.prefix + strconv.FormatInt(i, 10) }

func (w *Workload) content(i int64) Content { return Content{Size: w.options.Sizes.size(i), Seed: i} }

// storing notes that blob i may exist from now on.
func (w *Workload) storing(i int64) {
	for {
		n := w.stored.Load()
		if i < n || w.stored.CompareAndSwap(n, i+1) {
			return
		}
	}
}

// each calls fn for the numbers from 0 to n-1, concurrently, until a call fails.
func each(ctx context.Context, concurrency int, n int64, progress func(done int64), fn func(i int64) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var group sync.WaitGroup
	for range min(int64(concurrency), n) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < n && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := fn(i); err != nil {
					cancel(err)
					return
				}
				progress(done.Add(1))
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// Left counts the things that Clean could not remove.
type Left struct {
	Blobs    int64 // at most so many blobs below the prefix
	Uploads  int   // open ones, which the service aborts after a day
	Sessions int   // they cannot be removed, and expire
}

// Clean removes the workload's blobs and uploads. It calls progress with the number of blobs that
// are removed. It returns what is Left, with an error if that is more than sessions.
func (w *Workload) Clean(ctx context.Context, progress func(done int64)) (Left, error) {
	var left Left
	var removed atomic.Int64
	if w.pool != nil {
		left.Sessions = w.pool.close()
	}
	n := w.stored.Load()
	err := each(ctx, w.options.Connections, n, progress, func(i int64) error {
		err := w.options.Client.Delete(ctx, w.options.Account, w.name(i), client.DeleteOptions{})
		if err == nil {
			removed.Add(1)
		}
		return err
	})
	left.Blobs = n - removed.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.uploads {
		if abortErr := w.options.Client.AbortUpload(ctx, id); abortErr != nil && !errors.Is(abortErr, client.ErrNotFound) {
			left.Uploads++
			err = errors.Join(err, abortErr)
		}
	}
	return left, err
}

// ToClean returns the number of blobs that Clean removes.
func (w *Workload) ToClean() int64 { return w.stored.Load() }

// Workers returns n workers. Their connections are closed when the context of their operations is
// cancelled.
func (w *Workload) Workers(n int) []Worker {
	all := make([]Worker, n)
	for i := range all {
		all[i] = &worker{Workload: w, conn: NewConn(w.options.Target)}
	}
	return all
}

// worker sends a workload's operations over one connection.
type worker struct {
	*Workload
	conn *Conn
}

// Do implements Worker.
func (w *worker) Do(ctx context.Context, n int64) (int64, error) {
	i := int64(mix(n, saltBlob) % uint64(max(w.options.Blobs, 1)))
	switch w.Kind(n) {
	case Put:
		return w.put(ctx, n%w.options.Blobs)
	case Get:
		return w.get(ctx, i)
	case Range:
		return w.getRange(ctx, i, mix(n, saltOffset))
	case Multipart:
		return w.multipart(ctx, n%w.options.Blobs)
	default:
		return 0, w.use(ctx, mix(n, saltBlob))
	}
}

func (w *worker) blobPath(i int64) string { return w.path + strconv.FormatInt(i, 10) }

func (w *worker) put(ctx context.Context, i int64) (int64, error) {
	w.storing(i)
	content := w.content(i)
	_, err := w.conn.Do(ctx, &Request{Method: http.MethodPut, Path: w.blobPath(i), Content: content, Length: content.Size}, http.StatusNoContent, false)
	if err != nil {
		return 0, err
	}
	return content.Size, nil
}

func (w *worker) get(ctx context.Context, i int64) (int64, error) {
	p, err := w.conn.Do(ctx, &Request{Method: http.MethodGet, Path: w.blobPath(i), Fields: w.reads}, http.StatusOK, false)
	return received(p, w.options.Sizes.size(i), err)
}

// received returns the length of a response's body, and an error if another was expected.
func received(p Response, want int64, err error) (int64, error) {
	if err == nil && p.Length != want {
		err = fmt.Errorf("%w: %d bytes instead of %d", errUnexpected, p.Length, want)
	}
	if err != nil {
		return 0, err
	}
	return p.Length, nil
}

// getRange reads a range of blob i at a random offset.
func (w *worker) getRange(ctx context.Context, i int64, random uint64) (int64, error) {
	size := w.options.Sizes.size(i)
	length := min(w.options.RangeSize, size)
	if length == 0 { // an empty blob has no ranges
		return w.get(ctx, i)
	}
	first := int64(random % uint64(size-length+1))
	fields := w.reads + "Range: bytes=" + strconv.FormatInt(first, 10) + "-" + strconv.FormatInt(first+length-1, 10) + "\r\n"
	p, err := w.conn.Do(ctx, &Request{Method: http.MethodGet, Path: w.blobPath(i), Fields: fields}, http.StatusPartialContent, false)
	return received(p, length, err)
}

// jsonField is the header field of JSON bodies.
const jsonField = "Content-Type: application/json\r\n"

// multipart stores blob i as an upload.
func (w *worker) multipart(ctx context.Context, i int64) (int64, error) {
	content := w.content(i)
	name, partSize := w.name(i), w.options.PartSize
	body, err := json.Marshal(struct {
		Account  string `json:"rawAccount"`
		Name     string `json:"rawBlobName"`
		PartSize int64  `json:"rawPartSize"`
	}{w.options.Account, name, partSize})
	if err != nil {
		return 0, err
	}
	p, err := w.conn.Do(ctx, &Request{Method: http.MethodPost, Path: "/v1/multipart-uploads", Fields: jsonField, Body: body}, http.StatusOK, true)
	if err != nil {
		return 0, err
	}
	var begun wire.UploadBegun
	if err := json.Unmarshal(p.Body, &begun); err != nil || begun.UploadID == "" {
		return 0, fmt.Errorf("%w: it has no id of an upload", errUnexpected)
	}
	w.setOpen(begun.UploadID, true)
	path := "/v1/multipart-uploads/" + url.PathEscape(begun.UploadID)
	for part := int64(0); part*partSize < content.Size; part++ {
		offset := part * partSize
		q := &Request{Method: http.MethodPut, Path: path + "/parts/" + strconv.FormatInt(part, 10), Content: content, Offset: offset, Length: min(partSize, content.Size-offset)}
		if _, err := w.conn.Do(ctx, q, http.StatusOK, false); err != nil {
			return 0, err
		}
	}
	w.storing(i)
	if _, err := w.conn.Do(ctx, &Request{Method: http.MethodPost, Path: path + "/complete"}, http.StatusOK, false); err != nil {
		return 0, err
	}
	w.setOpen(begun.UploadID, false)
	return content.Size, nil
}

// setOpen notes whether an upload may be open.
func (w *worker) setOpen(id string, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if open {
		w.uploads[id] = struct{}{}
	} else {
		delete(w.uploads, id)
	}
}

// use deducts a chunkset from a random session.
func (w *worker) use(ctx context.Context, random uint64) error {
	path, err := w.pool.take(ctx, random)
	if err != nil {
		return err
	}
	_, err = w.conn.Do(ctx, &Request{Method: http.MethodPost, Path: path}, http.StatusOK, false)
	return err
}
