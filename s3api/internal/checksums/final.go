package checksums

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"

	"sluice/checksum"
)

// Final is an object's checksum, as the request that completes its upload states it.
type Final struct {
	Algorithm Algorithm
	Type      Type

	text   string // with the number of parts or without
	either bool   // whether it may also be composite, as minio-go states it, without type and number
}

// Part is a part's checksum, and its size in bytes.
type Part struct {
	Value
	Size int64
}

// ParseFinal returns the checksum that a header states, or nil. Errors wrap ErrInvalidRequest.
func ParseFinal(h http.Header) (*Final, error) {
	kind, err := only(h, headerPrefix+"type")
	if err != nil {
		return nil, err
	}
	var f *Final
	for _, a := range Algorithms() {
		text, err := only(h, a.Header())
		switch {
		case err != nil:
			return nil, err
		case text == nil:
			continue
		case f != nil:
			return nil, fmt.Errorf("%w: a request must have a single x-amz-checksum- header", ErrInvalidRequest)
		}
		f = &Final{Algorithm: a, text: *text}
	}
	if f == nil {
		return nil, nil
	}
	name := ""
	if kind != nil {
		name = *kind
	}
	sum, _, composite := strings.Cut(f.text, "-")
	if !composite && name == "" && f.Algorithm != SHA1 && f.Algorithm != SHA256 {
		name, f.either = string(FullObject), f.Algorithm != CRC64NVME
	}
	if f.Type, err = ParseType(f.Algorithm, name); err != nil {
		return nil, err
	}
	if _, err = ParseValue(f.Algorithm, sum); err != nil || composite && f.Type != Composite {
		return nil, fmt.Errorf("%w: the value for %s is not a %s checksum", ErrInvalidRequest, f.Algorithm.Header(), f.Type)
	}
	return f, nil
}

// Check compares the checksum with its parts', unless its value is not stated, and returns it as
// S3 writes it. It returns ErrBadDigest, or an error that wraps ErrInvalidRequest if it does not
// follow from the parts'.
func (f *Final) Check(parts []Part) (string, error) {
	want, err := f.of(parts)
	sum, _, _ := strings.Cut(want, "-")
	differs := f.text != "" && f.text != want && f.text != sum
	switch {
	case f.either && differs:
		f.Type, f.either = Composite, false
		return f.Check(parts)
	case err != nil:
		return "", err
	case differs:
		return "", fmt.Errorf("%w: the %s does not match the parts", ErrBadDigest, f.Algorithm)
	}
	return want, nil
}

// of returns the checksum of parts.
func (f *Final) of(parts []Part) (string, error) {
	if f.Type == Composite {
		values := make([]Value, len(parts))
		for i := range parts {
			values[i] = parts[i].Value
		}
		return CompositeOf(f.Algorithm, values), nil
	}
	whole := make([]byte, f.Algorithm.Size())
	var combiner checksum.Combiner
	for _, p := range parts {
		switch f.Algorithm {
		case CRC32, CRC32C:
			polynomial := uint32(crc32.IEEE)
			if f.Algorithm == CRC32C {
				polynomial = crc32.Castagnoli
			}
			binary.BigEndian.PutUint32(whole, checksum.Combine32(polynomial, binary.BigEndian.Uint32(whole), binary.BigEndian.Uint32(p.Sum), p.Size))
		case CRC64NVME:
			binary.BigEndian.PutUint64(whole, combiner.Combine(binary.BigEndian.Uint64(whole), binary.BigEndian.Uint64(p.Sum), p.Size))
		default:
			return "", fmt.Errorf("%w: a %s of the whole object does not follow from its parts'", ErrInvalidRequest, f.Algorithm)
		}
	}
	return Value{f.Algorithm, whole}.String(), nil
}
