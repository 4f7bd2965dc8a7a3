package runtime

import (
	"crypto/subtle"
	"slices"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// endedTokens bounds, for each shard, the number of runs without an open turn whose last token is still
// known.
const endedTokens = 256

// tokenPair holds two tokens of a run: the token of the open turn, and the token of the turn or attempt
// before it. The previous token is kept so that its holder can learn that its answer came too late.
type tokenPair struct {
	open, past Grant
	// fenced are earlier tokens of the open turn, which a newer token replaced.
	fenced []Grant
}

// maxFenced bounds the number of fenced tokens. Above it, the oldest one is dropped.
const maxFenced = 8

// tokenTable keeps the tokens of a shard's runs only in memory, so after a restart every token is
// stale. cache.LRU is not used, because an open token must not be evicted.
type tokenTable struct {
	runs map[RunKey]*tokenPair
	// ended is a ring of runs that had no open turn when they were added.
	ended []RunKey
	next  int
}

func newTokenTable() tokenTable { return tokenTable{runs: make(map[RunKey]*tokenPair)} }

// tokenStatus compares the token of a request with the token of the open turn.
func (s *runTable) tokenStatus(key RunKey, turn *machine.Turn, token string) (policy.Token, Grant) {
	if token == "" {
		return policy.TokenAbsent, Grant{}
	}
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	if pair == nil || turn == nil || !pair.open.is(token) || !pair.open.of(turn) {
		return policy.TokenStale, Grant{}
	}
	return policy.TokenHeld, pair.open
}

// TokenOut returns the open turn of a run if a caller has a token for it. It returns 0 if there is
// none.
func (e *Engine) TokenOut(key RunKey) uint64 { return e.runTable.holding(key) }

// holding returns the open turn of a run if a caller has a token for it. It returns 0 if there is none.
func (s *runTable) holding(key RunKey) uint64 {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil && pair.open.Token != "" {
		return pair.open.Turn
	}
	return 0
}

// known finds a token among the open and the past token of the run. It also finds a token whose turn
// has ended.
func (s *runTable) known(key RunKey, token string) (Grant, bool) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	switch {
	case pair == nil || token == "":
		return Grant{}, false
	case pair.open.is(token):
		return pair.open, true
	case pair.past.is(token):
		return pair.past, true
	}
	return Grant{}, false
}

// fenced returns the execution of a token that a newer token replaced. It returns the zero value if
// there is no such token.
func (s *runTable) fenced(key RunKey, token string) Grant {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil {
		if i := slices.IndexFunc(pair.fenced, func(g Grant) bool { return g.is(token) }); i >= 0 {
			return pair.fenced[i]
		}
	}
	return Grant{}
}

// current returns the token of the open turn if it was issued to the principal.
func (s *runTable) current(key RunKey, turn *machine.Turn, principal string) string {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil && pair.open.of(turn) && pair.open.principal == principal {
		return pair.open.Token
	}
	return ""
}

// issue makes tok the token of the open turn and fences the older token of the same execution. It
// returns false if the table has a later turn, because then the caller's state is out of date.
func (s *runTable) issue(key RunKey, tok Grant) bool {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	if pair == nil {
		pair = &tokenPair{}
		shard.tokens.runs[key] = pair
	}
	open := pair.open
	switch {
	case open.Turn > tok.Turn || open.Turn == tok.Turn && open.Attempt > tok.Attempt:
		return false
	case open.Turn == tok.Turn && open.Attempt == tok.Attempt:
		tok.Delivery = max(tok.Delivery, open.Delivery+1)
		pair.fenced = append(pair.fenced[max(0, len(pair.fenced)-maxFenced+1):], open)
	case open.Token != "":
		pair.past, pair.fenced = open, nil
	}
	pair.open = tok
	return true
}

// retire makes the open token the past token, because its turn has ended.
func (s *runTable) retire(key RunKey, turn *machine.Turn) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	pair := shard.tokens.runs[key]
	if pair == nil || pair.open.Token == "" || turn != nil && pair.open.of(turn) {
		return
	}
	pair.fenced = nil
	pair.past, pair.open = pair.open, Grant{Turn: pair.open.Turn, Attempt: pair.open.Attempt}
	shard.tokens.age(key)
}

// age adds a run without an open token to the ring. If the ring is full, age drops the tokens of the
// oldest run in it.
func (t *tokenTable) age(key RunKey) {
	if len(t.ended) < endedTokens {
		t.ended = append(t.ended, key)
		return
	}
	if pair := t.runs[t.ended[t.next]]; pair != nil && pair.open.Token == "" {
		delete(t.runs, t.ended[t.next])
	}
	t.ended[t.next] = key
	t.next = (t.next + 1) % endedTokens
}

// counted sets the number of step requests that were made under a token. If a newer token has replaced
// this token, counted does nothing.
func (s *runTable) counted(key RunKey, token string, requests int) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if pair := shard.tokens.runs[key]; pair != nil && pair.open.is(token) {
		pair.open.Requests = requests
	}
}

func (t *Grant) is(token string) bool {
	return t.Token != "" && subtle.ConstantTimeCompare([]byte(t.Token), []byte(token)) == 1
}

func (t *Grant) of(turn *machine.Turn) bool {
	return t.Token != "" && turn != nil && t.Turn == turn.Seq && t.Attempt == turn.Attempt
}
