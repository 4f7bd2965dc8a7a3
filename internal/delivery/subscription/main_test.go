package subscription_test

import (
	"testing"

	"github.com/pawl-dev/pawl/test/testkit/realstore"
)

// TestMain runs these tests on the store that PAWL_TEST_STORE names.
func TestMain(m *testing.M) { realstore.Main(m) }
