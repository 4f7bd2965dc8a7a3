package pgserver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// shared is the one server of this process of tests.
var shared struct {
	once   sync.Once
	server *Server
	err    error
	// made numbers its databases.
	made atomic.Int64
}

// Shared returns the server that the tests of this binary share. A test that kills or pauses its server starts its own.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	Require(tb)
	shared.once.Do(func() { shared.server, shared.err = Launch() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package and ends the shared server after them.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.End()
	}
	os.Exit(code)
}

// Database makes an empty database on the shared server and answers its URL. It is dropped
// when the test ends.
func Database(tb testing.TB) string {
	tb.Helper()
	return Shared(tb).Database(tb)
}

// Database makes an empty database and answers its URL. It is dropped when the test ends.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d", shared.made.Add(1))
	s.Query(tb, "postgres", "CREATE DATABASE "+name)
	tb.Cleanup(func() {
		if !s.runs() {
			return
		}
		if _, err := s.query("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Error(errors.Join(fmt.Errorf("database %s", name), err))
		}
	})
	return s.URL(name)
}
