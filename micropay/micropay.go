// Package micropay parses, verifies, encodes, signs and completes micropayments: transactions that
// a payer signs and sends to the receiver, who may submit them to the chain. It does no I/O, keeps
// no state and reads no clock: the caller passes the time. Whether a payment is new, and whether a
// deposit covers it, is decided by package paychan.
//
// A server calls [Receive], and [Micropayment.Collect] for the transaction that it submits to the
// chain. A client creates a [Signer] and calls [Signer.Sign].
//
// # Byte layout
//
// The encoding is BCS, Binary Canonical Serialization: integers are
// little-endian; lengths, counts and variants are ULEB128 in the shortest form.
// In the usual form the bytes are:
//
//	  0  32     sender
//	 32  8      account sequence number, without meaning if there is a nonce
//	 40  3      04 00 01: payload, version 1, entry function
//	 43  32     module address
//	 75  14     "micropayments", length first
//	 89  18     "receiver_withdraw", length first
//	107  2      00 04: no type arguments, four arguments, each with its length:
//	109  9      amount, u64, the sum of all payments of the channel
//	118  9      payment channel id, u64
//	127  9      sequence number in the channel, u64
//	136  33     asset
//	169  1      00: extra configuration, version 1
//	170  1      00: no multisig address
//	171  9      replay protection nonce, an option of u64
//	180  25     max gas, gas price, expiration (each u64), chain id (one byte)
//	205  33     secondary signers: one, the receiver
//	238  33     fee payer: some, and 32 zero bytes (any submitter)
//	271  ...    authenticator: variant, public keys, signatures
//
// The plain form has 02 (entry function) at 40, the module address at 41, and
// nothing between the last argument and max gas.
//
// The signed message is SHA3-256("APTOS::RawTransactionWithData"), 01, and the bytes as received
// from the sender up to and including the fee payer, without the option tag before the fee payer.
// An Ed25519 key signs that message itself, a secp256k1 key its SHA3-256. The sender's address is
// the SHA3-256 over the encoded public keys and the [Scheme]'s number.
//
// Sources: the public TypeScript client's output, kept as vectors in testdata; the BCS
// specification; RFC 8032 and the strict rules in "Taming the many EdDSAs" (Chalkias, Garillot,
// Nikolaenko, 2020) for Ed25519; SEC 1 and RFC 6979 for secp256k1.
package micropay

import (
	"bytes"
	"encoding/base64"
)

// MaxSize is how many bytes the longest micropayment has: one that 32 secp256k1 keys have signed.
const MaxSize = 4536

// Micropayment is a payment together with the signed bytes. One returned by [Parse], [ParseBase64]
// or [Signer.Sign] is well-formed; [Micropayment.Verify] checks its signer and signatures. It may
// be used concurrently. The caller must not change its fields, because Verify reads the bytes.
type Micropayment struct {
	Payment
	auth authenticator
	raw  []byte
	// signed is how many bytes of raw are signed unchanged: everything before the fee payer's
	// option tag.
	signed int
}

// Bytes returns a copy: the encoded micropayment.
func (m *Micropayment) Bytes() []byte { return bytes.Clone(m.raw) }

// Base64 returns the encoded micropayment in padded standard base64, the form in which it is sent
// in headers and JSON.
func (m *Micropayment) Base64() string { return base64.StdEncoding.EncodeToString(m.raw) }

// Scheme returns how the micropayment is signed.
func (m *Micropayment) Scheme() Scheme { return m.auth.scheme }

// SigningMessage returns the message that the sender's keys signed.
func (m *Micropayment) SigningMessage() []byte { return signingMessage(m.raw, m.signed) }
