package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// waiting returns a backend that takes a request and then waits until the backend or its lease ends.
func waiting() *fakeBackend {
	home := newHouse()
	wait := func(ctx context.Context) error {
		select {
		case <-home.ended:
			return refused("DRAINING")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	home.unary = func(ctx context.Context, _ string, _ any) (any, error) { return nil, wait(ctx) }
	home.stream = func(_ string, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&a2apb.SendMessageRequest{}); err != nil {
			return err
		}
		return wait(stream.Context())
	}
	home.serve = func(w http.ResponseWriter, r *http.Request) {
		_ = wait(r.Context())
		_, _ = fmt.Fprint(w, reasonOf(formed(context.Cause(r.Context()))))
	}
	return home
}

// ownerLosses are the ways in which a node loses a backend during its calls.
var ownerLosses = map[string]func(m *member){
	"hand-over": func(m *member) { m.leave() },
	"lease":     func(m *member) { m.seat().ExtendLease(time.Now().Add(-time.Millisecond)) },
}

// TestWhatWasTakenIsSentOnce: a node loses a backend in which calls wait. A call is made again at the next
// owner only if a repeat of it is recognised. The caller of any other call receives an error that the call
// may have happened.
func TestWhatWasTakenIsSentOnce(t *testing.T) {
	t.Parallel()
	stream := func(ctx context.Context, conn *grpc.ClientConn) error {
		got, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(ctx, &a2apb.SendMessageRequest{})
		if err == nil {
			_, err = got.Recv()
		}
		return err
	}
	send := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := a2apb.NewA2AServiceClient(conn).SendMessage(ctx, &a2apb.SendMessageRequest{})
		return err
	}
	named := func(ctx context.Context, conn *grpc.ClientConn) error {
		return send(metadata.AppendToOutgoingContext(ctx, "idempotency-key", "k"), conn)
	}
	wait := func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pawlv1.NewRunServiceClient(conn).WaitRun(ctx, &pawlv1.WaitRunRequest{Timeout: durationpb.New(time.Minute)})
		return err
	}
	for name, one := range map[string]struct {
		call func(context.Context, *grpc.ClientConn) error
		// lost is the error for each way of losing the backend. "" means that the call is made again.
		lost map[string]string
	}{
		"a message that streams": {stream, map[string]string{"hand-over": "COMMIT_UNKNOWN", "lease": "COMMIT_UNKNOWN"}},
		// A backend that ends and says so has not taken the message.
		"a message":        {send, map[string]string{"lease": "COMMIT_UNKNOWN"}},
		"one with an id":   {named, nil},
		"a wait for a run": {wait, nil},
	} {
		for way, lose := range ownerLosses {
			for where, i := range map[string]int{"at the owner": 0, "elsewhere": 2} {
				t.Run(strings.Join([]string{name, way, where}, "/"), func(t *testing.T) {
					t.Parallel()
					c := newTown()
					nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
					first, second := waiting(), newHouse()
					nodes[0].ownPartitions(first)
					told := make(chan error, 1)
					go func() { told <- one.call(testContext(t), nodes[i].conn) }()
					nodes[0].visited()
					lose(nodes[0])
					nodes[1].ownPartitions(second)
					err, want := <-told, one.lost[way]
					if again := want == ""; reasonOf(err) != want || again != (err == nil) || len(second.receivedCalls()) > 0 != again {
						t.Errorf("made again %d times: %v", len(second.receivedCalls()), err)
					}
				})
			}
		}
	}
}

// TestAnEdgeThatEnds: a node that drains ends the messages that wait at another node. A sender without an
// id receives an error that the message may have been taken, unless it has received an event of its task.
func TestAnEdgeThatEnds(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		id            string
		streams, told bool
		want          string
	}{
		"a message":              {want: "COMMIT_UNKNOWN"},
		"one with an id":         {id: "k", want: "DRAINING"},
		"one that streams":       {streams: true, want: "COMMIT_UNKNOWN"},
		"one that has told some": {streams: true, told: true, want: "DRAINING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			owner, edge := c.node(t, "a"), c.node(t, "b")
			home := waiting()
			if one.told {
				home.stream = func(_ string, stream grpc.ServerStream) error {
					_ = stream.SendMsg(&a2apb.StreamResponse{})
					<-stream.Context().Done()
					return stream.Context().Err()
				}
			}
			owner.ownPartitions(home)
			ctx, client := testContext(t), a2apb.NewA2AServiceClient(edge.conn)
			if one.id != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", one.id)
			}
			heard, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				defer close(ended)
				if !one.streams {
					_, err := client.SendMessage(ctx, &a2apb.SendMessageRequest{})
					ended <- err
					return
				}
				stream := must(client.SendStreamingMessage(ctx, &a2apb.SendMessageRequest{}))(t)
				_, err := stream.Recv()
				if one.told {
					close(heard)
					_, err = stream.Recv()
				}
				ended <- err
			}()
			owner.visited()
			if one.told {
				<-heard
			}
			edge.router.Drain()
			if err := <-ended; reasonOf(err) != one.want {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestAnAgentIsNotToldOfOwners: the answer to a request over HTTP in a backend whose lease ends is not
// NOT_OWNER.
func TestAnAgentIsNotToldOfOwners(t *testing.T) {
	t.Parallel()
	for where, i := range map[string]int{"at the owner": 0, "elsewhere": 1} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			nodes := []*member{c.node(t, "a"), c.node(t, "b")}
			nodes[0].ownPartitions(waiting())
			answers := make(chan string, 1)
			go func() {
				defer close(answers)
				req := must(http.NewRequestWithContext(testContext(t), http.MethodPost, nodes[i].webAddr+"/a2a/crew/writer/message:send", strings.NewReader("{}")))(t)
				resp := must(http.DefaultClient.Do(req))(t)
				defer resp.Body.Close()
				answers <- string(must(io.ReadAll(resp.Body))(t))
			}()
			nodes[0].visited()
			ownerLosses["lease"](nodes[0])
			if got := <-answers; got != "OWNER_LOST" {
				t.Errorf("it hears %q", got)
			}
		})
	}
}
