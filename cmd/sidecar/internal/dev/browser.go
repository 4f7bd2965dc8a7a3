package dev

import (
	"os"
	"os/exec"
	"runtime"
)

// OpenBrowser shows an address in the browser of the desktop. It does nothing if there is no desktop or no browser, because the address is
// also printed.
func OpenBrowser(address string) {
	command := "open"
	if runtime.GOOS != "darwin" {
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		command = "xdg-open"
	}
	browser := exec.Command(command, address) //nolint:gosec,noctx // The address is the one that this process serves.
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }()
	}
}
