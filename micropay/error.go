package micropay

import (
	"errors"
	"fmt"
)

// The two kinds of errors. Every *Error wraps one of them; compare them with errors.Is.
var (
	// ErrMalformed means that the bytes are not a micropayment. No receiver accepts them.
	ErrMalformed = errors.New("micropay: malformed micropayment")
	// ErrRefused means that the bytes are a micropayment, but not one that pays this receiver
	// now.
	ErrRefused = errors.New("micropay: micropayment refused")
)

// Class is the stage at which a micropayment was refused.
type Class string

// The classes. An Error wraps ErrMalformed if its class is one of the first three, and otherwise
// ErrRefused.
const (
	ClassEncoding  Class = "encoding"  // not base64
	ClassParse     Class = "parse"     // not a transaction's canonical encoding
	ClassShape     Class = "shape"     // a transaction, but not a micropayment
	ClassPolicy    Class = "policy"    // not for this receiver, asset, module, chain or time
	ClassSigner    Class = "signer"    // the keys are not the sender's
	ClassSignature Class = "signature" // a signature is missing or invalid
)

// Reason identifies the exact fault. Its values are stable and may be shown to the payer.
type Reason string

// The reasons, by class.
const (
	ReasonNotBase64 Reason = "not_base64" // encoding: even if empty
	ReasonTooLong   Reason = "too_long"   // encoding or parse: above MaxSize

	ReasonTruncated      Reason = "truncated"           // parse: ends too early
	ReasonTrailingBytes  Reason = "trailing_bytes"      // parse: goes on too long
	ReasonNotCanonical   Reason = "not_canonical"       // parse: number not in its shortest form, or above 2^31-1
	ReasonUnknownVariant Reason = "unknown_variant"     // parse: variant or option tag that does not exist
	ReasonAuthenticator  Reason = "authenticator_shape" // parse: sizes, threshold and bitmap are inconsistent

	ReasonPayload      Reason = "payload"           // shape: not a call to an entry function
	ReasonModuleName   Reason = "module_name"       // shape
	ReasonFunctionName Reason = "function_name"     // shape
	ReasonTypeArgs     Reason = "type_arguments"    // shape: there are some
	ReasonArgs         Reason = "arguments"         // shape: number or size
	ReasonMultisig     Reason = "multisig"          // shape: a multisig address
	ReasonSecondary    Reason = "secondary_signers" // shape: not exactly one
	ReasonFeePayer     Reason = "fee_payer"         // shape: not 0x0

	ReasonReceiver      Reason = "wrong_receiver"       // policy
	ReasonModuleAddress Reason = "wrong_module_address" // policy
	ReasonChain         Reason = "wrong_chain"          // policy
	ReasonAsset         Reason = "wrong_asset"          // policy
	ReasonExpired       Reason = "expired"              // policy
	// ReasonGas is policy: it costs the receiver too much gas, or pays too little for the chain.
	ReasonGas Reason = "gas"

	// The reasons of package paychan, which asks the chain. They are of policy too.
	ReasonAccountSequence Reason = "account_sequence" // the sender's account has passed its sequence number
	ReasonExecution       Reason = "execution"        // the chain would not execute it
	ReasonUnprofitable    Reason = "fee"              // it pays less than its own gas costs

	ReasonSigner      Reason = "wrong_signer"              // signer: the keys have another address
	ReasonUnsupported Reason = "unsupported_authenticator" // signer: a scheme or key that cannot be verified here

	ReasonTooFew       Reason = "too_few_signatures" // signature: fewer than the keys' threshold
	ReasonWeakKey      Reason = "weak_key"           // signature: a public key that is not a point of full order
	ReasonBadSignature Reason = "bad_signature"      // signature: invalid, or not in the accepted form
)

// Error is the reason why a micropayment was refused. It wraps ErrMalformed or ErrRefused.
type Error struct {
	Class  Class
	Reason Reason
	Detail string // a sentence for people, without secrets

	// With ReasonGas, the policy's bounds: the least maximum gas, and the least and the greatest
	// gas price. 0: any.
	MinGas, MinGasPrice, MaxGasPrice uint64
}

// Error returns class, reason and detail.
func (e *Error) Error() string {
	return fmt.Sprintf("micropay: %s: %s: %s", e.Class, e.Reason, e.Detail)
}

// Unwrap returns ErrMalformed or ErrRefused.
func (e *Error) Unwrap() error {
	switch e.Class {
	case ClassEncoding, ClassParse, ClassShape:
		return ErrMalformed
	default:
		return ErrRefused
	}
}

func refuse(c Class, r Reason, format string, args ...any) error {
	return &Error{Class: c, Reason: r, Detail: fmt.Sprintf(format, args...)}
}
