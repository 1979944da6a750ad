package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/bytestore"
	"sluice/history"
	"sluice/storage"
)

// copyMarkers are the ids that an endpoint carries, each "" if there is none.
type copyMarkers struct {
	instanceObject string // history.InstanceObject: the instance that the bytes belong to
	copyObject     string // history.CopyObject: the instance that is being restored here
	property       string // history.InstanceProperty: the instance, or history.CopyOf it
	properties     int    // number of properties in the metadata
}

func readMarkers(ctx context.Context, e *storage.Endpoint) (copyMarkers, error) {
	found, err := readByteMarkers(ctx, e.Bytes)
	if err != nil {
		return copyMarkers{}, err
	}
	properties, err := e.SQL.Properties(ctx)
	found.property, found.properties = properties[history.InstanceProperty], len(properties)
	return found, err
}

func readByteMarkers(ctx context.Context, bytes bytestore.Store) (found copyMarkers, err error) {
	if found.instanceObject, err = history.ReadID(ctx, bytes.Open, history.InstanceObject); err != nil {
		return copyMarkers{}, err
	}
	found.copyObject, err = history.ReadID(ctx, bytes.Open, history.CopyObject)
	return found, err
}

// markBytes marks empty bytes with the instance's id. It does nothing if they contain its
// unfinished copy, or belong to it: then markMeta decides.
func (r *restorer) markBytes(ctx context.Context, bytes bytestore.Store) error {
	found, err := readByteMarkers(ctx, bytes)
	switch {
	case err != nil:
		return err
	case found.instanceObject != "" && found.instanceObject != r.id:
		return fmt.Errorf("it is the instance %s: restore to an empty place", found.instanceObject)
	case found.copyObject != "" && found.copyObject != r.id:
		return fmt.Errorf("it contains an unfinished copy of the instance %s, not of %s: empty it, or restore to another place", found.copyObject, r.id)
	case found.copyObject != "" || found.instanceObject != "":
		return nil
	}
	if err := bytes.List(ctx, "", func(o bytestore.Object) error {
		return fmt.Errorf("it has bytes already, such as the object %s: restore to an empty place", o.Name)
	}); err != nil {
		return err
	}
	if err := bytes.Put(ctx, history.CopyObject, strings.NewReader(r.id), int64(len(r.id))); err != nil {
		return err
	}
	r.marked = true
	return nil
}

// markMeta marks empty metadata with the instance's id, or checks that it is marked. It reports
// whether the target is the restored instance.
func (r *restorer) markMeta(ctx context.Context) (existed bool, err error) {
	found, err := readMarkers(ctx, r.target)
	if err != nil {
		return false, err
	}
	source, copying := strings.CutPrefix(found.property, history.CopyOf(""))
	switch {
	case found.property == r.id && found.instanceObject == r.id:
		return true, nil
	case copying && source != r.id:
		return false, fmt.Errorf("it contains an unfinished copy of the instance %s, not of %s: empty it, or restore to another place", source, r.id)
	case copying && r.marked:
		return false, errors.New("its metadata belongs to an unfinished copy that has its bytes in another place: name that place, or empty the metadata")
	case !copying && found.property != "":
		return false, fmt.Errorf("it is the instance %s: restore to an empty place", found.property)
	case found.copyObject != r.id:
		return false, fmt.Errorf("its bytes belong to the instance %s: restore to an empty place", found.instanceObject)
	case copying:
		return false, nil
	}
	if err := r.requireEmptyMeta(ctx, found); err != nil {
		return false, err
	}
	return false, r.target.Meta.SetProperty(ctx, history.InstanceProperty, history.CopyOf(r.id))
}

// requireEmptyMeta returns an error if the target's metadata is not empty.
func (r *restorer) requireEmptyMeta(ctx context.Context, found copyMarkers) error {
	empty, err := r.target.Meta.Empty(ctx)
	if err != nil {
		return err
	}
	keys, err := r.target.Meta.ListKeys(ctx, "", 1)
	if err != nil {
		return err
	}
	if !empty || len(keys) > 0 || found.properties > 0 {
		return errors.New("it has metadata already: restore to an empty place")
	}
	return nil
}

// wrongID returns how the object with the bytes' id differs from the metadata's id, or "".
func wrongID(ctx context.Context, e *storage.Endpoint) (string, error) {
	id, err := e.SQL.Property(ctx, history.InstanceProperty)
	if err != nil || strings.HasPrefix(id, history.CopyOf("")) {
		return "", err
	}
	have, err := history.ReadID(ctx, e.Bytes.Open, history.InstanceObject)
	switch {
	case errors.Is(err, bytestore.ErrTruncated):
		return fmt.Sprintf("the object %s is cut; it should have the id of the instance %s", history.InstanceObject, id), nil
	case err != nil:
		return "", err
	case have == id:
		return bytesBehindID(ctx, e.Bytes.Open, id)
	case have == "":
		return fmt.Sprintf("the bytes lack the object %s, by which they belong to the instance %s", history.InstanceObject, id), nil
	}
	return fmt.Sprintf("by the object %s the bytes belong to the instance %q, and the metadata belong to %s", history.InstanceObject, have, id), nil
}

// bytesBehindID returns that the object with the bytes' id has more than the id, or "".
func bytesBehindID(ctx context.Context, open bytestore.OpenFunc, id string) (string, error) {
	r, err := open(ctx, history.InstanceObject, int64(len(id)), 1)
	if err == nil {
		_, err = bytestore.ReadFull(r, make([]byte, 1))
		err = errors.Join(err, r.Close())
	}
	switch {
	case errors.Is(err, bytestore.ErrTruncated):
		return "", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("the object %s has bytes behind the id of the instance %s", history.InstanceObject, id), nil
}

// writeID makes the bytes the instance's, which its objects must prove. If it is interrupted, the
// object is missing, and the next recovery writes it.
func writeID(ctx context.Context, e *storage.Endpoint, found storage.Differences) error {
	if found.Objects > 0 && found.Missing == found.Objects || found.Objects == 0 && found.Unknown > 0 {
		return fmt.Errorf("the bytes have %d objects to which the metadata do not refer, and none of %d to which they do: they belong to another instance", found.Unknown, found.Objects)
	}
	id, err := e.SQL.Property(ctx, history.InstanceProperty)
	if err == nil {
		err = e.Bytes.Delete(ctx, history.InstanceObject)
	}
	if err == nil {
		err = e.Bytes.Put(ctx, history.InstanceObject, strings.NewReader(id), int64(len(id)))
	}
	return err
}
