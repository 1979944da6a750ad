// Package bytestore is the contract for keeping bytes: immutable objects under
// fresh, unguessable keys. It knows nothing of blobs, uploads or names; package
// blob cuts a body into objects ("extents") and package metastore remembers
// which extents make up which blob.
//
// Implementations are localfs (a folder), s3 (any S3-compatible store), cached (a
// local copy of what is read of another store) and memory (tests). Package
// bytetest holds the checks that each of them passes.
package bytestore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// Errors that a Store promises. They arrive wrapped; compare with errors.Is.
var (
	// ErrNotFound: no object has this key.
	ErrNotFound = errors.New("bytestore: object not found")
	// ErrExists: an object has this key already; it was left as it is.
	ErrExists = errors.New("bytestore: object exists")
	// ErrNoSpace: the store is full, or down to what it keeps in reserve.
	// Deletes still work.
	ErrNoSpace = errors.New("bytestore: no space left")
	// ErrSize: the source of a Put did not hold the promised number of bytes.
	ErrSize = errors.New("bytestore: source has another size than promised")
	// ErrTruncated: a stored object is shorter than the range asked of it.
	ErrTruncated = errors.New("bytestore: object is shorter than the range")
	// ErrInvalidKey: the key has not the form that Key describes.
	ErrInvalidKey = errors.New("bytestore: invalid key")
	// ErrOverloaded: the store is busy, or cannot be reached; try again later.
	ErrOverloaded = errors.New("bytestore: overloaded")
)

// UnknownSize as the size of a Put means: up to the end of the source.
const UnknownSize = -1

// Store keeps immutable objects. All methods may be called at once from many
// goroutines, also for the same key.
type Store interface {
	// Put stores exactly size bytes of src under key (all of src when size is
	// UnknownSize). A nil error means that the object is complete, visible to
	// Open and List, and survives a power cut. On any error nothing is visible
	// under key, unless the error is ErrExists: then the object that was there
	// first is untouched, and of several racing Puts of one key exactly one
	// succeeds. An error of src is returned wrapped; a source that ends early
	// or goes on too long is ErrSize. When ctx ends during the Put it fails
	// with the context's error. A Put waits for no other Put's source, not even
	// for that of the same key.
	Put(ctx context.Context, key Key, src io.Reader, size int64) error

	// Open returns a reader that stands at byte off of the object. The caller
	// reads at most n bytes of it (what comes after them is not specified) and
	// closes it. Both are at least 0. ErrTruncated when off+n exceeds the
	// object's size. An open reader stays readable after Delete where the
	// store can promise it; callers pin what they read and do not rely on it.
	//
	// A reader that comes to its end (io.EOF) before n bytes, or fails with
	// ErrNotFound or ErrTruncated, says that the object is not what it was. Any
	// other error says nothing about it: ErrOverloaded when the store cannot be
	// reached, or its replies break off however often they are asked for.
	//
	// A reader that is also an fs.File, an io.Seeker and a syscall.Conn (as
	// *os.File is) lets package net send it without copying.
	Open(ctx context.Context, key Key, off, n int64) (io.ReadCloser, error)

	// Delete removes the objects, of which there may be any number. A nil error
	// means that none of them is visible any more, and that the space of those
	// that were there is given back. Every other error is an Undeleted: the
	// objects that it does not name are gone. A failure of one object keeps none
	// of the others. Whether a Delete survives a power cut is not promised:
	// callers repeat it.
	Delete(ctx context.Context, keys ...Key) error

	// List calls fn for every object whose key is greater than after, in
	// ascending byte order of the keys, until fn returns an error, which List
	// then returns as it is. An object put or deleted meanwhile may or may not
	// appear; every other one appears exactly once. When ctx ends meanwhile,
	// List fails with its error.
	List(ctx context.Context, after Key, fn func(Object) error) error
}

// Object is an entry of a listing.
type Object struct {
	Key  Key
	Size int64 // bytes
}

// Key names an object: 3 to 64 characters of [a-z0-9-]. Keys made by NewKey
// spread evenly by their first two characters, and tell when they were made.
type Key string

// keyLen is the length of a key made by NewKey: "hh-tttttttttttt-" and 32 hex
// digits of randomness.
const keyLen = 2 + 1 + 12 + 1 + 32

// NewKey makes a fresh key: two random hex digits, the time in milliseconds,
// and 128 random bits. It is unguessable and never made twice.
func NewKey(now time.Time) Key {
	var r [17]byte
	rand.Read(r[:])
	return Key(fmt.Sprintf("%02x-%012x-%x", r[0], now.UnixMilli(), r[1:]))
}

// Valid reports whether the key has the form that every Store accepts.
func (k Key) Valid() bool {
	if len(k) < 3 || len(k) > 64 {
		return false
	}
	for i := range len(k) {
		c := k[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Created tells when NewKey made the key, to the millisecond; false for keys
// that were not made by NewKey.
func (k Key) Created() (time.Time, bool) {
	if len(k) != keyLen || k[2] != '-' || k[15] != '-' {
		return time.Time{}, false
	}
	if !isHex(k[:2]) || !isHex(k[3:15]) || !isHex(k[16:]) {
		return time.Time{}, false
	}
	var b [6]byte
	if _, err := hex.Decode(b[:], []byte(k[3:15])); err != nil {
		return time.Time{}, false
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms), true
}

func isHex(s Key) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Invalidator is a Store that keeps copies of what it reads in another one.
type Invalidator interface {
	// Forget drops the copies of an object, which was found damaged: the next
	// Open gets it anew.
	Invalidate(key Key)
}
