package cli

import (
	"runtime/debug"
)

// Version returns the module's version if the binary was built from a tagged
// version, and "dev" otherwise.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
