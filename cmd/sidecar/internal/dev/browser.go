package dev

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// BrowserCommand returns the command that shows an address in the browser of the desktop, or nil if there is no desktop. goos is a
// [runtime.GOOS], and getenv reads the environment.
func BrowserCommand(goos string, getenv func(name string) string, address string) []string {
	switch {
	case goos == "darwin":
		return []string{"open", address}
	case getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "":
		return nil
	}
	return []string{"xdg-open", address}
}

// OpenBrowser runs [BrowserCommand] and waits for its end, which may be the end of the browser. Without a desktop it does nothing.
func OpenBrowser(address string) error {
	command := BrowserCommand(runtime.GOOS, os.Getenv, address)
	if command == nil {
		return nil
	}
	if err := exec.Command(command[0], command[1:]...).Run(); err != nil { //nolint:gosec,noctx // The address is the one that this process serves, and the browser outlives it.
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}
