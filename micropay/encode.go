package micropay

import (
	"slices"
)

// signingPrefix is SHA3-256("APTOS::RawTransactionWithData") and the variant's number, with
// secondary signers and a fee payer.
const signingPrefix = "\x5e\xfa\x3c\x4f\x02\xf8\x3a\x0f\x4b\x2d\x69\xfc\x95\xc6\x07\xcc" +
	"\x02\x82\x5c\xc4\xe7\xbe\x53\x6e\xf0\x99\x2d\xf0\x50\xd9\xe6\x7c" + "\x01"

// signingMessage assembles the message from the encoded bytes, so that the received bytes are
// verified. signed is where the fee payer's option tag stands. The tag is not signed, and decode
// accepts only one value for it.
func signingMessage(raw []byte, signed int) []byte {
	return slices.Concat([]byte(signingPrefix), raw[:signed], raw[signed+1:][:len(Address{})])
}

// append encodes a micropayment without its authenticator. signed is where the fee payer's option
// tag stands.
func (p *Payment) append(b []byte) (encoded []byte, signed int) {
	b = append(b, p.Sender[:]...)
	b = appendU64(b, p.AccountSequence)
	if p.Form == FormPlain {
		b = append(b, payloadEntryFunction)
	} else {
		b = append(b, payloadVersioned, 0, executableEntryFunction)
	}
	b = append(b, p.ModuleAddress[:]...)
	b = appendBytes(b, ModuleName)
	b = appendBytes(b, FunctionName)
	b = append(b, 0, 4)
	for _, argument := range []uint64{p.Amount, p.PaymentChannelID, p.Sequence} {
		b = appendU64(append(b, 8), argument)
	}
	b = appendBytes(b, string(p.Asset[:]))
	switch p.Form {
	case FormNonce:
		b = appendU64(append(b, 0, 0, 1), p.Nonce)
	case FormSequence:
		b = append(b, 0, 0, 0)
	}
	b = appendU64(b, p.MaxGas)
	b = appendU64(b, p.GasPrice)
	b = appendU64(b, p.Expiration)
	b = append(b, p.ChainID, 1)
	b = append(b, p.Receiver[:]...)
	signed = len(b)
	var anyone Address
	return append(append(b, 1), anyone[:]...), signed
}
