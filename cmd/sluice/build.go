package main

import (
	"runtime/debug"
	"strings"
)

// version returns the module's version if the binary was built from a tagged
// version, and "dev" otherwise.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// commitDate returns the commit date, so that a build can be reproduced, or the
// epoch's if it is not known.
func commitDate() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if date, _, found := strings.Cut(s.Value, "T"); s.Key == "vcs.time" && found {
				return date
			}
		}
	}
	return "1970-01-01"
}
