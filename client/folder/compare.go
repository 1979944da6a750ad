package folder

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/client/folder/tree"
)

// sameContent reports whether a file has a blob's size and ETag.
func sameContent(ctx context.Context, f *os.File, b *client.Blob) (bool, error) {
	size, err := tree.SizeOf(f)
	if err != nil {
		return false, err
	}
	_, _, known := checksum.ParseETag(b.ETag)
	if size >= 0 && size != b.Size || !known {
		return false, nil
	}
	etag, err := etagOf(ctx, f)
	return etag == b.ETag, err
}

// etagOf returns the ETag of a blob with a file's content.
func etagOf(ctx context.Context, f *os.File) (string, error) {
	var crc uint64
	size := int64(0)
	buffer := make([]byte, 256<<10)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.ReadAt(buffer, size)
		crc, size = checksum.Update(crc, buffer[:n]), size+int64(n)
		if errors.Is(err, io.EOF) {
			return checksum.ETag(size, crc), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// sameProperties reports whether a blob that was listed with its metadata has the properties of o.
// A list has no locks, so it never has one.
func sameProperties(o *client.PutOptions, b *client.Blob) bool {
	meta := map[string]string{}
	for name, value := range o.Metadata {
		meta[strings.ToLower(name)] = value
	}
	return o.Lock == client.Lock{} && o.ContentType == b.ContentType && o.CacheControl == b.CacheControl && o.ContentDisposition == b.ContentDisposition &&
		o.ContentLanguage == b.ContentLanguage && maps.Equal(meta, b.Metadata) && o.Expires.Truncate(time.Millisecond).Equal(b.Expires.Truncate(time.Millisecond))
}
