package protocol

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Bounds of the lists of tools that come with a delegation.
const (
	maxPolicyNames = 10_000
	maxPolicyName  = 256
)

// PolicyToProto is what a delegation lets the agent's run call: {"allow": [...], "block":
// [...]}; without "allow" every tool but those of "block".
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

// Policy is the JSON of it; Allow is nil where it admits every tool.
type Policy struct {
	Allow *[]string `json:"allow"`
	Block []string  `json:"block"`
}

// Tools reads the list; nil = no list. An invalid list is an error of the sender: a run must
// not begin with a policy that its sender did not intend.
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

// sorted are the names once each; none is nil, as stores have it.
func sorted(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}
