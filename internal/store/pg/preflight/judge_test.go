package preflight

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestJudge: each setting by which an acknowledged commit is lost is refused or told by name.
func TestJudge(t *testing.T) {
	t.Parallel()
	good := Server{Version: 150004, Fsync: "on", FullPages: "on", Commit: "on", Standbys: "*", Following: 1, Schema: Schema{Tables: 6, Versions: true, Part: true}}
	with := func(change func(*Server)) Server {
		s := good
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		server Server
		// reason without anything accepted, reason with --require-sync; told when accepted.
		plain, sync Reason
		told        string
	}{
		"good":         {server: good},
		"remote apply": {server: with(func(s *Server) { s.Commit = "remote_apply" })},
		"remote write": {server: with(func(s *Server) { s.Commit = "remote_write" }), sync: NotFollowed, told: "remote_write"},
		"local":        {server: with(func(s *Server) { s.Commit = "local" }), plain: Lossy, sync: NotFollowed, told: "synchronous_commit is local"},
		"off":          {server: with(func(s *Server) { s.Commit = "off" }), plain: Lossy, sync: NotFollowed, told: "synchronous_commit is off"},
		"no fsync":     {server: with(func(s *Server) { s.Fsync = "off" }), plain: Lossy, sync: NotFollowed, told: "fsync is off"},
		"no pages":     {server: with(func(s *Server) { s.FullPages = "off" }), plain: Lossy, sync: NotFollowed, told: "full_page_writes is off"},
		"alone":        {server: with(func(s *Server) { s.Standbys = "" }), plain: Lossy, sync: NotFollowed, told: "synchronous_standby_names is empty"},
		"nobody":       {server: with(func(s *Server) { s.Following = 0 }), sync: NotFollowed},
		"hidden":       {server: with(func(s *Server) { s.Following, s.Hidden = 0, true }), sync: NotFollowed},
		"ahead":        {server: with(func(s *Server) { s.Ahead = time.Hour }), told: "1h0m0s before"},
		"behind":       {server: with(func(s *Server) { s.Ahead = -time.Hour }), told: "1h0m0s behind"},
		"old":          {server: with(func(s *Server) { s.Version = 140010 }), plain: TooOld, sync: TooOld},
		"standby":      {server: with(func(s *Server) { s.Recovering = true }), plain: ReadOnly, sync: ReadOnly},
		"foreign":      {server: with(func(s *Server) { s.Schema = Schema{Tables: 3} }), plain: SchemaOther, sync: SchemaOther},
		"versions":     {server: with(func(s *Server) { s.Schema = Schema{Tables: 3, Versions: true} }), plain: SchemaOther, sync: SchemaOther},
		"a part":       {server: with(func(s *Server) { s.Schema = Schema{Tables: 3, Part: true} }), plain: SchemaOther, sync: SchemaOther},
		"reserved":     {server: with(func(s *Server) { s.Schema = Schema{Reserved: true} }), plain: SchemaReserved, sync: SchemaReserved},
		"begun":        {server: with(func(s *Server) { s.Schema = Schema{Tables: 1, Versions: true} })},
		"new":          {server: with(func(s *Server) { s.Schema = Schema{} })},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Judge(tt.server, "postgres://db/runs", "pawl", Wanted{Served: true})
			judged(t, "plain", err, tt.plain)
			_, err = Judge(tt.server, "postgres://db/runs", "pawl", Wanted{Served: true, Lossy: true, Sync: true})
			judged(t, "required", err, tt.sync)
			told, err := Judge(tt.server, "postgres://db/runs", "pawl", Wanted{Served: true, Lossy: true})
			if tt.plain == Lossy {
				judged(t, "accepted", err, "")
			}
			if got := strings.Join(told, "\n"); !strings.Contains(got, tt.told) || (tt.told == "") != (got == "") {
				t.Errorf("told %q, want %q", got, tt.told)
			}
			if _, err = Judge(tt.server, "postgres://db/runs", "pawl", Wanted{}); tt.plain == Lossy {
				judged(t, "looked at", err, "")
			}
		})
	}
}

// TestJudgeOfWhatIsLookedAt: a store is looked at where there is one.
func TestJudgeOfWhatIsLookedAt(t *testing.T) {
	t.Parallel()
	empty := Server{Version: 150004, Fsync: "on", FullPages: "on", Commit: "on"}
	_, err := Judge(empty, "postgres://db/runs", "pawl", Wanted{})
	judged(t, "looked at", err, SchemaNone)
	_, err = Judge(empty, "postgres://db/runs", "pawl", Wanted{Make: true})
	judged(t, "made", err, "")
}

func judged(t *testing.T, how string, err error, want Reason) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == want {
		return
	}
	if err != nil || want != "" {
		t.Errorf("%s: %v, want %q", how, err, want)
	}
}
