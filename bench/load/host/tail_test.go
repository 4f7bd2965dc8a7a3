package host

import (
	"strings"
	"testing"
)

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var kept Tail
	for range 1000 {
		kept.Write([]byte("0123456789"))
	}
	kept.Write([]byte("the end\n"))
	if got := kept.String(); len(got) > tailBytes || !strings.HasSuffix(got, "the end") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-10:])
	}
}
