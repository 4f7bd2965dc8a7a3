package main

import (
	"fmt"
	"io"
	"os"

	"github.com/pawl-dev/pawl/internal/openapi"
)

func main() {
	raw, err := io.ReadAll(os.Stdin)
	if err == nil {
		raw, err = openapi.Finish(raw)
	}
	if err == nil {
		_, err = os.Stdout.Write(append(raw, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
