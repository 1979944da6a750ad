package wire

// Problem is an error's body (RFC 9457), with the media type application/problem+json. Error
// repeats Detail, for the public client.
type Problem struct {
	Type      string `json:"type"` // "urn:sluice:error:" and the code
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Error     string `json:"error"`
	Code      string `json:"code"`
	RequestID string `json:"requestId"`
	Retryable *bool  `json:"retryable,omitempty"`

	// Details for a payer. Required and Available are in the asset's units, or in chunksets if
	// there are too few chunksets.
	Reason             string `json:"reason,omitempty"`
	Required           string `json:"required,omitempty"`
	Available          string `json:"available,omitempty"`
	ChunksetPrice      string `json:"chunksetPrice,omitempty"`
	StoredMicropayment string `json:"storedMicropayment,omitempty"`

	// With CodeUnsettledLimit: the channel's selling limit, its unsettled amount, and how much of
	// that only a renewal makes collectable.
	Limit     string `json:"limit,omitempty"`
	Unsettled string `json:"unsettled,omitempty"`
	Expired   string `json:"expired,omitempty"`

	// For a micropayment that was refused for its gas: the bounds.
	MinGas      string `json:"minGas,omitempty"`
	MinGasPrice string `json:"minGasPrice,omitempty"`
	MaxGasPrice string `json:"maxGasPrice,omitempty"`

	// The channel, session or upload that a request with an unknown outcome may have created.
	ChannelID string `json:"channelId,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
	UploadID  string `json:"uploadId,omitempty"`

	Restart string `json:"restart,omitempty"` // with CodeChangesGone: the position at which to continue
}
