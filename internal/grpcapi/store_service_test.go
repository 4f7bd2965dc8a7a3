package grpcapi

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/services"
)

// endlessStore writes a backup until the reader refuses its data. Its Stats returns when the caller has gone.
type endlessStore struct{ calls, ended chan string }

func (s *endlessStore) Partition() uint32 { return 0 }

func (s *endlessStore) Backup(_ context.Context, _ string, out io.Writer) error {
	defer func() { s.ended <- "backup" }()
	for {
		if _, err := out.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
	}
}

func (s *endlessStore) Check(context.Context, func(*pawlv1.CheckCounts) error) (*pawlv1.CheckCounts, *pawlv1.CheckFault, error) {
	return nil, nil, nil
}

func (s *endlessStore) Stats(ctx context.Context) (*pawlv1.StoreStats, error) {
	s.calls <- "stats"
	<-ctx.Done()
	s.ended <- "stats"
	return nil, ctx.Err()
}

// TestAServerThatGoesLetsTheStoreGo: a server that stops ends all calls of its store: a backup whose reader,
// over a real connection, has stopped reading, and a count that takes long.
func TestAServerThatGoesLetsTheStoreGo(t *testing.T) {
	t.Parallel()
	store := &endlessStore{calls: make(chan string, 1), ended: make(chan string, 2)}
	r := newRig(t, func(c *Config, _ *services.Config) { c.Store = store })
	client := pawlv1.NewStoreServiceClient(r.conn)
	stream, err := client.Backup(t.Context(), &pawlv1.BackupRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	counted := make(chan error, 1)
	go func() {
		_, err := client.GetStoreStats(t.Context(), &pawlv1.GetStoreStatsRequest{})
		counted <- err
	}()
	<-store.calls
	r.services.End()
	r.server.drain()
	for range 2 {
		<-store.ended
	}
	if err := <-counted; status.Code(err) != codes.Unavailable {
		t.Errorf("a count: %v", err)
	}
}
