package mcp_test

import (
	"os"
	"testing"

	"github.com/pawl-dev/pawl/test/testkit/mcpserver"
)

func TestMain(m *testing.M) {
	mcpserver.Run()
	os.Exit(m.Run())
}
