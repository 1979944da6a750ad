package metastore

import "sluice/access/actions"

// Bypass permits a call to end a retention in LockGovernance early. It returns the act that is
// recorded with it, which may be nil, or an error, which the call returns. It gets the version and
// the lock that it has afterwards, is called within the transaction only if there is such a
// retention, and possibly several times.
type Bypass func(version *Blob, after Lock) (*actions.Act, error)

// Deletion describes a version's removal for good.
type Deletion struct {
	VersionName
	Precondition Precondition // is called with the version, a mark too; may be nil
	Bypass       Bypass       // nil: not permitted
}

// LockChange describes a change of a version's lock.
type LockChange struct {
	VersionName               // without a Version and Null, the blob that is current
	Retention    *Lock        // has the Mode and Until; nil: they stay as they are
	Hold         *bool        // nil: it stays as it is
	Precondition Precondition // is called with the version; may be nil
	Bypass       Bypass       // nil: not permitted
}
