package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
	"github.com/pawl-dev/pawl/internal/policy"
)

// divided is a cluster of two partitions: "default" is in 0, at node a, and "red", which is the home
// of alice, in 1, at node b. Node c has none.
type divided struct {
	*town
	a, b, c *member
	homes   []*house
}

func newDivided(t *testing.T) *divided {
	t.Helper()
	d := &divided{town: newTown(), homes: []*house{newHouse(), newHouse()}}
	d.parts = map[string]int32{"default": 0, "red": 1}
	d.a, d.b, d.c = d.node(t, "a"), d.node(t, "b"), d.node(t, "c")
	d.a.reign(d.homes[0], 0)
	d.b.reign(d.homes[1], 1)
	return d
}

func (d *divided) everywhere(t *testing.T, test func(t *testing.T, asked *member)) {
	t.Helper()
	for _, asked := range []*member{d.a, d.b, d.c} {
		t.Run("at "+asked.self.ID, func(t *testing.T) { test(t, asked) })
	}
}

// come checks that a call comes to the house of one partition, and returns it.
func (d *divided) come(t *testing.T, what string, part int32, ask func()) (came call) {
	t.Helper()
	before := []int{len(d.homes[0].seen()), len(d.homes[1].seen())}
	ask()
	for i, home := range d.homes {
		got := home.seen()[before[i]:]
		if want := map[bool]int{true: 1}[int32(i) == part]; len(got) != want {
			t.Errorf("%s: %d calls came to partition %d, want %d", what, len(got), i, want)
		} else if want > 0 {
			came = got[0]
		}
	}
	return came
}

