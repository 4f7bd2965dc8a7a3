//go:build !linux

package server

// dropProgram is empty on systems that do not report clean pages.
func dropProgram() {}
