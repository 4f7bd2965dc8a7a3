package main

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// receivers has one webhook with dead letters; the receiver takes none but the first.
type receivers struct {
	pawlv1.UnimplementedDeliveryServiceServer
	resent, discarded []uint64
}

func (r *receivers) ListConsumers(context.Context, *pawlv1.ListConsumersRequest) (*pawlv1.ListConsumersResponse, error) {
	return &pawlv1.ListConsumersResponse{Consumers: []*pawlv1.Consumer{{Consumer: "billing", Owner: "ops", Cursor: "c1", Connected: true}}}, nil
}

func (r *receivers) ListDeliveries(_ context.Context, in *pawlv1.ListDeliveriesRequest) (*pawlv1.ListDeliveriesResponse, error) {
	if in.GetPageToken() == "" {
		return &pawlv1.ListDeliveriesResponse{NextPageToken: "2", Deliveries: []*pawlv1.Delivery{{
			DeliveryRef: &pawlv1.DeliveryRef{Kind: pawlv1.DeliveryKind_DELIVERY_KIND_WEBHOOK, Id: "audit"}, Owner: "ops", LastError: "the receiver\x1banswers 503",
		}}}, nil
	}
	return &pawlv1.ListDeliveriesResponse{Deliveries: []*pawlv1.Delivery{{
		DeliveryRef: &pawlv1.DeliveryRef{Kind: pawlv1.DeliveryKind_DELIVERY_KIND_PUSH, RunId: "RUN", Id: "a/b"},
	}}}, nil
}

func (r *receivers) ListDeadLetters(_ context.Context, in *pawlv1.ListDeadLettersRequest) (*pawlv1.ListDeadLettersResponse, error) {
	if in.GetDeliveryRef().GetId() != "audit" {
		return nil, status.Error(codes.NotFound, "no receiver")
	}
	out := &pawlv1.ListDeadLettersResponse{}
	for n := uint64(1); n <= 3; n++ {
		letter := &pawlv1.DeadLetter{N: n, EventId: "run/4", Size: 4, Error: "busy"}
		if in.GetIncludeBody() {
			letter.Body = []byte("body")
		}
		out.DeadLetters = append(out.DeadLetters, letter)
	}
	return out, nil
}

func (r *receivers) ResendDeadLetter(_ context.Context, in *pawlv1.ResendDeadLetterRequest) (*pawlv1.ResendDeadLetterResponse, error) {
	r.resent = append(r.resent, in.GetN())
	if in.GetN() > 1 {
		return nil, status.Error(codes.Unavailable, "the receiver did not take it")
	}
	return &pawlv1.ResendDeadLetterResponse{}, nil
}

func (r *receivers) DiscardDeadLetter(_ context.Context, in *pawlv1.DiscardDeadLetterRequest) (*pawlv1.DiscardDeadLetterResponse, error) {
	if in.GetN() > 3 {
		return nil, status.Error(codes.NotFound, "no such letter")
	}
	r.discarded = append(r.discarded, in.GetN())
	return &pawlv1.DiscardDeadLetterResponse{}, nil
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, service := grpc.NewServer(), &receivers{}
	pawlv1.RegisterDeliveryServiceServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	for _, tt := range []struct {
		args string
		code int
		want []string
	}{
		{"list", 0, []string{"webhook/audit", "ops", "the receiver answers 503", "push/RUN/a/b"}},
		{"list -o json --troubled", 0, []string{`"id": "audit"`, `"run_id": "RUN"`}},
		{"dead webhook/audit", 0, []string{"run/4", "busy"}},
		{"dead webhook/audit --body", 0, []string{"BODY", "body"}},
		{"dead webhook/other", 1, []string{"no receiver"}},
		{"dead audit", 2, []string{"webhook/ID or push/RUN/ID"}},
		{"dead push/RUN", 2, []string{"webhook/ID or push/RUN/ID"}},
		{"resend webhook/audit 1", 0, []string{"webhook/audit 1 arrived"}},
		{"resend webhook/audit --all", 2, []string{"webhook/audit 1 arrived", "webhook/audit 2", "did not take it"}},
		{"resend webhook/audit", 2, []string{"give the number"}},
		{"resend webhook/audit 1 --all", 2, []string{"give the number"}},
		{"resend webhook/audit x", 2, []string{"no number"}},
		{"resend webhook/audit 0", 2, []string{"no number"}},
		{"discard webhook/audit 2", 0, []string{"webhook/audit 2 discarded"}},
		{"discard webhook/audit 9", 1, []string{"webhook/audit 9", "no such letter"}},
		{"discard webhook/audit --all -o json", 0, []string{"\"discarded\": [\n"}},
		{"discard webhook/audit", 2, []string{"give the number"}},
		{"discard audit 1", 2, []string{"webhook/ID or push/RUN/ID"}},
		{"consumers", 0, []string{"billing", "ops", "yes", "c1"}},
		{"consumers -o json", 0, []string{`"consumer": "billing"`, `"connected": true`}},
	} {
		args := append([]string{"deliveries"}, strings.Fields(tt.args)...)
		code, out, errs := typed(t, append(args, "--addr", "unix:"+socket)...)
		for _, want := range tt.want {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s: no %q in %s%s", tt.args, want, out, errs)
			}
		}
		if code != tt.code {
			t.Errorf("%s: code %d, want %d: %s", tt.args, code, tt.code, errs)
		}
	}
	if want := []uint64{1, 1, 2}; !slices.Equal(service.resent, want) {
		t.Errorf("resent %v, want %v", service.resent, want)
	}
	if want := []uint64{2, 1, 2, 3}; !slices.Equal(service.discarded, want) {
		t.Errorf("discarded %v, want %v", service.discarded, want)
	}
}
