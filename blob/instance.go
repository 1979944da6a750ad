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

// What an instance is known by, on either side.
const (
	// InstanceProperty is the fact that holds the id of the metadata, which its first
	// start made, or CopyOf an id while a copy is being made there.
	InstanceProperty = "instance"
	// InstanceObject is the object that names the metadata to which the bytes
	// belong, by its id.
	InstanceObject = bytestore.Key("sluice-instance")
	// CopyObject is the object that marks bytes which are being copied from the
	// instance whose id it holds.
	CopyObject = bytestore.Key("sluice-migration")

	instanceLen = 32 // hex digits
	copyOf      = "copy of "
)

// CopyOf is the value of InstanceProperty while a copy of the instance is being made.
func CopyOf(id string) string { return copyOf + id }

// Bind makes sure that metadata and bytes belong together, and returns the id of
// the metadata, which the bytes carry as well. Where both are empty it makes an
// id. The metadata gets it first and alone decides on it; then it is put into the
// bytes, where the first of several databases wins. So a first start that was cut
// is finished by the next one with the same metadata and by no other, and several
// nodes of one database may start at once.
//
// ErrForeignStore when the ids differ, when the metadata has none and there are
// bytes, and when the bytes have none while either side holds anything else.
// ErrUnfinishedCopy when a copy is being made there, or was not finished. Bind
// must come before New.
func Bind(ctx context.Context, meta metastore.Store, bytes bytestore.Store) (string, error) {
	found, err := readInstance(ctx, meta, bytes)
	for {
		if err == nil {
			err = found.refusal()
		}
		if err != nil || found.bytes != "" {
			return found.meta, err
		}
		stepErr := found.complete(ctx, meta, bytes)
		if stepErr != nil && !errors.Is(stepErr, metastore.ErrExists) && !errors.Is(stepErr, bytestore.ErrExists) && !errors.Is(stepErr, ErrForeignStore) {
			return "", stepErr
		}
		before := found
		if found, err = readInstance(ctx, meta, bytes); err == nil && found == before {
			return "", stepErr // no other node changed anything
		}
	}
}

// instance are the ids that were found, empty where there is none.
type instance struct{ meta, bytes, copied string }

// readInstance reads the bytes first: an id that is found there was in its
// metadata before.
func readInstance(ctx context.Context, meta metastore.Store, bytes bytestore.Store) (instance, error) {
	var found instance
	var err error
	if found.bytes, err = ReadID(ctx, bytes, InstanceObject); err != nil {
		return instance{}, err
	}
	if found.copied, err = ReadID(ctx, bytes, CopyObject); err != nil {
		return instance{}, err
	}
	found.meta, err = meta.Property(ctx, InstanceProperty)
	if err != nil && !errors.Is(err, metastore.ErrNotFound) {
		return instance{}, err
	}
	return found, nil
}

// refusal is why the stores are not, and cannot become, one instance. That
// either is empty is for complete to find out.
func (i instance) refusal() error {
	source, copying := strings.CutPrefix(i.meta, copyOf)
	switch {
	case copying:
		return unfinished(source)
	case i.meta == "" && i.copied != "":
		return unfinished(i.copied)
	case i.meta == "" && i.bytes != "":
		return fmt.Errorf("%w: there are bytes, but the metadata carries no instance id: name the metadata of the instance %s, or another place for the bytes", ErrForeignStore, i.bytes)
	case i.bytes != "" && i.meta != i.bytes:
		return fmt.Errorf("%w: the metadata is of instance %s, the bytes are of instance %s", ErrForeignStore, i.meta, i.bytes)
	}
	return nil
}

func unfinished(source string) error {
	return fmt.Errorf("%w of the instance %s: run the same sluice clone command again to finish it, or empty both of its parts", ErrUnfinishedCopy, source)
}

// complete takes the next step of a first start: it makes the id of the metadata,
// or puts it into the bytes.
func (i instance) complete(ctx context.Context, meta metastore.Store, bytes bytestore.Store) error {
	if err := bothEmpty(ctx, meta, bytes, i.meta != ""); err != nil {
		return err
	}
	if i.meta != "" {
		return bytes.Put(ctx, InstanceObject, strings.NewReader(i.meta), instanceLen)
	}
	var b [instanceLen / 2]byte
	rand.Read(b[:])
	return meta.SetProperty(ctx, InstanceProperty, hex.EncodeToString(b[:]))
}

// ReadID reads an object that holds an id of 32 characters; the id is empty when
// there is no such object.
func ReadID(ctx context.Context, bytes bytestore.Store, key bytestore.Key) (id string, err error) {
	r, err := bytes.Open(ctx, key, 0, instanceLen)
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
func bothEmpty(ctx context.Context, meta metastore.Store, bytes bytestore.Store, metaHasID bool) error {
	missing := "neither side carries an instance id"
	if metaHasID {
		missing = "the bytes carry no instance id"
	}
	empty, err := meta.Empty(ctx)
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: there is metadata, but %s", ErrForeignStore, missing)
	}
	return bytes.List(ctx, "", func(o bytestore.Object) error {
		if o.Key == InstanceObject {
			return nil
		}
		return fmt.Errorf("%w: there are bytes, but %s", ErrForeignStore, missing)
	})
}
