package micropay

import (
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"slices"
)

// Numbers in an encoded transaction.
const (
	transactionByUser     = 0 // a variant among the chain's transactions
	authenticatorFeePayer = 3 // a variant among a transaction's authenticators: secondary signers and a fee payer
)

// transactionPrefix is SHA3-256("APTOS::Transaction") and the variant's number.
var transactionPrefix = func() []byte {
	sum := sha3.Sum256([]byte("APTOS::Transaction"))
	return append(sum[:], transactionByUser)
}()

// secondarySignerSize is how many bytes the list of secondary signers has, with its one address.
const secondarySignerSize = 1 + len(Address{})

// Hash is a transaction's hash.
type Hash [32]byte

// String returns the hash as 0x and 64 lower-case hexadecimal digits, as the chain writes it.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// Transaction is the transaction that collects a micropayment: the micropayment, completed by its
// receiver.
type Transaction struct {
	// Body is the request body for the chain, an application/x.aptos.signed_transaction+bcs. It
	// must not be changed.
	Body []byte
	// Hash is the hash by which the chain knows the transaction. It depends on nothing but Body, so
	// that a submission without an answer can be looked up.
	Hash Hash
}

// Collect completes the micropayment as its receiver, who signs as the secondary signer and as the
// fee payer. It is deterministic, and returns the same bytes as the public client. It returns
// ErrKey if the signer is not the receiver's. It does not verify the sender's signatures; see
// [Micropayment.Verify].
//
// Body is the micropayment up to the list of secondary signers, 03 (an authenticator with secondary
// signers and a fee payer), the sender's authenticator, a list with the receiver's address, a list
// with its authenticator, the receiver's address and its authenticator again. The receiver signs
// the same message as the sender, but with its own address as fee payer.
func (m *Micropayment) Collect(receiver *Signer) (*Transaction, error) {
	if receiver.Address() != m.Receiver {
		return nil, fmt.Errorf("%w: the signer is %v, the receiver is %v", ErrKey, receiver.Address(), m.Receiver)
	}
	signature := receiver.sign(slices.Concat([]byte(signingPrefix), m.raw[:m.signed], m.Receiver[:]))
	body := m.complete(m.raw[m.signed+1+len(Address{}):], signature.append(nil))
	return &Transaction{Body: body, Hash: sha3.Sum256(slices.Concat(transactionPrefix, body))}, nil
}

// complete returns the encoded transaction with the sender's and the receiver's encoded
// authenticators.
func (m *Micropayment) complete(sender, receiver []byte) []byte {
	address := m.Receiver[:]
	return slices.Concat(m.raw[:m.signed-secondarySignerSize],
		[]byte{authenticatorFeePayer}, sender,
		[]byte{1}, address, []byte{1}, receiver,
		address, receiver)
}
