//go:build !linux

package server

// dropProgram does nothing on systems that do not report clean pages.
func dropProgram() {}
