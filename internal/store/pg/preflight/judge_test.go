package preflight

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestJudge: a setting with which an acknowledged commit can be lost is refused, or reported by name if the
// operator accepts it.
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
		// plain is the reason of the refusal if the operator accepts nothing. sync is the reason with
		// --require-sync. `told` is the report if the operator accepts the setting.
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
			_, err := Judge(tt.server, "postgres://db/runs", "pawl", Requirements{Served: true})
			checkVerdict(t, "plain", err, tt.plain)
			_, err = Judge(tt.server, "postgres://db/runs", "pawl", Requirements{Served: true, Lossy: true, Sync: true})
			checkVerdict(t, "required", err, tt.sync)
			told, err := Judge(tt.server, "postgres://db/runs", "pawl", Requirements{Served: true, Lossy: true})
			if tt.plain == Lossy {
				checkVerdict(t, "accepted", err, "")
			}
			if got := strings.Join(told, "\n"); !strings.Contains(got, tt.told) || (tt.told == "") != (got == "") {
				t.Errorf("told %q, want %q", got, tt.told)
			}
			if _, err = Judge(tt.server, "postgres://db/runs", "pawl", Requirements{}); tt.plain == Lossy {
				checkVerdict(t, "looked at", err, "")
			}
		})
	}
}

// TestJudgeOfWhatIsLookedAt: a command that only reads a store is refused if there is no store.
func TestJudgeOfWhatIsLookedAt(t *testing.T) {
	t.Parallel()
	empty := Server{Version: 150004, Fsync: "on", FullPages: "on", Commit: "on"}
	_, err := Judge(empty, "postgres://db/runs", "pawl", Requirements{})
	checkVerdict(t, "looked at", err, SchemaNone)
	_, err = Judge(empty, "postgres://db/runs", "pawl", Requirements{Make: true})
	checkVerdict(t, "made", err, "")
}

func checkVerdict(t *testing.T, how string, err error, want Reason) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == want {
		return
	}
	if err != nil || want != "" {
		t.Errorf("%s: %v, want %q", how, err, want)
	}
}
