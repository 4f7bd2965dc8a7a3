// Package build says which build of the program runs.
//
// Owns: the version and the revision that the linker or the Go tool put into the binary.
//
// Guarantees: the values never change while the program runs.
package build

import (
	"runtime/debug"
	"sync"
)

// linked is the version that the linker sets (-X .../internal/build.linked=...). If it is "", the version that the Go tool put into
// the binary applies.
var linked string

// Version returns the version of the program. It returns "devel" if the build has none.
func Version() string {
	name, _ := read()
	return name
}

// Revision returns the commit of the source. It returns "" if the build has none.
func Revision() string {
	_, revision := read()
	return revision
}

var read = sync.OnceValues(func() (name, revision string) {
	name = "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			name = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if linked != "" {
		name = linked
	}
	return name, revision
})
