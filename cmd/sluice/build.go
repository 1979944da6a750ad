package main

import "runtime/debug"

// version returns the module's version if the binary was built from a tagged
// version, and "dev" otherwise.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
