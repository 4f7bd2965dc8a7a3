package many

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/testkit/pg"
)

func TestMain(m *testing.M) { pg.Main(m) }
