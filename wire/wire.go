// Package wire defines the JSON bodies, header names and error codes that client and server share.
// It contains no logic.
//
// A member without a value is omitted, never null; zero, false and empty lists are values and are
// always present. Amounts of money, and the numbers of channels and payments, are decimal strings.
package wire

import (
	_ "embed"
	"time"
)

// OpenAPI describes the interface as an OpenAPI 3.1 document in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte

// OpenAPIServer is the server address in OpenAPI, which an instance replaces by its own.
const OpenAPIServer = "http://localhost:9090"

// Units, in bytes.
const (
	ChunkSize    = 1 << 20        // a chunk
	ChunksetSize = 10 * ChunkSize // a chunkset: the unit in which reads are metered
)

// Limits that no configuration changes. Package blob has the limits for blobs, parts and names.
const (
	DefaultPartSize = 1 << 20  // a part's bytes if the request that begins an upload states none
	MaxJSONBody     = 64 << 10 // a JSON body's bytes
	MaxHeaderBytes  = 32 << 10 // a request's header section, in bytes
	MaxPageSize     = 1_000    // a page's entries

	MaxBlobMeta           = 2 << 10 // a blob's custom headers in bytes: all names (with HeaderBlobMeta) and values
	MaxBlobMetaHeaders    = 32      // a blob's custom headers, because proxies accept about 64 headers in a response
	MaxCacheControl       = 255     // a blob's Cache-Control in bytes
	MaxContentDisposition = 1 << 10 // a blob's Content-Disposition in bytes
	MaxContentLanguage    = 255     // a blob's Content-Language in bytes
)

// Names of headers.
const (
	HeaderRequestID         = "X-Request-Id"
	HeaderErrorCode         = "Error-Code" // of an error: its Code, for HEAD, which has no body
	HeaderChunksetsLeft     = "Chunksets-Left"
	HeaderAPIKey            = "X-Api-Key"
	HeaderSessionID         = "Session-Id"
	HeaderMicropayment      = "X-Shelby-Micropayment"
	HeaderMaxChunksets      = "Max-Chunksets"
	HeaderMaxChunksetPrice  = "Max-Chunkset-Price"
	HeaderChunksetsCharged  = "Chunksets-Charged"
	HeaderChunksetsRequired = "Chunksets-Required"
	HeaderChunksetPrice     = "Chunkset-Price"
	HeaderBlobExpires       = "Blob-Expires"
	HeaderIdempotencyKey    = "Idempotency-Key"
	HeaderContentDigest     = "Content-Digest"
	HeaderReprDigest        = "Repr-Digest"
	HeaderFault             = "Sluice-Fault" // a fault's rule for this request; only on a local instance
	HeaderBlobMeta          = "Blob-Meta-"   // begins the names of a blob's custom headers
	HeaderBlobVersion       = "Blob-Version" // the version's id that was made or read
	HeaderBlobDeleted       = "Blob-Deleted" // "true": the version marks that the blob was deleted
	HeaderRetainMode        = "Blob-Retain-Mode"
	HeaderRetainUntil       = "Blob-Retain-Until"
	HeaderHold              = "Blob-Hold"         // "true": the version has a legal hold
	HeaderBypass            = "Bypass-Governance" // "true": the request may end a retention early
)

