package output

import "testing"

func TestNearest(t *testing.T) {
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
		if got := NearestWord(c.given, c.allowed); got != c.want {
			t.Errorf("Nearest(%q, %v) = %q, want %q", c.given, c.allowed, got, c.want)
		}
	}
	p := Problem{Allowed: []string{"Approved", "Rejected"}}
	if got := p.ClosestValue([]string{"runs", "emit", "01J", "Rejextxd", "Aproved"}); got != "Approved" {
		t.Errorf("meant %q", got)
	}
	if got := p.ClosestValue([]string{"--agent=Rejectd"}); got != "Rejected" {
		t.Errorf("meant %q by a flag", got)
	}
}
