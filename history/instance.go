package history

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"sluice/bytestore"
	"sluice/database"
)

// Errors of Bind. They are returned wrapped; use errors.Is to test for them.
var (
	// ErrForeignStore is returned if metadata and bytes belong to different instances.
	ErrForeignStore = errors.New("metadata and bytes do not belong together")

	// ErrUnfinishedCopy is returned if the stores hold an unfinished copy of another instance.
	ErrUnfinishedCopy = errors.New("the stores hold an unfinished copy")
)

// How an instance is identified in the metadata and in the bytes.
const (
	// InstanceProperty is the property that holds the metadata's id, which the first start made, or
	// CopyOf an id while a copy is being made.
	InstanceProperty = "instance"

	// InstanceObject is the object that holds the metadata's id, so that the bytes belong to it.
	InstanceObject = bytestore.Name("sluice-instance")

	// CopyObject is the object that marks bytes which are being copied. It holds the id of their
	// source while they are copied.
	CopyObject = bytestore.Name("sluice-migration")

	instanceLen = 32 // hex digits
	copyOf      = "copy of "
)

// CopyOf returns the value of InstanceProperty while the instance is being copied.
func CopyOf(id string) string { return copyOf + id }

// Bind ensures that metadata and bytes belong to one instance, and returns the instance's id, which
// both hold. If both are empty it makes an id. The id is first recorded in the metadata, which
// alone decides on it, and then put into the bytes, where the first of several databases wins. An
// interrupted first start is therefore completed by the next start with the same metadata, and only
// by that, and several nodes of one database may start concurrently.
//
// Bind returns ErrForeignStore if the ids differ, if the metadata has no id and there are bytes, or
// if the bytes have no id and either store holds anything else. It returns ErrUnfinishedCopy if a
// copy is being made or was interrupted. It must be called before New.
func Bind(ctx context.Context, meta database.Properties, bytes bytestore.Store) (string, error) {
	found, err := readInstance(ctx, meta, bytes)
	for {
		if err == nil {
			err = found.mismatch()
		}
		if err != nil || found.bytes != "" {
			return found.meta, err
		}
		stepErr := found.complete(ctx, meta, bytes)
		if stepErr != nil && !errors.Is(stepErr, database.ErrExists) && !errors.Is(stepErr, bytestore.ErrExists) && !errors.Is(stepErr, ErrForeignStore) {
			return "", stepErr
		}
		before := found
		if found, err = readInstance(ctx, meta, bytes); err == nil && found == before {
			return "", stepErr // no other node changed anything
		}
	}
}

// instance holds the ids that were found, or "".
type instance struct{ meta, bytes, copied string }

// readInstance reads the bytes first: if they hold an id, the metadata held it before.
func readInstance(ctx context.Context, meta database.Properties, bytes bytestore.Store) (instance, error) {
	var found instance
	var err error
	if found.bytes, err = ReadID(ctx, bytes.Open, InstanceObject); errors.Is(err, bytestore.ErrTruncated) {
		err = fmt.Errorf("%w; if these are the metadata's bytes, sluice recover writes the object %s anew", err, InstanceObject)
	}
	if err != nil {
		return instance{}, err
	}
	if found.copied, err = ReadID(ctx, bytes.Open, CopyObject); err != nil {
		return instance{}, err
	}
	found.meta, err = meta.Property(ctx, InstanceProperty)
	if err != nil && !errors.Is(err, database.ErrNotFound) {
		return instance{}, err
	}
	return found, nil
}

// mismatch returns why the stores are not, and cannot become, one instance. Whether they are empty
// is checked by complete.
func (i instance) mismatch() error {
	source, copying := strings.CutPrefix(i.meta, copyOf)
	switch {
	case copying:
		return unfinished(source)
	case i.meta == "" && i.copied != "":
		return unfinished(i.copied)
	case i.meta == "" && i.bytes != "":
		return fmt.Errorf("%w: there are bytes, but the metadata has no instance id: use the metadata of the instance %s, or another location for the bytes", ErrForeignStore, i.bytes)
	case i.bytes != "" && i.meta != i.bytes:
		return fmt.Errorf("%w: the metadata belongs to instance %s, the bytes belong to instance %s; if these are its bytes, sluice recover writes the object %s anew", ErrForeignStore, i.meta, i.bytes, InstanceObject)
	}
	return nil
}

func unfinished(source string) error {
	return fmt.Errorf("%w of the instance %s: run the same sluice restore command again to finish it, or empty both of its parts", ErrUnfinishedCopy, source)
}

// complete performs a first start's next step: it makes the metadata's id, or puts it into the
// bytes.
func (i instance) complete(ctx context.Context, meta database.Properties, bytes bytestore.Store) error {
	if err := bothEmpty(ctx, meta, bytes, i.meta != ""); err != nil {
		return err
	}
	if i.meta != "" {
		return bytes.Put(ctx, InstanceObject, strings.NewReader(i.meta), instanceLen)
	}
	return meta.SetProperty(ctx, InstanceProperty, newID())
}

// newID returns a random id of instanceLen hex digits.
func newID() string {
	var b [instanceLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ReadID reads an object that holds an id of 32 characters. It returns "" if there is no such
// object.
func ReadID(ctx context.Context, open bytestore.OpenFunc, name bytestore.Name) (id string, err error) {
	r, err := open(ctx, name, 0, instanceLen)
	if errors.Is(err, bytestore.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	b := make([]byte, instanceLen)
	if _, err := bytestore.ReadFull(r, b); err != nil {
		return "", err
	}
	return string(b), nil
}

// RequireInstance returns an error unless a store has the object that identifies the instance.
func RequireInstance(ctx context.Context, open bytestore.OpenFunc, instance string) error {
	got, err := ReadID(ctx, open, InstanceObject)
	if err == nil && got == "" {
		err = fmt.Errorf("%w: the store has no object %s: it may not be mounted, or has lost everything", ErrForeignStore, InstanceObject)
	}
	if err == nil && got != instance {
		err = fmt.Errorf("%w: the store belongs to the instance %s, not to %s", ErrForeignStore, got, instance)
	}
	return err
}

// bothEmpty returns ErrForeignStore if the stores hold anything but an instance id.
func bothEmpty(ctx context.Context, meta database.Properties, bytes bytestore.Store, metaHasID bool) error {
	missing := "neither the metadata nor the bytes have an instance id"
	if metaHasID {
		missing = "the bytes have no instance id"
	}
	empty, err := meta.Empty(ctx)
	if err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: there is metadata, but %s; if these are its bytes, sluice recover writes the object %s anew", ErrForeignStore, missing, InstanceObject)
	}
	return bytes.List(ctx, "", func(o bytestore.Object) error {
		if o.Name == InstanceObject {
			return nil
		}
		return fmt.Errorf("%w: there are bytes, but %s", ErrForeignStore, missing)
	})
}
