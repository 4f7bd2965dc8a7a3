package output

import "testing"

func TestClosestValue(t *testing.T) {
	t.Parallel()
	p := Problem{Allowed: []string{"Approved", "Rejected"}}
	if got := p.ClosestValue([]string{"runs", "emit", "01J", "Rejextxd", "Aproved"}); got != "Approved" {
		t.Errorf("meant %q", got)
	}
	if got := p.ClosestValue([]string{"--agent=Rejectd"}); got != "Rejected" {
		t.Errorf("meant %q by a flag", got)
	}
}
