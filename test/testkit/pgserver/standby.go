package pgserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Standby is how far a server's standby is behind it.
type Standby int

const (
	// Asynchronous means that the server answers a commit before its standby has it.
	Asynchronous Standby = iota
	// Synchronous means that the server answers a commit after its standby has synced it.
	Synchronous
)

// StartWithStandby starts a server and a standby that streams from it.
func StartWithStandby(tb testing.TB, kind Standby, options ...Option) (primary, standby *Server) {
	tb.Helper()
	primary = Start(tb, options...)
	return primary, primary.AddStandby(tb, kind, primary.Addr())
}

// AddStandby starts a standby of the server, which streams from it by way of the address:
// its own, or that of a relay to it. It answers when the standby streams.
func (s *Server) AddStandby(tb testing.TB, kind Standby, way string) *Server {
	tb.Helper()
	name := fmt.Sprintf("standby%d", s.names.Add(1))
	standby, err := s.standby(name, way)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(standby.End)
	where := "FROM pg_stat_replication WHERE application_name = '" + name + "' AND "
	s.Await(tb, "postgres", "SELECT count(*) = 1 "+where+"state = 'streaming'")
	if kind == Synchronous {
		s.Set(tb, map[string]string{"synchronous_standby_names": name})
		s.Await(tb, "postgres", "SELECT count(*) = 1 "+where+"sync_state = 'sync'")
	}
	return standby
}

// standby copies the server and starts the copy.
func (s *Server) standby(name, way string) (*Server, error) {
	backup, err := binary("pg_basebackup")
	if err != nil {
		return nil, err
	}
	made := &Server{settings: defaults()}
	if made.place, err = newPlace(); err != nil {
		return nil, err
	}
	err = run(backup, "--no-sync", "--wal-method=stream", "--checkpoint=fast", "-D", made.place.data(), "-d", s.URL("postgres"))
	if err != nil {
		made.End()
		return nil, err
	}
	for _, kept := range []string{"fsync", "max_connections", "synchronous_commit"} {
		if value, ok := s.settings[kept]; ok {
			made.settings[kept] = value
		}
	}
	host, port, _ := strings.Cut(way, ":")
	made.settings["primary_conninfo"] = fmt.Sprintf("host=%s port=%s user=%s application_name=%s sslmode=disable", host, port, userName, name)
	// A primary that is gone is asked again soon.
	made.settings["wal_retrieve_retry_interval"] = "100ms"
	if err := errors.Join(made.place.put("standby.signal", ""), made.listen()); err != nil {
		made.End()
		return nil, err
	}
	return made, nil
}

// Promote makes a standby a server that takes writes.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	s.Query(tb, "postgres", "SELECT pg_promote(true, 60)")
	s.Await(tb, "postgres", "SELECT NOT pg_is_in_recovery()")
}