// says sends requests, one after the other, and reads all that is answered.
func (m *member) says(ctx context.Context, method string, requests ...proto.Message) error {
	stream, err := m.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	for _, req := range requests {
		if err := stream.SendMsg(req); err != nil {
			return err
		}
	}
	err = stream.CloseSend()
	for err == nil {
		err = stream.RecvMsg(new(encoded.Message))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// of is a request of a namespace; "" = it names none.
func of(m *router.Method, namespace string) proto.Message {
	req := m.NewRequest()
	for name, value := range map[protoreflect.Name]string{"namespace": namespace, "tenant": namespace + ":crew/writer"} {
		if field := req.ProtoReflect().Descriptor().Fields().ByName(name); field != nil && namespace != "" {
			req.ProtoReflect().Set(field, protoreflect.ValueOfString(value))
		}
	}
	return req
}

// TestEveryCallGoesToItsPartition: that of the namespace that its request names, the first one where
// there are several, else of its caller's home.
func TestEveryCallGoesToItsPartition(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	d.everywhere(t, func(t *testing.T, asked *member) {
		for _, op := range policy.Operations {
			m := router.MethodOf(op.Name)
			if m == nil || m.Rule == router.NodeInfo || op.Space == policy.SpaceAll {
				continue
			}
			for namespace, part := range map[string]int32{"default": 0, "red": 1, "": 1, "nobody-s": 0} {
				requests := []proto.Message{of(m, namespace)}
				if m.Rule == router.Bidi {
					requests = append(requests, of(m, map[int32]string{0: "red", 1: "default"}[part]), m.NewRequest())
				}
				came := d.come(t, op.Name+" of "+namespace, part, func() {
					if err := asked.says(within(t), op.Name, requests...); err != nil {
						t.Errorf("%s of %q: %v", op.Name, namespace, err)
					}
				})
				if len(came.got) != len(requests) {
					t.Errorf("%s of %q: %d requests came", op.Name, namespace, len(came.got))
				}
			}
		}
	})
}

// TestATalkThatSaysNothing goes where its caller is at home.
func TestATalkThatSaysNothing(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	d.everywhere(t, func(t *testing.T, asked *member) {
		d.come(t, "nothing", 1, func() {
			if err := asked.says(within(t), pawlv1.WorkerService_Work_FullMethodName); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestARequestToAnAgentGoesToItsPartition by each binding, whichever way it names its tenant.
func TestARequestToAnAgentGoesToItsPartition(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	rpc := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{%s"id":"x"}}`
	d.everywhere(t, func(t *testing.T, asked *member) {
		// What is none of its caller's is refused where that one is at home.
		for namespace, part := range map[string]int32{"default": 0, "red": 1, "": 1, "green": 1} {
			path, field, query := "/a2a/crew/writer", "", ""
			if namespace != "" {
				tenant := namespace + ":crew/writer"
				path, field, query = "/a2a/"+tenant, `"tenant":"`+tenant+`",`, "?tenant="+tenant
			}
			for name, one := range map[string][]string{
				"JSON-RPC at its path": {http.MethodPost, path, fmt.Sprintf(rpc, "")}, "JSON-RPC at the root": {http.MethodPost, "/", fmt.Sprintf(rpc, field)},
				"REST at its path": {http.MethodPost, path + "/message:send", "{}"}, "REST at the root": {http.MethodPost, "/message:send", "{" + field + `"message":{}}`},
				"a query": {http.MethodGet, "/tasks/x" + query, ""}, "a deletion": {http.MethodDelete, "/tasks/x/pushNotificationConfigs/y" + query, ""},
				"a card": {http.MethodGet, path + "/.well-known/agent-card.json", ""},
			} {
				came := d.come(t, name+" of "+namespace, part, func() {
					resp := must(asked.ask(within(t), one[0], one[1], one[2], "Pawl-Part", "0"))(t)
					_ = resp.Body.Close()
				})
				if came.method != one[0]+" "+one[1] {
					t.Errorf("%s of %q: came as %s", name, namespace, came.method)
				}
			}
		}
	})
}

// TestAMoveDisturbsNoOther: while one partition goes from node to node, streams of it go on, and those of
// the other one hear nothing of it, also at a node that has both for a while.
func TestAMoveDisturbsNoOther(t *testing.T) {
	t.Parallel()
	c, moves, stays := newTown(), newJournal(), newJournal()
	c.parts = map[string]int32{"default": 0, "red": 1}
	nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
	nodes[0].reign(moves.home(), 0)
	nodes[1].reign(stays.home(), 1)
	open := func(namespace string) (streams []grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]) {
		for _, n := range nodes {
			in := &pawlv1.StreamTransitionsRequest{Namespace: namespace, Follow: true}
			streams = append(streams, must(pawlv1.NewRunServiceClient(n.conn).StreamTransitions(within(t), in))(t))
		}
		return streams
	}
	moving, staying := open("default"), open("red")
	for at := range uint64(6) {
		moves.write(1)
		for i, stream := range moving {
			reads(t, i, stream, at+1, at+1)
		}
		nodes[at%2].leave(0)
		// Nobody has it.
		stays.write(1)
		for i, stream := range staying {
			reads(t, i, stream, at+1, at+1)
		}
		nodes[(at+1)%2].reign(moves.home(), 0)
	}
	if n := len(stays.requests()); n != len(staying) {
		t.Errorf("%d streams were opened for %d readers", n, len(staying))
	}
}

// TestALinkIsKept: a node that gives one partition away keeps what is open to it for the other, while what
// is open to one that has none any more is cut off.
func TestALinkIsKept(t *testing.T) {
	t.Parallel()
	c, j := newTown(), newJournal()
	c.parts = map[string]int32{"default": 0, "red": 1, "blue": 2}
	keeps, stopped, next, asked := c.node(t, "a"), c.node(t, "b"), c.node(t, "c"), c.node(t, "d")
	hangs := newHouse()
	over := make(chan struct{})
	defer close(over)
	hangs.unary = func(context.Context, string, any) (any, error) {
		<-over
		return nil, nil
	}
	keeps.reign(newHouse(), 0)
	keeps.reign(j.home(), 1)
	stopped.reign(hangs, 2)
	j.write(1)
	client := pawlv1.NewRunServiceClient(asked.conn)
	stream := must(client.StreamTransitions(within(t), &pawlv1.StreamTransitionsRequest{Namespace: "red", Follow: true}))(t)
	reads(t, 0, stream, 1, 1)
	read := make(chan error, 1)
	go func() {
		_, err := client.GetRun(within(t), &pawlv1.GetRunRequest{Namespace: "blue"})
		read <- err
	}()
	eventually(t, "a call", func() bool { return stopped.seats.At(2).InFlight() == 1 })
	keeps.leave(0)
	next.reign(newHouse(), 0, 2)
	if err := <-read; err != nil {
		t.Errorf("what reads, at a node that has nothing any more: %v", err)
	}
	j.write(1)
	reads(t, 0, stream, 2, 2)
	if n := len(j.requests()); n != 1 {
		t.Errorf("the stream of the partition that stayed was opened %d times", n)
	}
}

// TestANodeThatHasNotThePartition refuses a call as one that has none, and one without the number of any
// as what no node sends.
func TestANodeThatHasNotThePartition(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	ctx := auth.WithCaller(within(t), alice)
	stream := func(part int32) error {
		stream, err := d.c.clients.Stream(ctx, d.a.self, part, pawlv1.RunService_ExportRun_FullMethodName)
		if err == nil {
			err = stream.RecvMsg(new(encoded.Message))
		}
		return err
	}
	unary := func(part int32) error {
		_, err := d.c.clients.Call(ctx, d.a.self, part, pawlv1.RunService_GetRun_FullMethodName, &pawlv1.GetRunRequest{Namespace: "default"})
		return err
	}
	for part, want := range map[int32]string{1: "NOT_OWNER", 63: "NOT_OWNER", 64: "BAD_PEER_CALL", -1: "BAD_PEER_CALL"} {
		for name, call := range map[string]func(int32) error{"unary": unary, "stream": stream} {
			if err := call(part); reasonOf(err) != want {
				t.Errorf("%s %d: %v", name, part, err)
			} else if want == "BAD_PEER_CALL" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "0 to 63")) {
				t.Errorf("%s %d: %v", name, part, err)
			}
		}
		req := must(http.NewRequestWithContext(ctx, http.MethodGet, "http://agents/a2a/crew/writer", http.NoBody))(t)
		resp := must(d.c.clients.Transport(d.a.self, part).RoundTrip(req))(t)
		body := string(must(io.ReadAll(resp.Body))(t))
		if _ = resp.Body.Close(); want == "NOT_OWNER" && resp.Header.Get(router.RefusedHeader) != want {
			t.Errorf("over HTTP %d: %d %s", part, resp.StatusCode, body)
		} else if want != "NOT_OWNER" && (resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "BAD_PEER_CALL (Pawl-Part)") || !strings.Contains(body, "0 to 63")) {
			t.Errorf("over HTTP %d: %d %s", part, resp.StatusCode, body)
		}
	}
	if got := len(d.homes[0].seen()) + len(d.homes[1].seen()); got != 0 {
		t.Errorf("%d calls came", got)
	}
}
