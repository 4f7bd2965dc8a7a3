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

// waiting is a house that has taken what came, and waits: until it is ended, or its lease is.
func waiting() *house {
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

// ways are those in which a house is lost to the calls in it.
var ways = map[string]func(m *member){
	"hand-over": func(m *member) { m.leave() },
	"lease":     func(m *member) { m.seat().ExtendLease(time.Now().Add(-time.Millisecond)) },
}

// TestWhatWasTakenIsSentOnce: what waits in a house that its node loses is made again at the next owner where
// a repeat is known, and never else; whoever must not repeat it hears that it may have been done.
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
		// lost is what is told, "" that it is made again, by the way.
		lost map[string]string
	}{
		"a message that streams": {stream, map[string]string{"hand-over": "COMMIT_UNKNOWN", "lease": "COMMIT_UNKNOWN"}},
		// A house that ends has not taken it, where it says so.
		"a message":        {send, map[string]string{"lease": "COMMIT_UNKNOWN"}},
		"one with an id":   {named, nil},
		"a wait for a run": {wait, nil},
	} {
		for way, lose := range ways {
			for where, i := range map[string]int{"at the owner": 0, "elsewhere": 2} {
				t.Run(strings.Join([]string{name, way, where}, "/"), func(t *testing.T) {
					t.Parallel()
					c := newTown()
					nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
					first, second := waiting(), newHouse()
					nodes[0].reign(first)
					told := make(chan error, 1)
					go func() { told <- one.call(within(t), nodes[i].conn) }()
					nodes[0].visited()
					lose(nodes[0])
					nodes[1].reign(second)
					err, want := <-told, one.lost[way]
					if again := want == ""; reasonOf(err) != want || again != (err == nil) || len(second.seen()) > 0 != again {
						t.Errorf("made again %d times: %v", len(second.seen()), err)
					}
				})
			}
		}
	}
}

// TestAnEdgeThatEnds lets go of messages that wait at another node: who has no id hears that it may have been
// taken, unless he has heard of his task.
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
			owner.reign(home)
			ctx, client := within(t), a2apb.NewA2AServiceClient(edge.conn)
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

// TestAnAgentIsNotToldOfOwners: a request over HTTP in a house whose lease ends hears nothing of NOT_OWNER.
func TestAnAgentIsNotToldOfOwners(t *testing.T) {
	t.Parallel()
	for where, i := range map[string]int{"at the owner": 0, "elsewhere": 1} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			nodes := []*member{c.node(t, "a"), c.node(t, "b")}
			nodes[0].reign(waiting())
			said := make(chan string, 1)
			go func() {
				defer close(said)
				req := must(http.NewRequestWithContext(within(t), http.MethodPost, nodes[i].webAddr+"/a2a/crew/writer/message:send", strings.NewReader("{}")))(t)
				resp := must(http.DefaultClient.Do(req))(t)
				defer resp.Body.Close()
				said <- string(must(io.ReadAll(resp.Body))(t))
			}()
			nodes[0].visited()
			ways["lease"](nodes[0])
			if got := <-said; got != "OWNER_LOST" {
				t.Errorf("it hears %q", got)
			}
		})
	}
}
