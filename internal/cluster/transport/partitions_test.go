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
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/policy"
)

// splitCluster is a cluster of two partitions. Namespace "default" is in partition 0, at node a. Namespace
// "red", the home of alice, is in partition 1, at node b. Node c has no partition.
type splitCluster struct {
	*testCluster
	a, b, c  *member
	backends []*fakeBackend
}

func newDivided(t *testing.T) *splitCluster {
	t.Helper()
	d := &splitCluster{testCluster: newTown(), backends: []*fakeBackend{newHouse(), newHouse()}}
	d.parts = map[string]int32{"default": 0, "red": 1}
	d.a, d.b, d.c = d.node(t, "a"), d.node(t, "b"), d.node(t, "c")
	d.a.ownPartitions(d.backends[0], 0)
	d.b.ownPartitions(d.backends[1], 1)
	return d
}

func (d *splitCluster) fromEachNode(t *testing.T, test func(t *testing.T, asked *member)) {
	t.Helper()
	for _, asked := range []*member{d.a, d.b, d.c} {
		t.Run("at "+asked.self.ID, func(t *testing.T) { test(t, asked) })
	}
}

// checkArrival checks that a call reaches the backend of one partition, and returns it.
func (d *splitCluster) checkArrival(t *testing.T, what string, part int32, ask func()) (came call) {
	t.Helper()
	before := []int{len(d.backends[0].receivedCalls()), len(d.backends[1].receivedCalls())}
	ask()
	for i, home := range d.backends {
		got := home.receivedCalls()[before[i]:]
		if want := map[bool]int{true: 1}[int32(i) == part]; len(got) != want {
			t.Errorf("%s: %d calls came to partition %d, want %d", what, len(got), i, want)
		} else if want > 0 {
			came = got[0]
		}
	}
	return came
}

