package protocol

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Payer is the object `payer` in [DelegationURI]: by which labels the run of an agent is counted.
// It goes from a run to one of the same store alone, and is read of no other message.
type Payer struct {
	Labels []Label `json:"labels"`
}

// Label is one of them.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PayerToProto writes it as it goes in the metadata of a message.
func PayerToProto(p *machine.Payer) *structpb.Value {
	labels := make([]*structpb.Value, len(p.Labels))
	for i, l := range p.Labels {
		labels[i] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"key": structpb.NewStringValue(l.Key), "value": structpb.NewStringValue(l.Value),
		}})
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"labels": structpb.NewListValue(&structpb.ListValue{Values: labels}),
	}})
}

// Payer reads it; nil = the message has none.
func (p *Payer) Payer() *machine.Payer {
	if p == nil {
		return nil
	}
	out := &machine.Payer{}
	for _, l := range p.Labels {
		out.Labels = append(out.Labels, machine.Label(l))
	}
	return out
}
