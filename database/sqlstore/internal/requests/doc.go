// Package requests has the rows in the table idempotency: the outcomes of requests that may be sent
// again. The verbs of blobs' metadata and of money record their results here, in the transactions
// that have the effect.
package requests