// Blob is an entry in a listing.
type Blob struct {
	Name         string    `json:"name"`
	Size         int64     `json:"size"`
	ETag         string    `json:"etag,omitempty"`        // empty: shown only to who may read
	ContentType  string    `json:"contentType,omitempty"` // empty: shown only to who may read
	LastModified time.Time `json:"lastModified"`
	Expires      time.Time `json:"expires,omitzero"`

	// Only with include=metadata, if the writer stated them.
	CacheControl       string `json:"cacheControl,omitempty"`
	ContentDisposition string `json:"contentDisposition,omitempty"`
	ContentLanguage    string `json:"contentLanguage,omitempty"`
	// Metadata is the custom headers: names in lower case without HeaderBlobMeta.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// BlobPage is a listing's page.
type BlobPage struct {
	Blobs    []Blob   `json:"blobs"`
	Prefixes []string `json:"prefixes"`
	Next     string   `json:"next,omitempty"`
}

// Version is an entry in a list of versions: a blob as it was committed once, or a mark.
type Version struct {
	Blob

	Version string    `json:"version"`        // its id
	Current bool      `json:"current"`        // reads return it
	Deleted bool      `json:"deleted"`        // it marks that the blob was deleted, and has no bytes
	By      string    `json:"by,omitempty"`   // the key's id that wrote it, or that deleted the blob
	Since   time.Time `json:"since,omitzero"` // when it ceased to be current
	Until   time.Time `json:"until,omitzero"` // until when it is kept; absent: without limit
	Lock
}

// Retention keeps a version until a time.
type Retention struct {
	Mode  string    `json:"mode"` // "governance" or "compliance"
	Until time.Time `json:"until"`
}

// Lock is a version's lock.
type Lock struct {
	Retention *Retention `json:"retention,omitempty"`
	Hold      bool       `json:"hold,omitzero"` // a legal hold
}

// SetLock is the request that changes a version's lock. An absent member stays as it is; null as
// Retention ends it.
type SetLock struct {
	Retention *Retention `json:"retention,omitempty"`
	Hold      *bool      `json:"hold,omitempty"`
}

// VersionPage is a page in a list of versions.
type VersionPage struct {
	Versions []Version `json:"versions"`
	Prefixes []string  `json:"prefixes"`
	// Next and NextVersion are the next page's parameters after and afterVersion.
	Next        string `json:"next,omitempty"`
	NextVersion string `json:"nextVersion,omitempty"`
}

// BlobName names the blob to which another is copied or moved.
type BlobName struct {
	Account  *string `json:"account,omitempty"` // nil: the source's
	BlobName *string `json:"blobName,omitempty"`
}

// CopyBlob is the request that copies or moves a blob. It has exactly one of CopyTo and MoveTo.
type CopyBlob struct {
	CopyTo *BlobName `json:"copyTo,omitempty"`
	MoveTo *BlobName `json:"moveTo,omitempty"`

	// Conditions on the destination, in the syntax of the headers.
	IfMatch     *string `json:"ifMatch,omitempty"`
	IfNoneMatch *string `json:"ifNoneMatch,omitempty"`

	Expires *string `json:"expires,omitempty"` // the copy's; nil: never
	Lock            // the destination's

	// ReplaceMetadata replaces the source's content type and metadata by the members below.
	ReplaceMetadata    *bool   `json:"replaceMetadata,omitempty"`
	ContentType        *string `json:"contentType,omitempty"`
	CacheControl       *string `json:"cacheControl,omitempty"`
	ContentDisposition *string `json:"contentDisposition,omitempty"`
	ContentLanguage    *string `json:"contentLanguage,omitempty"`
	// Metadata is the custom headers: names in lower case without HeaderBlobMeta.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// CopiedBlob is the response to CopyBlob: the destination. A repeated move's recorded result has
// nothing that the writer stated.
type CopiedBlob struct {
	Account string `json:"account"`
	Blob
}

// Account is an entry in the list of accounts.
type Account struct {
	Account string `json:"account"`
	Blobs   int64  `json:"blobs"` // number of its blobs
	Bytes   int64  `json:"bytes"` // of their contents

	Versions     int64 `json:"versions,omitzero"`     // kept ones that are not current, marks included
	VersionBytes int64 `json:"versionBytes,omitzero"` // of their contents
}

// AccountPage is a page in the list of accounts.
type AccountPage struct {
	Accounts []Account `json:"accounts"`
	Next     string    `json:"next,omitempty"`
}

// BeginUpload is the request that begins a multipart upload. The first three members are the public
// client's.
type BeginUpload struct {
	RawAccount  *string `json:"rawAccount"`
	RawBlobName *string `json:"rawBlobName"`
	RawPartSize *int64  `json:"rawPartSize"`
	ContentType string  `json:"contentType"`
	Expires     string  `json:"expires"`
	IfNoneMatch string  `json:"ifNoneMatch"`

	CacheControl       string `json:"cacheControl"`
	ContentDisposition string `json:"contentDisposition"`
	ContentLanguage    string `json:"contentLanguage"`
	// Metadata is the custom headers: names in lower case without HeaderBlobMeta.
	Metadata map[string]string `json:"metadata"`
	Lock                       // the blob's
}

// UploadBegun is the response to BeginUpload.
type UploadBegun struct {
	UploadID string `json:"uploadId"`
}

// CompleteUpload is the optional request body that completes an upload.
type CompleteUpload struct {
	TotalBytes *int64  `json:"totalBytes"`
	ETag       *string `json:"etag"`
}

// Success is the response to a part and to CompleteUpload.
type Success struct {
	Success bool `json:"success"`
}

// Part is an entry in an upload's state.
type Part struct {
	Index int   `json:"index"`
	Size  int64 `json:"size"`
}

// Upload is an entry in the list of uploads.
type Upload struct {
	UploadID string    `json:"uploadId"`
	Account  string    `json:"account"`
	Name     string    `json:"name"`
	PartSize int64     `json:"partSize"`
	State    string    `json:"state"` // "open", "committed" or "aborted"
	Bytes    int64     `json:"bytes"` // of all present parts together
	Created  time.Time `json:"created"`
	// Expires is when an open upload is aborted unless a part is stored before.
	Expires time.Time `json:"expires,omitzero"`
	ETag    string    `json:"etag,omitempty"` // the blob's, once committed
}

// UploadStatus is an upload with a page of its parts.
type UploadStatus struct {
	Upload
	Parts []Part `json:"parts"`
	Next  *int   `json:"next,omitempty"`
}

// UploadPage is a page in the list of uploads.
type UploadPage struct {
	Uploads []Upload `json:"uploads"`
	Next    string   `json:"next,omitempty"`
}

// CreateSession is the request for a session.
type CreateSession struct {
	UserIdentity       *string `json:"userIdentity"`
	MicropaymentUpdate *string `json:"micropaymentUpdate"`
	SessionID          *string `json:"sessionId"`
}

// RenewPayment is the request that renews a channel's expired payment.
type RenewPayment struct {
	MicropaymentUpdate *string `json:"micropaymentUpdate"`
}

// ReconcileChannel is the request that compares a channel with the chain.
type ReconcileChannel struct {
	Write bool `json:"write"` // record the reading
}

// Reconciliation is the response to ReconcileChannel.
type Reconciliation struct {
	Channel Channel `json:"channel"` // as it was in the books
	// Chain is as it is on the chain; absent: it does not exist there.
	Chain *ChainChannel `json:"chain,omitempty"`
	// After is our books after the reading was recorded; absent: it was not.
	After *Channel `json:"after,omitempty"`
}

// ChainChannel is a channel as it is on the chain.
type ChainChannel struct {
	Deposit            string    `json:"deposit"`
	Withdrawn          string    `json:"withdrawn"` // by the receiver
	NextSequenceNumber string    `json:"nextSequenceNumber"`
	Expires            time.Time `json:"expires"`
}

// Session is a session's state.
type Session struct {
	SessionID      string    `json:"sessionId"`
	UserIdentity   string    `json:"userIdentity,omitempty"`
	ChunksetsLeft  int64     `json:"chunksetsLeft"`
	ChunksetsTotal int64     `json:"chunksetsTotal"`
	Created        time.Time `json:"created"`
	Expires        time.Time `json:"expires"`
}

// Channel is a micropayment channel's state.
type Channel struct {
	ChannelID        string `json:"channelId"`
	PaymentChannelID string `json:"paymentChannelId"`
	Sender           string `json:"sender,omitempty"`
	Receiver         string `json:"receiver"`
	Asset            string `json:"asset"`
	Deposit          string `json:"deposit"`
	Accepted         string `json:"accepted"`
	Credit           string `json:"credit"`
	Settled          string `json:"settled"`
	Unsettled        string `json:"unsettled"`
	// SellingLimit is the greatest unsettled amount that a payment may lead to now.
	SellingLimit string `json:"sellingLimit"`
	// Expired is the part of Unsettled that only a renewal makes collectable; absent: nothing.
	Expired string `json:"expired,omitempty"`
	// Elsewhere is the amount withdrawn on the chain that is not known here; absent: 0.
	Elsewhere      string `json:"elsewhere,omitempty"`
	SequenceNumber string `json:"sequenceNumber"`
	State          string `json:"state"`
	// Stopped is why nothing is sold over it, in the state stopped.
	Stopped string `json:"stopped,omitempty"`
	// Refund is the deposit less the accepted amount, if the channel is closed.
	Refund   string           `json:"refund,omitempty"`
	Created  time.Time        `json:"created"`
	Expires  time.Time        `json:"expires"`
	Sessions []ChannelSession `json:"sessions,omitzero"` // nil: could not be read
}

// ChannelSession is a session that was bought over a channel.
type ChannelSession struct {
	SessionID     string    `json:"sessionId"`
	ChunksetsLeft int64     `json:"chunksetsLeft"`
	Expires       time.Time `json:"expires"`
}

// SessionPage is a page in a local instance's list of sessions.
type SessionPage struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty"`
}

// ChannelPage is a page in a local instance's list of channels.
type ChannelPage struct {
	Channels []Channel `json:"channels"` // without their sessions
	Next     string    `json:"next,omitempty"`
}

// Ledger has our ledger's rows about a channel, with one page of its sales.
type Ledger struct {
	Channel Channel `json:"channel"` // without its sessions
	// FoldedAmount is the sum of sales that are not retained.
	FoldedAmount string       `json:"foldedAmount"`
	Sales        []Sale       `json:"sales"` // the newest first
	Settlements  []Settlement `json:"settlements"`
	Next         string       `json:"next,omitempty"`
}

// Sale is a purchase over a channel, or a return to its credit.
type Sale struct {
	SequenceNumber string `json:"sequenceNumber,omitempty"` // the payment's; empty: a return
	// SessionID is empty: chunksets were read directly, or returned.
	SessionID string    `json:"sessionId,omitempty"`
	Chunksets int64     `json:"chunksets"` // negative: returned
	Price     string    `json:"price"`     // a chunkset's
	Time      time.Time `json:"time"`
}

// Settlement is a payment that was collected, or waits to be.
type Settlement struct {
	State          string    `json:"state"` // "pending" or "settled"
	SequenceNumber string    `json:"sequenceNumber"`
	Amount         string    `json:"amount"` // cumulative
	Time           time.Time `json:"time"`   // when it was collected, or by when it must be
}

// Figures are numbers about a service. They contain no ids.
type Figures struct {
	Time     time.Time      `json:"time"`
	Storage  StorageFigures `json:"storage"`
	Garbage  GarbageFigures `json:"garbage"`
	Sessions SessionFigures `json:"sessions"`
	Channels ChannelFigures `json:"channels"`
	// NotReady is the reason, in lines, why the responding node can store nothing now; empty if it
	// can.
	NotReady string `json:"notReady,omitempty"`
	// Damaged counts the recorded damage; absent if there is none.
	Damaged *DamageFigures `json:"damaged,omitempty"`
	// History is the responding node's: the last hour, the oldest first.
	History []Interval `json:"history"`
}

// DamageFigures sum up the stored bytes that are damaged or missing. Copies of a blob have one
// content.
type DamageFigures struct {
	Contents int64     `json:"contents"`
	Extents  int64     `json:"extents"`
	Bytes    int64     `json:"bytes"`
	Since    time.Time `json:"since"` // the oldest
}

// StorageFigures are the number of blobs, and their bytes.
type StorageFigures struct {
	Blobs int64 `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// GarbageFigures count garbage: deleted contents that are due to be freed and are not freed yet.
type GarbageFigures struct {
	Contents      int64 `json:"contents"` // 100,000 stands for that many or more
	Bytes         int64 `json:"bytes"`    // of up to 100,000 objects of these, oldest first
	OldestSeconds int64 `json:"oldestSeconds"`
}

// SessionFigures are the numbers of retained sessions.
type SessionFigures struct {
	Live    int64 `json:"live"`
	Expired int64 `json:"expired"`
}

// ChannelFigures are the numbers of channels.
type ChannelFigures struct {
	Open    int64 `json:"open"`
	Closed  int64 `json:"closed"`
	Expired int64 `json:"expired"`
}

// Interval has a node's requests and bytes in a few seconds. A quantile is omitted if there were no
// requests.
type Interval struct {
	Time    time.Time `json:"time"` // its end
	Seconds float64   `json:"seconds"`
	// Requests is that ended, without health checks and the console's.
	Requests     int64   `json:"requests"`
	ClientErrors int64   `json:"clientErrors"` // of these, with a status of 4xx
	ServerErrors int64   `json:"serverErrors"` // of these, with a status of 5xx
	BytesIn      int64   `json:"bytesIn"`
	BytesOut     int64   `json:"bytesOut"`
	P50Seconds   float64 `json:"p50Seconds,omitzero"`
	P90Seconds   float64 `json:"p90Seconds,omitzero"`
	P99Seconds   float64 `json:"p99Seconds,omitzero"`
}

// Info describes a service.
type Info struct {
	Version      string  `json:"version"`
	Profile      string  `json:"profile"`
	URL          string  `json:"url,omitempty"` // the base URL for clients
	ChunkSize    int64   `json:"chunkSize"`
	ChunksetSize int64   `json:"chunksetSize"`
	Reads        string  `json:"reads"`
	Payment      Payment `json:"payment"`
	Limits       Limits  `json:"limits"`
	Rates        Rates   `json:"rates"`
	// Features names those features that an earlier server of this interface may lack, such as
	// FeatureCopy.
	Features []string `json:"features"`
}

// Features of a service.
const (
	FeatureCopy     = "copy"     // blobs are copied by the server
	FeatureMove     = "move"     // blobs are moved by the server
	FeatureVersions = "versions" // accounts can keep versions
	FeatureChanges  = "changes"  // changes are listed and waited for
)

// Rates are the limits of callers on a node, unless their key has other limits. A limit that is
// omitted is unlimited.
type Rates struct {
	Key     Rate `json:"key"`     // a group's keys together
	Address Rate `json:"address"` // a client address without a key
}

// Rate holds a caller's limits, by name, such as "requestsPerSecond" or "storedBytes". Bytes are
// counted in bodies.
type Rate map[string]int64

// Payment describes the terms of payment.
type Payment struct {
	Receiver       string `json:"receiver"`
	Asset          string `json:"asset"`
	Module         string `json:"module"`
	ChainID        int    `json:"chainId"`
	ChunksetPrice  string `json:"chunksetPrice"`
	UnsettledLimit string `json:"unsettledLimit"`

	// Of a service that collects payments on a chain. Gas prices are absent until they were read.
	StartingLimit string `json:"startingLimit,omitempty"` // a new channel's selling limit
	MinGas        string `json:"minGas,omitempty"`        // the least maximum gas in a micropayment
	MinGasPrice   string `json:"minGasPrice,omitempty"`
	MaxGasPrice   string `json:"maxGasPrice,omitempty"`
	// MaxFee is the greatest product of maximum gas and gas price.
	MaxFee     string `json:"maxFee,omitempty"`
	Settlement string `json:"settlement"` // SettlementLedger or SettlementChain
}

// How accepted micropayments are settled.
const (
	SettlementLedger = "ledger" // they are booked in the ledger, and not collected
	SettlementChain  = "chain"  // they are collected on the chain
)

// Limits are the limits of requests, with sizes in bytes and times in seconds.
type Limits struct {
	MaxBlobSize        int64 `json:"maxBlobSize"`
	MaxPartSize        int64 `json:"maxPartSize"`
	DefaultPartSize    int64 `json:"defaultPartSize"`
	MaxParts           int   `json:"maxParts"`
	MaxNameLength      int   `json:"maxNameLength"`
	MaxMetadataBytes   int   `json:"maxMetadataBytes"` // MaxBlobMeta
	MaxJSONBody        int   `json:"maxJsonBody"`
	MaxHeaderBytes     int   `json:"maxHeaderBytes"`
	MaxPageSize        int   `json:"maxPageSize"`
	MaxRanges          int   `json:"maxRanges"`
	UploadIdleSeconds  int64 `json:"uploadIdleSeconds"`
	PutSeconds         int64 `json:"putSeconds"`
	MinBytesPerSecond  int64 `json:"minBytesPerSecond"`
	SessionTTLSeconds  int64 `json:"sessionTtlSeconds"`
	ChannelTTLSeconds  int64 `json:"channelTtlSeconds"`
	SessionChunksets   int64 `json:"sessionChunksets"`
	ExpiredGoneSeconds int64 `json:"expiredGoneSeconds"`
}

// Faults are a local instance's faults.
type Faults struct {
	Seed   uint32      `json:"seed"`
	Faults []FaultRule `json:"faults"`
}

// FaultRule is a rule of faults, such as "PUT part 2%: drop-reply". docs/protocol.md describes the
// form.
type FaultRule struct {
	Rule     string `json:"rule"`
	Requests int64  `json:"requests"` // that match it, since it was set
	Injected int64  `json:"injected"` // of them, that had the fault
}
