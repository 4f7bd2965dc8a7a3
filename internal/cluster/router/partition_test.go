package router

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// newSplitRouter returns a router of a store with two partitions, and the context of a caller whose home is
// in the second one.
func newSplitRouter(seats *Slots) (*Router, context.Context) {
	router := New(Config{Slots: seats, Directory: emptyDirectory{}, Parts: func(namespace string) int32 {
		return map[string]int32{"red": 1}[namespace]
	}})
	return router, auth.WithCaller(context.Background(), &auth.Caller{Principal: policy.Principal{Namespaces: []string{"red", "default"}}})
}

// TestThePartitionOfARequest: a request goes to the partition of the namespace that the backend will read
// from it.
func TestThePartitionOfARequest(t *testing.T) {
	t.Parallel()
	router, ctx := newSplitRouter(NewSlots())
	for name, one := range map[string]struct {
		ctx  context.Context
		req  any
		want int32
	}{
		"of a field": {ctx, &pawlv1.GetRunRequest{Namespace: "default"}, 0},
		"at home":    {ctx, &pawlv1.GetRunRequest{}, 1}, "of nobody": {context.Background(), &pawlv1.GetRunRequest{}, 0},
		"of a tenant": {ctx, &a2apb.GetTaskRequest{Tenant: "default:crew/writer"}, 0}, "an agent at home": {ctx, &a2apb.GetTaskRequest{Tenant: "crew/writer"}, 1},
		"a digest": {ctx, &a2apb.GetTaskRequest{Tenant: "sha256:00/writer"}, 1}, "over HTTP": {ctx, tenant("default:crew/writer"), 0}, "without a tenant": {ctx, tenant(""), 1},
		"not served": {ctx, &pawlv1.GetRunRequest{Namespace: "green"}, 0}, "of no namespace": {ctx, &pawlv1.GetStoreStatsRequest{}, 0},
	} {
		if got := router.partOf(one.ctx, one.req); got != one.want {
			t.Errorf("%s: in %d", name, got)
		}
	}
}

// TestEveryMethodHasAPartition: a request goes to the partition of its namespace, unless it is about the
// whole store. Such a request goes to the first partition.
func TestEveryMethodHasAPartition(t *testing.T) {
	t.Parallel()
	whole := map[string]bool{}
	for _, op := range policy.Operations {
		whole[op.Name] = op.Space == policy.SpaceAll
	}
	router, ctx := newSplitRouter(NewSlots())
	for name, m := range methods {
		want := int32(1)
		if whole[name] {
			want = 0
		}
		if got := router.partOf(ctx, m.NewRequest()); got != want {
			t.Errorf("%s is in %d, want %d", name, got, want)
		}
	}
}

// TestAnAgentThatThisNodeDoesNotServe: this node refuses an agent of a namespace that it does not serve,
// even if another node serves it. If the caller has no right to the namespace, the request goes to the
// caller's home partition.
func TestAnAgentThatThisNodeDoesNotServe(t *testing.T) {
	t.Parallel()
	router := New(Config{
		Slots: NewSlots(), Directory: emptyDirectory{}, OwnerTimeout: time.Millisecond,
		Parts:  func(namespace string) int32 { return map[string]int32{"red": 1, "blue": 2}[namespace] },
		Served: func(_ context.Context, namespace string) error { return validate.NotServed(namespace, []string{"red"}) },
		Tenant: func(*http.Request, []byte) string { return "blue:crew/writer" },
	})
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks/x", http.NoBody))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "NAMESPACE_NOT_FOUND") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	red := auth.WithCaller(t.Context(), &auth.Caller{Principal: policy.Principal{Subject: "a", Namespaces: []string{"red"}}})
	for _, name := range []string{"blue:crew/writer", "nobody-s:crew/writer"} {
		if part, err := router.partOfAgent(red, tenant(name)); part != 1 || err != nil {
			t.Errorf("%s: in %d, %v", name, part, err)
		}
	}
}

