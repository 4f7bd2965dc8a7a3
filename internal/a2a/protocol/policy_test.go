package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestPolicyOfDelegations: lists are read as they were written, and what is no list of names
// is refused.
func TestPolicyOfDelegations(t *testing.T) {
	t.Parallel()
	for _, want := range []*machine.ToolPolicy{
		{Limited: true}, {Limited: true, Allow: []string{"a", "b"}}, {Block: []string{"c"}}, {Limited: true, Allow: []string{"a"}, Block: []string{"a"}},
	} {
		var p Policy
		if err := json.Unmarshal(ValueFromProto(PolicyToProto(want)), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Tools(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is %+v, %v", want, got, err)
		}
	}
	for raw, want := range map[string]*machine.ToolPolicy{
		`{}`: nil, `{"block": []}`: nil, `{"allow": null}`: nil,
		`{"allow": ["b", "a", "b"], "block": ["c"]}`: {Limited: true, Allow: []string{"a", "b"}, Block: []string{"c"}},
	} {
		var p Policy
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Tools(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v", raw, got, err)
		}
	}
	many := make([]string, maxPolicyNames+1)
	for i := range many {
		many[i] = strings.Repeat("x", 1+i%maxPolicyName) + string(rune('a'+i/maxPolicyName))
	}
	for _, bad := range []Policy{{Block: []string{""}}, {Allow: &[]string{"a\nb"}}, {Block: []string{strings.Repeat("x", 257)}}, {Allow: &many}} {
		if got, err := bad.Tools(); err == nil {
			t.Errorf("%.100v is taken: %v", bad, got)
		}
	}
}
