package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// contractError wraps the client's error in the contract's error that it means:
// bytestore.ErrOverloaded if a retry may succeed.
func contractError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	response := minio.ToErrorResponse(err)
	switch {
	case response.StatusCode == 0: // there was no response
	case strings.HasPrefix(response.Code, strconv.Itoa(response.StatusCode)): // a response without an error code
		err = fmt.Errorf("the object store responded with %w", err)
	default:
		err = fmt.Errorf("the object store responded with %d %s: %w", response.StatusCode, response.Code, err)
	}
	var untrusted *tls.CertificateVerificationError
	switch {
	case response.Code == minio.NoSuchBucket, errors.As(err, &untrusted):
		return err
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", bytestore.ErrNotFound, err)
	case response.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", bytestore.ErrExists, err)
	case response.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: %w", bytestore.ErrTruncated, err)
	case isFull(response):
		return fmt.Errorf("%w: %w", bytestore.ErrNoSpace, err)
	case retryable(response):
		return fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
	}
	return err
}

// isFull reports whether the server or the quota of its user is full. There is no standard code for
// that.
func isFull(response minio.ErrorResponse) bool {
	switch response.Code {
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "NoSpaceLeftOnDevice":
		return true
	}
	return response.StatusCode == http.StatusInsufficientStorage
}

// retryable reports whether the same request may succeed later: it was throttled, failed inside the
// server, or got no response.
func retryable(response minio.ErrorResponse) bool {
	switch response.StatusCode {
	case 0, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return response.StatusCode >= 500 && response.StatusCode != http.StatusNotImplemented
}

func truncated(off, n, size int64) error {
	return fmt.Errorf("%w: %d bytes at %d of %d", bytestore.ErrTruncated, n, off, size)
}
