package access

// Reads is the rule for who may read blobs.
type Reads string

// The kinds of reads.
const (
	ReadsPublic Reads = "public" // everybody, free of charge
	ReadsKey    Reads = "key"    // callers with a key that may read the account
	ReadsPaid   Reads = "paid"   // callers who pay for the chunksets that a response touches
)
