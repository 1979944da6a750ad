package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/bytestore"
	"sluice/metastore"
)

const (
	instanceObject = bytestore.Key("sluice-instance")
	instanceFact   = "instance"
	instanceLen    = 32 // hex digits
)

// Bind makes sure that metadata and bytes belong together, and returns the id
// that both carry. When both are empty it gives them a fresh one, the object
// first; a first start that was cut in between is finished. ErrForeignStore
// when the ids differ, or when one side lacks its id while either holds
// anything else. It belongs before New.
func Bind(ctx context.Context, meta metastore.Store, bytes bytestore.Store) (string, error) {
	inBytes, err := instanceOfBytes(ctx, bytes)
	if err != nil {
		return "", err
	}
	inMeta, err := meta.Fact(ctx, instanceFact)
	if err != nil && !errors.Is(err, metastore.ErrNotFound) {
		return "", err
	}
	if inBytes != "" && inMeta != "" {
		if inBytes != inMeta {
			return "", fmt.Errorf("%w: the metadata is of instance %s, the bytes are of instance %s", ErrForeignStore, inMeta, inBytes)
		}
		return inMeta, nil
	}
	if err := bothEmpty(ctx, meta, bytes, inMeta != "", inBytes != ""); err != nil {
		return "", err
	}
	id := inBytes + inMeta // at most one is set
	if id == "" {
		var b [instanceLen / 2]byte
		rand.Read(b[:])
		id = hex.EncodeToString(b[:])
	}
	if inBytes == "" {
		if err := bytes.Put(ctx, instanceObject, strings.NewReader(id), instanceLen); err != nil {
			return "", err
		}
	}
	if inMeta == "" {
		if err := meta.SetFact(ctx, instanceFact, id); err != nil {
			return "", err
		}
	}
	return id, nil
}

// instanceOfBytes gives the id in the byte store, empty when there is none.
func instanceOfBytes(ctx context.Context, bytes bytestore.Store) (id string, err error) {
	r, err := bytes.Open(ctx, instanceObject, 0, instanceLen)
	if errors.Is(err, bytestore.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	b := make([]byte, instanceLen)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	return string(b), nil
}

// bothEmpty refuses stores that hold anything but an instance id.
func bothEmpty(ctx context.Context, meta metastore.Store, bytes bytestore.Store, metaHasID, bytesHaveID bool) error {
	empty, err := meta.Empty(ctx)
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: there is metadata, but %s", ErrForeignStore, missing(metaHasID, bytesHaveID))
	}
	return bytes.List(ctx, "", func(o bytestore.Object) error {
		if o.Key == instanceObject {
			return nil
		}
		return fmt.Errorf("%w: there are bytes, but %s", ErrForeignStore, missing(metaHasID, bytesHaveID))
	})
}

func missing(metaHasID, bytesHaveID bool) string {
	switch {
	case metaHasID:
		return "the bytes carry no instance id"
	case bytesHaveID:
		return "the metadata carries no instance id"
	default:
		return "neither side carries an instance id"
	}
}
