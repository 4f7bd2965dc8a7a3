package many

import (
	"testing"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func TestMain(m *testing.M) { pgserver.Main(m) }
