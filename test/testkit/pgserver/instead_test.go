package pgserver_test

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestInsteadOfDirectory: one directory is one schema, in whichever words it is named.
func TestInsteadOfDirectory(t *testing.T) {
	t.Parallel()
	schema := pgserver.Schema("/a/b")
	for _, test := range []struct{ args, want []string }{
		{[]string{"serve", "--data", "/a/b", "--x"}, []string{"serve", "--store", "u", "--store-schema", schema, "--accept-loss-on-failover", "--x"}},
		{[]string{"check", "--y", "--data=/a/../a/b"}, []string{"check", "--y", "--store", "u", "--store-schema", schema}},
		{[]string{"version", "--data"}, []string{"version", "--data"}},
		{nil, nil},
	} {
		if got := pgserver.InsteadOfDirectory(test.args, "u"); !slices.Equal(got, test.want) {
			t.Errorf("%v instead of %v", got, test.want)
		}
	}
	if schema == pgserver.Schema("/a/c") || len(schema) > 63 {
		t.Error(schema)
	}
}
