package runtime

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

func TestCursorRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []Cursor{{}, {Epoch: [16]byte{1, 15: 2}, Position: 1 << 60, Index: validate.WholeEntry}, {Position: 3, Index: 1}} {
		got, err := validate.ParseCursor(c.String())
		if err != nil || got != c {
			t.Fatalf("%+v -> %q -> %+v, %v", c, c.String(), got, err)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add(Cursor{Position: 7, Index: 2}.String())
	f.Add("")
	f.Add("not a cursor")
	f.Add("0000000000\r0000000000000000000000000")
	f.Fuzz(func(t *testing.T, token string) {
		c, err := validate.ParseCursor(token)
		if err == nil && c.String() != token {
			t.Fatalf("%q is read as %q", token, c.String())
		}
	})
}

func TestCanonicalBodies(t *testing.T) {
	t.Parallel()
	same := [][2]string{
		{`{"a":1,"b":[1,2]}`, ` { "b": [1, 2], "a": 1 }`},
		{`[{"x":{"z":1,"y":2}}]`, `[{"x":{"y":2,"z":1}}]`},
	}
	for _, pair := range same {
		if validate.PayloadHash([]byte(pair[0])) != validate.PayloadHash([]byte(strings.TrimSpace(pair[1]))) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	other := [][2]string{
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`},
		{`{"a":[1,2]}`, `{"a":[2,1]}`},
		{`{"a":1}`, `{"a":"1"}`},
		{`{"a":1`, `{"a":1}`},
	}
	for _, pair := range other {
		if validate.PayloadHash([]byte(pair[0])) == validate.PayloadHash([]byte(pair[1])) {
			t.Errorf("%s and %s are the same", pair[0], pair[1])
		}
	}
}

// TestBodiesAreFramed: moving a character from one field to the next changes
// the hash.
func TestBodiesAreFramed(t *testing.T) {
	t.Parallel()
	hash := func(c machine.Command) [32]byte {
		b := validate.NewBody(machine.KindOf(c))
		defer b.Free()
		b.Plain(c)
		return b.Sum()
	}
	part := func(text, mediaType string) machine.Command {
		return machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: text, MediaType: mediaType}}}
	}
	seen := map[[32]byte]string{}
	for _, c := range []machine.Command{
		part("ab", "c"), part("a", "bc"), part("abc", ""), machine.Pause{Note: "n"}, machine.Cancel{Note: "n"}, machine.Cancel{},
	} {
		h := hash(c)
		if before, ok := seen[h]; ok {
			t.Fatalf("%+v and %s have one hash", c, before)
		}
		seen[h] = fmt.Sprintf("%+v", c)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		` { "a" : " b " } `: `{"a":" b "}`, `{"a":" "}`: `{"a":" "}`, `1`: `1`, `{ bad`: `{ bad`, ``: ``,
	} {
		if got, changed := validate.Compact([]byte(in)); string(got) != want || changed != (in != want) {
			t.Errorf("compact(%q) = %q, %v", in, got, changed)
		}
	}
	g := &machine.Graph{Artifacts: map[string]machine.Artifact{
		"j": {Type: "application/problem+json; charset=utf-8"}, "t": {Type: "text/plain"},
	}}
	given := []machine.ArtifactWrite{{Name: "t", Value: []byte("[ 1 ]")}, {Name: "j", Value: []byte("[ 1 ]")}}
	got := validate.CompactWrites(g, given)
	if string(got[0].Value) != "[ 1 ]" || string(got[1].Value) != "[1]" || string(given[1].Value) != "[ 1 ]" {
		t.Fatalf("got %q, given %q", got, given)
	}
}

func TestConfigListsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		QueueLimit: -1, CacheBytes: -1, MaxVariableBytes: -1, MaxLabels: -1, MaxRunsInFlight: -1,
		TimersInFlight: -1, Namespaces: map[string]uint32{"a": 1, "b": 1, "": 2, "default": 3},
	})
	if err == nil {
		t.Fatal("the configuration was taken")
	}
	for _, word := range []string{
		"Store", "Clock", "IDs", "QueueLimit", "CacheBytes", "MaxVariableBytes", "MaxLabels",
		"MaxRunsInFlight", "TimersInFlight", "share number 1", "no name", "always 0",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no fault of %s in: %v", word, err)
		}
	}
}

// The tokens of a run that ends many turns are kept as long as those of a run that ends one.
func TestEndedTokensOfOneRunAreKept(t *testing.T) {
	t.Parallel()
	table := newTokenTable()
	end := func(key RunKey) {
		pair := table.runs[key]
		if pair == nil {
			pair = &tokenPair{}
			table.runs[key] = pair
		}
		table.addEnded(key, pair)
	}
	busy := RunKey{ID: "busy"}
	end(busy)
	for i := range endedTokens - 2 {
		end(RunKey{ID: fmt.Sprint(i)})
	}
	end(busy)
	for i := range endedTokens - 1 {
		end(RunKey{ID: fmt.Sprint("later ", i)})
		if table.runs[busy] == nil {
			t.Fatalf("the tokens are dropped after %d other runs, not after %d", i+1, endedTokens)
		}
	}
	end(RunKey{ID: "last"})
	if table.runs[busy] != nil {
		t.Fatal("the tokens of the oldest run are still there")
	}
}

func TestEndedTokensAreForgotten(t *testing.T) {
	t.Parallel()
	s := newRunTable(1, 1)
	held := 0
	for i := range 100_000 {
		key := RunKey{ID: fmt.Sprint(i)}
		s.issueToken(key, Grant{Token: "w", Turn: 1, Attempt: 1, Delivery: 1})
		s.retire(key, nil)
		if _, ok := s.findGrant(key, "w"); !ok {
			t.Fatal("the newest past token is unknown")
		}
	}
	for i := range s.shards {
		held += len(s.shards[i].tokens.runs)
	}
	if held > runShards*endedTokens {
		t.Fatalf("%d tokens are held", held)
	}
}
