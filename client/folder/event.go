package folder

// Kind is an Event's kind.
type Kind int

// The kinds of events. Of a file or blob that is transferred, Started comes first, then any number
// of Progress, and then its outcome. An outcome without Started was known before its turn came.
const (
	Copying     Kind = iota + 1 // Number transfers of Size bytes in all will begin
	Deleting                    // Number deletions will begin
	Restoring                   // versions will be restored, while they are listed
	Started                     // a transfer begins
	Progress                    // Done bytes of it are transferred; in the first one, by an earlier run alone
	Copied                      // outcome: it succeeded, and the target has this Size and ETag
	Unchanged                   // outcome: the target had the content already
	Skipped                     // outcome: Err is the reason why the source has no counterpart
	Failed                      // outcome: Err is the reason
	Interrupted                 // outcome: the context ended first
	Deleted                     // outcome: the source was deleted
	Moved                       // outcome: the source has the target's name now, this Size and ETag
	Restored                    // outcome: the source has this Size and ETag again
	Locked                      // outcome: the source has the lock
)

// Event reports a Batch's progress. Fields that its kind does not mention are zero.
type Event struct {
	Kind   Kind
	Source Item // "" if the list of deletions failed
	Target Item // zero if it was deleted, restored, locked or skipped
	Number int  // of Copying and Deleting; -1 while the deletions are not listed yet
	Size   int64
	Done   int64 // may decrease, if bytes must be sent again
	ETag   string
	Err    error
}

// Summary counts a Batch's outcomes.
type Summary struct {
	Copied, Unchanged, Moved, Deleted, Restored, Locked, Skipped, Failed int

	Left  int   // not begun, or interrupted
	Bytes int64 // of Copied
}

// Total returns the number of everything that was to be done. Skipped ones are not in it.
func (s *Summary) Total() int {
	return s.Copied + s.Unchanged + s.Moved + s.Deleted + s.Restored + s.Locked + s.Failed + s.Left
}

// count counts an outcome.
func (s *Summary) count(e *Event) {
	switch e.Kind {
	case Copied:
		s.Copied++
		s.Bytes += e.Size
	case Unchanged:
		s.Unchanged++
	case Moved:
		s.Moved++
	case Deleted:
		s.Deleted++
	case Restored:
		s.Restored++
	case Locked:
		s.Locked++
	case Skipped:
		s.Skipped++
	case Failed:
		s.Failed++
	}
}
