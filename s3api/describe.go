package s3api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/wire"
)

// described is how a request describes its blob.
type described struct {
	contentType string
	metadata    string
	expires     time.Time
	lock        metastore.Lock
}

// describe parses the header fields that describe the blob with this key.
func (s *Server) describe(x *call, key string, h http.Header) (d described, err error) {
	if err := s.refuseForeign(x, key, h); err != nil {
		return d, err
	}
	if d.contentType, err = exchange.ContentType(h.Values("Content-Type")); err != nil {
		return d, refuseWith("InvalidArgument", wire.CodeBadHeader, "Content-Type %s", err.Error())
	}
	metadata, err := metadataOf(h)
	if err != nil {
		return d, err
	}
	tags, err := headerTags(h)
	if err != nil {
		return d, err
	}
	d.metadata = withTags(metadata, tags)
	if d.expires, err = s.expiry(h.Get(fieldExpiration)); err != nil {
		return d, err
	}
	d.lock, err = x.statedLock(key, h)
	return d, err
}

// expiry returns when a blob expires that is stored now.
func (s *Server) expiry(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Time{}, nil
	}
	const most = 100 * 365 * 24 * 3600
	n, err := strconv.ParseUint(seconds, 10, 63)
	if err != nil || n == 0 || n > most {
		return time.Time{}, refuseWith("InvalidArgument", wire.CodeBadHeader, "x-amz-meta-expiration-seconds must be a number from 1 to %d", int64(most))
	}
	return s.blobs.Now().Add(time.Duration(n) * time.Second).UTC().Truncate(time.Microsecond), nil
}

// storageClasses are the storage classes that a request may ask for, as the type StorageClass of
// Amazon's model has them. Every object's class is STANDARD.
var storageClasses = []string{
	storageClass, "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE",
	"OUTPOSTS", "GLACIER_IR", "SNOW", "EXPRESS_ONEZONE", "FSX_OPENZFS", "FSX_ONTAP", "AWS_BACKUP_WARM",
	"AWS_BACKUP_LOW_COST_WARM",
}

// refuseForeign refuses the access lists and storage classes that this interface does not have.
// fieldsOf and checkField refuse other fields.
func (s *Server) refuseForeign(x *call, key string, h http.Header) error {
	switch acl := h.Get("X-Amz-Acl"); acl {
	case "", "private", "bucket-owner-full-control":
	case "public-read":
		if key == "" { // of a bucket: see setBucketList
			break
		}
		rules, err := s.places.Account(x.Request.Context(), x.account)
		switch {
		case err != nil:
			return err
		case rules.At(key).Reads != access.ReadsPublic:
			return noAccessList("reads here need a key, so nothing can be public-read")
		}
	default:
		return noAccessList("the only access lists are private, bucket-owner-full-control and, where everybody may read, public-read")
	}
	if class := h.Get("X-Amz-Storage-Class"); class != "" && !slices.Contains(storageClasses, class) {
		return refuseWith("InvalidStorageClass", wire.CodeBadHeader, "the storage class must be one of %s", strings.Join(storageClasses, ", "))
	}
	return nil
}

// encryption is the only algorithm, with keys that the client does not see.
const encryption = "AES256"

// encryptedReplies are the operations that report an object's or a part's encryption.
var encryptedReplies = []string{
	"CompleteMultipartUpload", "CopyObject", "CreateMultipartUpload", "GetObject", "HeadObject", "PostObject", "PutObject", "UploadPart", "UploadPartCopy",
}

// checkEncryption refuses a request for encryption that the operator has not declared.
func (s *Server) checkEncryption(h http.Header) error {
	switch algorithm := h.Get(fieldEncryption); {
	case algorithm == "", algorithm == encryption && s.encrypted:
		return nil
	case algorithm == encryption:
		return refuseWith("InvalidRequest", wire.CodeBadHeader, "the operator has not declared that stored bytes are encrypted")
	default:
		return refuseWith("InvalidEncryptionAlgorithmError", wire.CodeBadHeader, "the only encryption is AES256")
	}
}

// noAccessList returns Amazon's error for buckets without access lists.
func noAccessList(reason string) error {
	return refuseWith("AccessControlListNotSupported", wire.CodeBadHeader, "%s", reason)
}

// checkOwner refuses a request that expects another owner of an account's bucket, as ownerOf has
// it.
func checkOwner(h http.Header, name, account string) error {
	if expected := h.Get(name); expected != "" && expected != account {
		return refuseWith("AccessDenied", wire.CodeAccountForbidden, "the bucket has another owner than %s states", strings.ToLower(name))
	}
	return nil
}
