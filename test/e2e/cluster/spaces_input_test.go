package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// aloneOnShares checks that a sidecar that shares its store with no other node is refused, with one
// line, if the namespaces are in several partitions, regardless of which partitions it serves.
func aloneOnShares(t *testing.T) {
	primary, _ := pgserver.StartWithStandby(t, pgserver.Synchronous, pgserver.Durable())
	url := primary.URL("postgres")
	several := startNode(t, url, "--peer-listen", "127.0.0.1:0", "--namespace", "blue", "--namespace", "green")
	several.run("first")
	several.ended()
	for _, spaces := range [][]string{nil, {"--namespace", "blue"}, {"--namespace", "blue", "--namespace", "green"}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--store", url}, spaces...)
		command := exec.CommandContext(ctx, binary(t), args...)
		command.Env = []string{} // without the variables of the tests, of which a sidecar warns
		out, err := command.CombinedOutput()
		cancel()
		output := string(out)
		if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 1 {
			t.Errorf("%v: %v", spaces, err)
		}
		if !strings.Contains(output, "SCHEMA_SHARED: ") || !strings.Contains(output, "in 3 partitions") || !strings.Contains(output, "--peer-listen") {
			t.Errorf("%v: it says: %s", spaces, output)
		}
		if strings.Count(strings.TrimSpace(output), "\n") > 0 || strings.Contains(output, pgserver.Password) {
			t.Errorf("%v: it says more than one line, or the password: %s", spaces, output)
		}
	}
	several.start()
	several.ended()
}

// fewerSpaces: a node serves what its own configuration has. A namespace that only others serve it
// neither answers for nor takes, also when they are gone.
func fewerSpaces(t *testing.T) {
	server := pgserver.Start(t)
	var nodes []*node
	for name, spaces := range map[string][]string{"wide": {"--namespace", "blue", "--namespace", "green"}, "narrow": {"--namespace", "blue"}} {
		n := newNode(t, name, append([]string{"--pack", "testdata/ping.pack.json", accepted, "--store", server.URL("postgres")}, spaces...)...)
		n.joinCluster()
		n.start()
		nodes = append(nodes, n)
	}
	wide, narrow := nodes[0], nodes[1]
	if wide.name != "wide" {
		wide, narrow = narrow, wide
	}
	green := server.Query(t, "postgres", "SELECT part FROM pawl.namespace WHERE name = 'green'")
	has := func(n *node, where string) string {
		return fmt.Sprintf("(SELECT coalesce(bool_and(lease_until > now() AND address = '%s'), false) FROM pawl.part WHERE %s)", n.peers.Addr(), where)
	}
	server.Await(t, "postgres", "SELECT "+has(wide, "id = "+green))
	if err := listed(wide, "green"); err != nil {
		t.Error(err)
	}
	refuses := func(when string) {
		t.Helper()
		for _, err := range []error{listed(narrow, "green"), followed(narrow, "green")} {
			st := status.Convert(err)
			if play.Reason(err) != "NAMESPACE_NOT_FOUND" || st.Code() != codes.NotFound || !strings.Contains(fmt.Sprint(st.Details()), "blue, default") {
				t.Errorf("%s: %v, %v", when, err, st.Details())
			}
		}
		if err := listed(narrow, "blue"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	refuses("beside the other")
	wide.ended()
	server.Await(t, "postgres", "SELECT "+has(narrow, "id <> "+green))
	refuses("alone")
	lives := "(SELECT max(lease_until) FROM pawl.node WHERE address = '" + narrow.peers.Addr() + "')"
	from := server.Query(t, "postgres", "SELECT "+lives)
	server.Await(t, "postgres", "SELECT "+lives+" > '"+from+"'::timestamptz + interval '5 s'")
	if owner := server.Query(t, "postgres", "SELECT owner FROM pawl.part WHERE id = "+green); owner != "" {
		t.Errorf("%s has taken what it does not serve", owner)
	}
	wide.start()
	if err := listed(wide, "green"); err != nil {
		t.Error(err)
	}
	wide.ended()
	narrow.ended()
}

// listed asks a node for the runs of a namespace.
func listed(n *node, space string) error {
	_, err := play.Retry(n.t.Context(), func(ctx context.Context) (*pawlv1.ListRunsResponse, error) {
		return pawlv1.NewRunServiceClient(n.dial()).ListRuns(ctx, &pawlv1.ListRunsRequest{Namespace: space})
	})
	return err
}

// followed asks a node for all that happens in a namespace.
func followed(n *node, space string) error {
	stream, err := pawlv1.NewRunServiceClient(n.dial()).StreamTransitions(n.t.Context(), &pawlv1.StreamTransitionsRequest{Namespace: space, Follow: true})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}
