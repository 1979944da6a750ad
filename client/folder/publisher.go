package folder

import (
	"sync"
	"time"

	"sluice/client"
)

// A publisher publishes when it has collected so many files or bytes. The files stay open, with
// their locks and their folders.
const (
	maxReceived      = 64
	maxReceivedBytes = 32 << 20
	maxUnpublished   = time.Second
)

// publisher publishes received files, many at a time. It collects files while it publishes earlier
// ones. It is safe for concurrent use.
type publisher struct {
	group *client.FileGroup

	mu    sync.Mutex // is held while a full list waits for the one before
	list  []received
	bytes int64
	timer *time.Timer // flushes the list, unless that is empty

	publishing sync.Mutex // is locked with mu held, which keeps the order
}

// received is a file to publish.
type received struct {
	file *client.ReceivedFile
	done func(error) // is called when it has been published, or has failed
}

// add adds a file, and publishes the collected files if they are enough.
func (p *publisher) add(r received) {
	p.mu.Lock()
	if len(p.list) == 0 {
		p.timer = time.AfterFunc(maxUnpublished, p.flush)
	}
	p.list = append(p.list, r)
	p.bytes += r.file.Blob().Size
	if len(p.list) < maxReceived && p.bytes < maxReceivedBytes {
		p.mu.Unlock()
		return
	}
	p.publish()
}

// flush publishes the collected files. When it returns, every file that was added before is
// published.
func (p *publisher) flush() {
	p.mu.Lock()
	p.publish()
}

// publish publishes the list. p.mu is locked, and unlocked when another list can be collected.
func (p *publisher) publish() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	list := p.list
	p.list, p.bytes = nil, 0
	if len(list) > 0 {
		p.timer.Stop()
	}
	p.mu.Unlock()
	if len(list) == 0 {
		return
	}
	files := make([]*client.ReceivedFile, len(list))
	for i, r := range list {
		files[i] = r.file
	}
	for i, err := range p.group.Publish(files) {
		list[i].done(err)
	}
}
