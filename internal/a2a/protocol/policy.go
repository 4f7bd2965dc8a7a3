package protocol

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants limit the lists of tools in a delegation.
const (
	maxPolicyNames = 10_000
	maxPolicyName  = 256
)

// PolicyToProto converts the lists of tools for the agent's run: {"allow": [...], "block": [...]}.
// Without "allow", the run may call every tool except the tools in "block".
func PolicyToProto(p *machine.ToolPolicy) *structpb.Value {
	fields := map[string]*structpb.Value{}
	if p.Limited {
		fields["allow"] = namesToProto(p.Allow)
	}
	if len(p.Block) > 0 {
		fields["block"] = namesToProto(p.Block)
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

func namesToProto(names []string) *structpb.Value {
	list := make([]*structpb.Value, len(names))
	for i, name := range names {
		list[i] = structpb.NewStringValue(strings.ToValidUTF8(name, "\uFFFD"))
	}
	return structpb.NewListValue(&structpb.ListValue{Values: list})
}

// Policy is the JSON form of the lists. If Allow is nil, every tool that is not in Block is allowed.
type Policy struct {
	Allow *[]string `json:"allow"`
	Block []string  `json:"block"`
}

// Tools converts the lists to the engine's form. nil means that no list limits the tools. An invalid list is an error of
// the sender, because a run must not begin with a policy that its sender did not intend.
func (p *Policy) Tools() (*machine.ToolPolicy, error) {
	if p == nil {
		return nil, nil
	}
	out := &machine.ToolPolicy{Limited: p.Allow != nil, Block: sorted(p.Block)}
	if out.Limited {
		out.Allow = sorted(*p.Allow)
	}
	if n := len(out.Allow) + len(out.Block); n > maxPolicyNames {
		return nil, fmt.Errorf("policy: want at most %d names of tools, got %d", maxPolicyNames, n)
	}
	for _, name := range slices.Concat(out.Allow, out.Block) {
		if name == "" || len(name) > maxPolicyName || strings.ContainsFunc(name, unicode.IsControl) {
			return nil, fmt.Errorf("policy: want names of 1 to %d bytes without control characters, got %.40q", maxPolicyName, name)
		}
	}
	if !out.Binds() {
		return nil, nil
	}
	return out, nil
}

// sorted returns the names in order and without duplicates. If there are no names, it returns nil, as
// the store does.
func sorted(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}
