package protocol

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Payer is the object `payer` in [DelegationURI]. It contains the labels by which the run of an agent
// is counted in accounts. It is sent only between runs of the same store. In every other message it is
// ignored.
type Payer struct {
	Labels []Label `json:"labels"`
}

// Label is a label of a run.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// PayerToProto converts a payer (the accounts that pay for an agent's run) for the metadata of a message.
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

// Payer converts the payer in a message to the engine's form. It returns nil if the message contains none.
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
