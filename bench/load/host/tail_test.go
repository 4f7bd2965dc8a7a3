package host

import (
	"strings"
	"testing"
)

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var tail Tail
	for range 1000 {
		tail.Write([]byte("0123456789"))
	}
	tail.Write([]byte("the end\n"))
	if got := tail.String(); len(got) > tailBytes || !strings.HasSuffix(got, "the end") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-10:])
	}
}
