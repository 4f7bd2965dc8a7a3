package pg_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// TestAnotherHostIsNotCut: the driver asks the first of two hosts whether it accepts writes, and the host
// disconnects. The driver ends this session in the background and connects to the second host. A later
// timeout must cut the connection to the second host.
func TestAnotherHostIsNotCut(t *testing.T) {
	t.Parallel()
	server := pgserver.Shared(t)
	first := relay.Start(t, server.Addr())
	cfg, err := pgx.ParseConfig(pgserver.URL("postgres", first.Addr(), server.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnectTimeout = time.Minute
	first.LoseAnswer("transaction_read_only")
	dial, came, second := cfg.DialFunc, 0, make(chan struct{})
	ended := make(chan struct{})
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(server.Addr(), address[strings.LastIndex(address, ":"):]) {
			defer close(second)
			return dial(ctx, network, address)
		}
		if came++; came == 1 {
			return dial(ctx, network, address)
		}
		// The driver tries to end the first session. It learns only now that this is impossible.
		<-second
		close(ended)
		return nil, errors.New("the host is gone")
	}
	err = pg.ExecOn(cfg, 200*time.Millisecond, func(conn *pgx.Conn) error {
		<-ended
		_, err := conn.Exec(context.Background(), "SELECT pg_sleep(60)")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("%v", err)
	}
}
