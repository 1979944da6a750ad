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

// What Bind keeps the id of an instance as, on either side.
const (
	InstanceObject = bytestore.Key("sluice-instance")
	InstanceFact   = "instance"

	instanceLen = 32 // hex digits
)

// Bind makes sure that metadata and bytes belong together, and returns the id
// that both carry. When both are empty it gives them a fresh one, the object
// first; a first start that was cut in between is finished. Several nodes may be
// at it at once: they get the same id. ErrForeignStore when the ids differ, or
// when one side lacks its id while either holds anything else. It belongs before
// New.
func Bind(ctx context.Context, meta metastore.Store, bytes bytestore.Store) (string, error) {
	found, err := readInstance(ctx, meta, bytes)
	for {
		if err != nil {
			return "", err
		}
		if found.meta != "" && found.bytes != "" {
			return found.id()
		}
		id, bindErr := found.complete(ctx, meta, bytes)
		if bindErr == nil {
			return id, nil
		}
		if !errors.Is(bindErr, metastore.ErrExists) && !errors.Is(bindErr, bytestore.ErrExists) && !errors.Is(bindErr, ErrForeignStore) {
			return "", bindErr
		}
		before := found
		if found, err = readInstance(ctx, meta, bytes); err == nil && found == before {
			return "", bindErr // nobody else is at it
		}
	}
}

// instance are the ids that were found, empty where there is none.
type instance struct{ meta, bytes string }

func readInstance(ctx context.Context, meta metastore.Store, bytes bytestore.Store) (instance, error) {
	inBytes, err := instanceOfBytes(ctx, bytes)
	if err != nil {
		return instance{}, err
	}
	inMeta, err := meta.Fact(ctx, InstanceFact)
	if err != nil && !errors.Is(err, metastore.ErrNotFound) {
		return instance{}, err
	}
	return instance{meta: inMeta, bytes: inBytes}, nil
}

// id gives the id that both sides carry.
func (i instance) id() (string, error) {
	if i.meta != i.bytes {
		return "", fmt.Errorf("%w: the metadata is of instance %s, the bytes are of instance %s", ErrForeignStore, i.meta, i.bytes)
	}
	return i.meta, nil
}

// complete gives stores that are empty the id that is missing.
func (i instance) complete(ctx context.Context, meta metastore.Store, bytes bytestore.Store) (string, error) {
	if err := bothEmpty(ctx, meta, bytes, i.meta != "", i.bytes != ""); err != nil {
		return "", err
	}
	id := i.bytes + i.meta // at most one is set
	if id == "" {
		var b [instanceLen / 2]byte
		rand.Read(b[:])
		id = hex.EncodeToString(b[:])
	}
	if i.bytes == "" {
		if err := bytes.Put(ctx, InstanceObject, strings.NewReader(id), instanceLen); err != nil {
			return "", err
		}
	}
	if i.meta == "" {
		if err := meta.SetFact(ctx, InstanceFact, id); err != nil {
			return "", err
		}
	}
	return id, nil
}

// instanceOfBytes gives the id in the byte store, empty when there is none.
func instanceOfBytes(ctx context.Context, bytes bytestore.Store) (id string, err error) {
	r, err := bytes.Open(ctx, InstanceObject, 0, instanceLen)
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
		if o.Key == InstanceObject {
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
