package memkv_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/kv/kvtest"
	"github.com/pawl-dev/pawl/internal/store/memkv"
)

func TestContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(*testing.T) kv.KV { return memkv.New() })
}
