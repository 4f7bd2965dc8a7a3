//go:build !linux

package server

// dropProgram does nothing where the system does not tell which pages are clean.
func dropProgram() {}
