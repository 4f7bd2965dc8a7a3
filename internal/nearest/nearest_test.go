package nearest_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/nearest"
)

func TestWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given   string
		allowed []string
		want    string
	}{
		{"wiat", []string{"wait"}, ""},
		{"stauts", []string{"state", "status"}, "status"},
		{"Approve", []string{"Rejected", "Approved"}, "Approved"},
		{"aproved", []string{"Approved"}, "Approved"},
		{"approved", []string{"Approved"}, "Approved"},
		{"Approved", []string{"Approved"}, ""},
		{"Xyz", []string{"Approved"}, ""},
		{"Go", []string{"No", "Stop"}, "No"},
		{"Go", []string{"Ask"}, ""},
		{"", []string{"a"}, "a"},
		{"x", nil, ""},
	} {
		if got := nearest.Word(c.given, c.allowed); got != c.want {
			t.Errorf("Word(%q, %v) = %q, want %q", c.given, c.allowed, got, c.want)
		}
	}
}
