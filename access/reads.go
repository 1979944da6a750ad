package access

import "slices"

// Reads is the rule for who may read blobs, or list them.
type Reads string

// The kinds of reads.
const (
	ReadsPublic Reads = "public" // everybody, free of charge
	ReadsKey    Reads = "key"    // callers with a key that may read the blob
	ReadsPaid   Reads = "paid"   // callers who pay for the chunksets that a response touches
	// ReadsFree is ReadsPaid without a charge: nobody pays, and since the price may come back, no
	// shared cache may keep a response. Only a place has it.
	ReadsFree Reads = "free"
)

// ReadsInstance is a place's setting by which the instance's reads apply to it.
const ReadsInstance Reads = "instance"

// openness are the kinds of reads from the fewest readers to the most.
var openness = []Reads{ReadsKey, ReadsPaid, ReadsFree, ReadsPublic}

// Opener reports whether more callers may read, or for less, than by other.
func (r Reads) Opener(other Reads) bool {
	return slices.Index(openness, r) > slices.Index(openness, other)
}

// Everybody reports whether everybody may read without a key and without paying.
func (r Reads) Everybody() bool { return r == ReadsPublic || r == ReadsFree }

// Lists returns who may list blobs on an instance with these reads. A list is never paid for.
func (r Reads) Lists() Reads {
	if r == ReadsPublic {
		return ReadsPublic
	}
	return ReadsKey
}
