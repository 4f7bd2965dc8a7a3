package client

import (
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestCountedWithin: a delegation whose agent counts itself goes to the run's own pack, also where
// the operator has put the agent elsewhere since; only there is said in whose accounts.
func TestCountedWithin(t *testing.T) {
	t.Parallel()
	local, err := grpc.NewClient("passthrough:none", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	d := NewDirectory(map[string]Remote{"helper": {Card: "http://127.0.0.1:1/card.json"}, "red:crew/scout": {Card: "http://127.0.0.1:1/card.json"}}, local, "")
	for _, c := range []struct {
		space, agent string
		want         bool
	}{{"", "helper", false}, {"red", "helper", true}, {"red", "scout", false}, {"", "scout", true}} {
		if got := d.Local(c.space, "crew", c.agent); got != c.want {
			t.Errorf("%s is local in %q: %v", c.agent, c.space, got)
		}
	}
	del := &machine.Delegation{PackID: "crew", Agent: "helper", Payer: &machine.Payer{Labels: []machine.Label{{Key: "tenant", Value: "acme"}, {Key: "x"}}}}
	within, card, err := d.Peer(t.Context(), del, "")
	if err != nil || card != "" || within.wire != d.local {
		t.Fatalf("it goes to %q, %v", card, err)
	}
	if _, card, err := d.Peer(t.Context(), &machine.Delegation{PackID: "crew", Agent: "helper"}, ""); err == nil || card == "" {
		t.Errorf("one that does not goes to %q, %v", card, err)
	}
	said := func(p *Peer) *machine.Payer {
		object := p.request(del, machine.AgentMessage{}).GetMessage().GetMetadata().GetFields()[protocol.DelegationURI].GetStructValue()
		payer := object.GetFields()["payer"]
		if payer == nil {
			return nil
		}
		out := &machine.Payer{}
		for _, l := range payer.GetStructValue().GetFields()["labels"].GetListValue().GetValues() {
			fields := l.GetStructValue().GetFields()
			out.Labels = append(out.Labels, machine.Label{Key: fields["key"].GetStringValue(), Value: fields["value"].GetStringValue()})
		}
		return out
	}
	if got := said(within); !reflect.DeepEqual(got, del.Payer) {
		t.Errorf("within is said %+v", got)
	}
	if got := said(&Peer{bound: true, idempotent: true}); got != nil {
		t.Errorf("elsewhere is said %+v", got)
	}
}
