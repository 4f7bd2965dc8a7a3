package pgserver_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestServersDieWithTheirTest: a process of tests that is killed leaves no server behind.
func TestServersDieWithTheirTest(t *testing.T) {
	t.Parallel()
	if os.Getenv("PAWL_TEST_ORPHAN") != "" {
		s := pgserver.Start(t)
		fmt.Printf("at %s\n", s.Addr())
		<-t.Context().Done()
	}
	pgserver.Require(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServersDieWithTheirTest$")
	cmd.Env = append(os.Environ(), "PAWL_TEST_ORPHAN=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgconn.Connect(t.Context(), pgserver.URL("postgres", strings.TrimSpace(strings.TrimPrefix(line, "at "))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	// No client sends a request. A server that lives would write nothing, and this loop would wait
	// without end.
	for err == nil {
		_, err = conn.ReceiveMessage(t.Context())
	}
}
