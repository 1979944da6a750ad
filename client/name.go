package client

import "fmt"

// CheckName returns ErrInvalid if no blob's name can be name or begin with it: it must be 1 to
// 1,024 UTF-16 code units of valid UTF-8 without control characters. A blob's name does not end in
// "/", either.
func CheckName(name string) error {
	if fault := nameFault(name); fault != "" {
		return fmt.Errorf("client: %w: the blob name %s", ErrInvalid, fault)
	}
	return nil
}