// TestWhoCalls: the node that receives the call answers it, with or without an owner. The answer has the
// namespaces that the node serves and the caller has, with the caller's home first.
func TestWhoCalls(t *testing.T) {
	t.Parallel()
	router := New(Config{Slots: NewSlots(), Directory: emptyDirectory{}, Partitions: []Partition{{Number: 0, Namespaces: []string{"default"}}, {Number: 3, Namespaces: []string{"red", "blue"}}}})
	for name, c := range map[string]struct {
		principal policy.Principal
		want      *pawlv1.GetCallerResponse
	}{
		"kept to some": {policy.Principal{Subject: "a", Namespaces: []string{"red", "green", "default"}}, &pawlv1.GetCallerResponse{Principal: "a", Namespaces: []string{"red", "default"}}},
		"of all":       {policy.Principal{Subject: "b"}, &pawlv1.GetCallerResponse{Principal: "b", Namespaces: []string{"default", "blue", "red"}}},
	} {
		ctx := auth.WithCaller(t.Context(), &auth.Caller{Principal: c.principal})
		got, err := router.Unary(ctx, &pawlv1.GetCallerRequest{}, &grpc.UnaryServerInfo{FullMethod: pawlv1.RunService_GetCaller_FullMethodName}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mustBe(t, got.(*pawlv1.GetCallerResponse), c.want)
	}
}

// TestACallIsMadeAtItsSeat: a call is executed in the slot of its partition or is refused.
func TestACallIsMadeAtItsSeat(t *testing.T) {
	t.Parallel()
	seats := NewSlots()
	router, _ := newSplitRouter(seats)
	home := newHall()
	close(home.free)
	seats.At(1).Attach(home)
	method := pawlv1.RunService_GetRun_FullMethodName
	if _, err := router.Local(t.Context(), 0, method, &pawlv1.GetRunRequest{}); reasonOf(err) != reasonNotOwner {
		t.Errorf("a call in another partition got %v", err)
	}
	if err := router.LocalStream(0, pawlv1.RunService_GetBlob_FullMethodName, unread{ctx: t.Context()}); reasonOf(err) != reasonNotOwner {
		t.Errorf("a stream in another partition got %v", err)
	}
	if _, err := router.Local(t.Context(), 1, method, &pawlv1.GetRunRequest{}); err != nil || len(home.entered) != 1 {
		t.Errorf("%d calls came, %v", len(home.entered), err)
	}
}

// silentStream is the stream of a caller that sends nothing until its call is over.
type silentStream struct {
	unread
	reads, ended chan struct{}
}

func (m silentStream) RecvMsg(any) error {
	close(m.reads)
	<-m.ended
	return errGone
}

var errGone = errors.New("the caller is gone")

// TestATalkBeginsWithItsFirstMessage: the router opens no stream before the first message of the caller. It
// stops waiting for the message if the server drains or the caller disconnects.
func TestATalkBeginsWithItsFirstMessage(t *testing.T) {
	t.Parallel()
	info := &grpc.StreamServerInfo{FullMethod: pawlv1.WorkerService_Work_FullMethodName}
	for name, one := range map[string]struct {
		end  func(router *Router, from silentStream)
		want func(error) bool
	}{
		"a server that ends":  {func(router *Router, _ silentStream) { router.Drain() }, func(err error) bool { return reasonOf(err) == reasonDraining }},
		"a caller who breaks": {func(_ *Router, from silentStream) { close(from.ended) }, func(err error) bool { return errors.Is(err, errGone) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seats := NewSlots()
			router, ctx := newSplitRouter(seats)
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			home := newHall()
			for part := range int32(2) {
				seats.At(part).Attach(home)
			}
			ended, from := make(chan error, 1), silentStream{unread{ctx: ctx}, make(chan struct{}), make(chan struct{})}
			go func() { ended <- router.Stream(nil, from, info, nil) }()
			<-from.reads
			one.end(router, from)
			select {
			case err := <-ended:
				if !one.want(err) {
					t.Errorf("ended with %v", err)
				}
			case <-home.entered:
				t.Error("it came in")
				stop()
				<-ended
			}
		})
	}
}

// TestACallWaitsForItsPartition: a call is executed as soon as a backend comes to the slot of its
// partition. A backend in another slot does not cause a try.
func TestACallWaitsForItsPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seats := NewSlots()
		router, ctx := newSplitRouter(seats)
		counts := &retries{}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		router.cfg.Counts, router.cfg.Directory = counts, &lane{stop: stop}
		home := newHall()
		close(home.free)
		answered := make(chan error, 1)
		go func() {
			_, err := router.Unary(ctx, &pawlv1.GetRunRequest{}, &grpc.UnaryServerInfo{FullMethod: pawlv1.RunService_GetRun_FullMethodName}, nil)
			answered <- err
		}()
		// The pauses of the call are long by then.
		time.Sleep(time.Second)
		synctest.Wait()
		before := counts.Load()
		time.Sleep(pauses[len(pauses)-1] / 10)
		seats.At(0).Attach(newHall())
		synctest.Wait()
		if n := counts.Load() - before; n != 0 {
			t.Errorf("it was made %d times more for another partition", n)
		}
		came := time.Now()
		seats.At(1).Attach(home)
		if err := <-answered; err != nil || !time.Now().Equal(came) {
			t.Errorf("answered %v later: %v", time.Since(came), err)
		}
	})
}

// retries counts the retries.
type retries struct {
	uncounted
	atomic.Int64
}

func (r *retries) Retried(string) { r.Add(1) }