// exchange sends requests one after the other, and reads all answers.
func (m *member) exchange(ctx context.Context, method string, requests ...proto.Message) error {
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
		err = stream.RecvMsg(new(codec.Message))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// namespaceRequest returns a request that names a namespace, or none if namespace is "".
func namespaceRequest(m *router.Method, namespace string) proto.Message {
	req := m.NewRequest()
	for name, value := range map[protoreflect.Name]string{"namespace": namespace, "tenant": namespace + ":crew/writer"} {
		if field := req.ProtoReflect().Descriptor().Fields().ByName(name); field != nil && namespace != "" {
			req.ProtoReflect().Set(field, protoreflect.ValueOfString(value))
		}
	}
	return req
}

// TestEveryCallGoesToItsPartition: a call goes to the partition of the namespace in its first request.
// Without a namespace, it goes to the home of its caller.
func TestEveryCallGoesToItsPartition(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	d.fromEachNode(t, func(t *testing.T, asked *member) {
		for _, op := range policy.Operations {
			m := router.MethodOf(op.Name)
			if m == nil || m.Rule == router.NodeInfo || op.Space == policy.SpaceAll {
				continue
			}
			for namespace, part := range map[string]int32{"default": 0, "red": 1, "": 1, "nobody-s": 0} {
				requests := []proto.Message{namespaceRequest(m, namespace)}
				if m.Rule == router.Bidi {
					requests = append(requests, namespaceRequest(m, map[int32]string{0: "red", 1: "default"}[part]), m.NewRequest())
				}
				came := d.checkArrival(t, op.Name+" of "+namespace, part, func() {
					if err := asked.exchange(testContext(t), op.Name, requests...); err != nil {
						t.Errorf("%s of %q: %v", op.Name, namespace, err)
					}
				})
				if len(came.requests) != len(requests) {
					t.Errorf("%s of %q: %d requests came", op.Name, namespace, len(came.requests))
				}
			}
		}
	})
}

// TestATalkThatSaysNothing: a stream without a message goes to the home of its caller.
func TestATalkThatSaysNothing(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	d.fromEachNode(t, func(t *testing.T, asked *member) {
		d.checkArrival(t, "nothing", 1, func() {
			if err := asked.exchange(testContext(t), pawlv1.WorkerService_Work_FullMethodName); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestARequestToAnAgentGoesToItsPartition: a request goes to the partition of its tenant, for each binding
// and each way to name the tenant.
func TestARequestToAnAgentGoesToItsPartition(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	rpc := `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{%s"id":"x"}}`
	d.fromEachNode(t, func(t *testing.T, asked *member) {
		// A namespace that the caller does not have is refused in the caller's home partition.
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
				came := d.checkArrival(t, name+" of "+namespace, part, func() {
					resp := must(asked.ask(testContext(t), one[0], one[1], one[2], "Pawl-Part", "0"))(t)
					_ = resp.Body.Close()
				})
				if came.method != one[0]+" "+one[1] {
					t.Errorf("%s of %q: came as %s", name, namespace, came.method)
				}
			}
		}
	})
}

// TestAMoveDisturbsNoOther: while one partition moves between nodes, its streams continue. The streams of
// the other partition are not affected, also at a node that has both partitions for a while.
func TestAMoveDisturbsNoOther(t *testing.T) {
	t.Parallel()
	c, moves, stays := newTown(), newJournal(), newJournal()
	c.parts = map[string]int32{"default": 0, "red": 1}
	nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
	nodes[0].ownPartitions(moves.backend(), 0)
	nodes[1].ownPartitions(stays.backend(), 1)
	open := func(namespace string) (streams []grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]) {
		for _, n := range nodes {
			in := &pawlv1.StreamTransitionsRequest{Namespace: namespace, Follow: true}
			streams = append(streams, must(pawlv1.NewRunServiceClient(n.conn).StreamTransitions(testContext(t), in))(t))
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
		// No node has the moving partition now.
		stays.write(1)
		for i, stream := range staying {
			reads(t, i, stream, at+1, at+1)
		}
		nodes[(at+1)%2].ownPartitions(moves.backend(), 0)
	}
	if n := len(stays.requests()); n != len(staying) {
		t.Errorf("%d streams were opened for %d readers", n, len(staying))
	}
}

// TestALinkIsKept: if a node gives up one of its partitions, the streams to the other one stay open. The
// connections to a node that has no partition any more are closed.
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
	keeps.ownPartitions(newHouse(), 0)
	keeps.ownPartitions(j.backend(), 1)
	stopped.ownPartitions(hangs, 2)
	j.write(1)
	client := pawlv1.NewRunServiceClient(asked.conn)
	stream := must(client.StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{Namespace: "red", Follow: true}))(t)
	reads(t, 0, stream, 1, 1)
	read := make(chan error, 1)
	go func() {
		_, err := client.GetRun(testContext(t), &pawlv1.GetRunRequest{Namespace: "blue"})
		read <- err
	}()
	eventually(t, "a call", func() bool { return stopped.seats.At(2).InFlight() == 1 })
	keeps.leave(0)
	next.ownPartitions(newHouse(), 0, 2)
	if err := <-read; err != nil {
		t.Errorf("what reads, at a node that has nothing any more: %v", err)
	}
	j.write(1)
	reads(t, 0, stream, 2, 2)
	if n := len(j.requests()); n != 1 {
		t.Errorf("the stream of the partition that stayed was opened %d times", n)
	}
}

// TestANodeThatHasNotThePartition: a node refuses a call for a partition that it does not have with
// NOT_OWNER. It refuses a number that is no partition as a call that no node sends.
func TestANodeThatHasNotThePartition(t *testing.T) {
	t.Parallel()
	d := newDivided(t)
	ctx := auth.WithCaller(testContext(t), alice)
	stream := func(part int32) error {
		stream, err := d.c.clients.Stream(ctx, d.a.self, part, pawlv1.RunService_ExportRun_FullMethodName)
		if err == nil {
			err = stream.RecvMsg(new(codec.Message))
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
	if got := len(d.backends[0].receivedCalls()) + len(d.backends[1].receivedCalls()); got != 0 {
		t.Errorf("%d calls came", got)
	}
}
