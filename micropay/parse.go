package micropay

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// ParseBase64 parses a micropayment in padded standard base64, as sent in the X-Shelby-Micropayment
// header. It accepts neither line breaks, which other decoders skip, nor padding bits other than
// zero, so that each micropayment has exactly one spelling. It returns an *Error of ClassEncoding,
// or Parse's result.
func ParseBase64(s string) (*Micropayment, error) {
	if len(s) > base64.StdEncoding.EncodedLen(MaxSize) {
		return nil, refuse(ClassEncoding, ReasonTooLong, "%d characters", len(s))
	}
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return nil, refuse(ClassEncoding, ReasonNotBase64, "empty, or with line breaks")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, refuse(ClassEncoding, ReasonNotBase64, "%v", err)
	}
	return Parse(b)
}

// Parse parses a micropayment from exactly these bytes, and keeps a copy. The result is well-formed
// and encodes to the same bytes, but proves nothing unless Verify returns nil. Parse returns an
// *Error of ClassParse or ClassShape, or of ClassSigner if the authenticator cannot be verified.
func Parse(b []byte) (*Micropayment, error) {
	if len(b) > MaxSize {
		return nil, refuse(ClassParse, ReasonTooLong, "%d bytes", len(b))
	}
	m, err := decode(bytes.Clone(b))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// decode decodes as much as possible; with an error the result is partial.
func decode(b []byte) (*Micropayment, error) {
	m := &Micropayment{raw: b}
	r := &reader{rest: b}
	m.Sender = r.address()
	m.AccountSequence = r.u64()
	r.payload(&m.Payment)
	m.MaxGas = r.u64()
	m.GasPrice = r.u64()
	m.Expiration = r.u64()
	m.ChainID = r.u8()
	m.Receiver = r.secondarySigner()
	m.signed = len(b) - len(r.rest)
	r.feePayer()
	m.auth = r.authenticator()
	if len(r.rest) > 0 {
		r.fail(refuse(ClassParse, ReasonTrailingBytes, "%d bytes after the authenticator", len(r.rest)))
	}
	return m, r.err
}

func (r *reader) payload(p *Payment) {
	switch r.variant("payload", payloadKinds) {
	case payloadEntryFunction:
		p.Form = FormPlain
		r.entryFunction(p)
	case payloadVersioned:
		r.variant("versioned payload", 1)
		if r.variant("executable", executableKinds) != executableEntryFunction {
			r.stop(refuse(ClassShape, ReasonPayload, "the transaction does not call an entry function"))
		}
		r.entryFunction(p)
		r.extraConfig(p)
	default:
		r.stop(refuse(ClassShape, ReasonPayload, "the transaction does not call an entry function"))
	}
}

func (r *reader) entryFunction(p *Payment) {
	p.ModuleAddress = r.address()
	if string(r.bytes()) != ModuleName {
		r.fail(refuse(ClassShape, ReasonModuleName, "the module is not %s", ModuleName))
	}
	if string(r.bytes()) != FunctionName {
		r.fail(refuse(ClassShape, ReasonFunctionName, "the function is not %s", FunctionName))
	}
	if r.uleb() != 0 {
		r.stop(refuse(ClassShape, ReasonTypeArgs, "there are type arguments"))
	}
	r.arguments(p)
}

func (r *reader) arguments(p *Payment) {
	n := r.uleb()
	var args [4][]byte
	for i := 0; i < n && r.rest != nil; i++ { // n is not trusted: stop where the bytes end
		if arg := r.bytes(); i < len(args) {
			args[i] = arg
		}
	}
	if n != len(args) {
		r.fail(refuse(ClassShape, ReasonArgs, "%d arguments, not %d", n, len(args)))
	}
	p.Amount = r.u64Argument(args[0])
	p.PaymentChannelID = r.u64Argument(args[1])
	p.Sequence = r.u64Argument(args[2])
	if copy(p.Asset[:], args[3]) != len(args[3]) || len(args[3]) != len(p.Asset) {
		r.fail(refuse(ClassShape, ReasonArgs, "the fourth argument is not an address"))
	}
}

func (r *reader) u64Argument(b []byte) uint64 {
	if len(b) != 8 {
		r.fail(refuse(ClassShape, ReasonArgs, "one of the first three arguments is not a u64"))
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) extraConfig(p *Payment) {
	r.variant("extra configuration", 1)
	if r.option("multisig address") {
		r.address()
		r.fail(refuse(ClassShape, ReasonMultisig, "there is a multisig address"))
	}
	if r.option("nonce") {
		p.Nonce = r.u64()
	} else {
		p.Form = FormSequence
	}
}

func (r *reader) secondarySigner() Address {
	n := r.uleb()
	if n != 1 {
		r.fail(refuse(ClassShape, ReasonSecondary, "%d secondary signers, not 1", n))
	}
	var first Address
	for i := 0; i < n && r.rest != nil; i++ {
		if a := r.address(); i == 0 {
			first = a
		}
	}
	return first
}

// feePayer accepts only 0x0, which stands for the account that submits the transaction: with
// another fee payer the receiver could not submit it.
func (r *reader) feePayer() {
	if !r.option("fee payer") || r.address() != (Address{}) {
		r.fail(refuse(ClassShape, ReasonFeePayer, "the fee payer is not 0x0"))
	}
}
