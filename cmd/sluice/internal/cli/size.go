package cli

import (
	"fmt"

	"sluice/internal/units"
)

// PartSize is an upload's part size in bytes.
type PartSize int64

// UnmarshalText parses a size.
func (s *PartSize) UnmarshalText(text []byte) error {
	n, err := units.ParseSize(string(text))
	if err != nil || n < 1 || n > 5<<30 {
		return fmt.Errorf("want a size from 1 to 5GiB, such as 16MiB, not %q", text)
	}
	*s = PartSize(n)
	return nil
}
