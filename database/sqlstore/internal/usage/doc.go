// Package usage counts bytes and rows by owner, in the tables usage and usage_sums, for every room
// that stores something: usage.go has the differences that a transaction records, counts.go the
// sums into which they are folded.
//
// An owner's rows of usage and its row of usage_sums add up to the sizes and numbers of its blobs
// and of the parts of its open uploads, the number of those uploads, the bytes of the names and the
// number of its channels. A transaction that changes one of them inserts the difference.
package usage
