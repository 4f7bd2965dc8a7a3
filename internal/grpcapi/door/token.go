package door

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// MinTokenBytes is the shortest bearer token that is taken.
const MinTokenBytes = 16

// Token is one static bearer token and what its holder may do.
type Token struct {
	// Principal is the holder's name; it is recorded on what the holder causes.
	// 1 to 128 of letters, digits and . _ @ : / -; not "anonymous" nor one of the
	// sidecar's own, "pawl", "sidecar" and "a2a".
	Principal string
	// Secret is what the holder sends as "authorization: Bearer <secret>", at
	// least MinTokenBytes printable ASCII characters without spaces.
	Secret string
	// Scopes are the holder's rights, at least one.
	Scopes runtime.Scopes
}

// reservedNames are the sidecar's own: it owns its delegations' tasks as "pawl".
var reservedNames = []string{Anonymous.Name, "pawl", "sidecar", "a2a"}

var principalName = regexp.MustCompile(`^[A-Za-z0-9._@:/-]{1,128}$`)

// ReadTokens reads a token file. Each line that is neither empty nor a comment
// (#) has three fields parted by spaces or tabs:
//
//	PRINCIPAL  SCOPE[,SCOPE...]  TOKEN
//	ci-deploy  packs:write       o8Zc2mJ5hQ1rT7vX
//	approvals  runs:read,events:external  Yp4dW9sK2nB6gL0e
//
// A file that others may write, or everybody may read, is refused. All other faults
// are reported at once, by line; no error repeats a token.
func ReadTokens(path string) ([]Token, error) {
	raw, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	tokens, err := parseTokens(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	return tokens, nil
}

func parseTokens(r io.Reader) ([]Token, error) {
	var tokens []Token
	var faults []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		token, err := parseToken(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		tokens = append(tokens, token)
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, err)
	}
	if len(tokens) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("no token in it; want lines of PRINCIPAL SCOPES TOKEN"))
	}
	return tokens, errors.Join(faults...)
}

func parseToken(line string) (Token, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return Token{}, fmt.Errorf("%d fields; want PRINCIPAL SCOPE[,SCOPE...] TOKEN", len(fields))
	}
	scopes, err := ParseScopes(fields[1])
	if err != nil {
		return Token{}, err
	}
	return Token{Principal: fields[0], Secret: fields[2], Scopes: scopes}, nil
}

// validate reports the first fault of a token, without its secret.
func (t Token) validate() error {
	switch {
	case !principalName.MatchString(t.Principal) || slices.Contains(reservedNames, t.Principal):
		return fmt.Errorf("principal %q: want 1 to 128 of letters, digits and . _ @ : / -, none of %s", t.Principal, strings.Join(reservedNames, ", "))
	case len(t.Secret) < MinTokenBytes:
		return fmt.Errorf("token of %q has %d characters; want at least %d", t.Principal, len(t.Secret), MinTokenBytes)
	case !Printable(t.Secret) || strings.Contains(t.Secret, " "):
		return fmt.Errorf("token of %q: want printable ASCII without spaces", t.Principal)
	case t.Scopes == 0:
		return fmt.Errorf("principal %q has no scope; known scopes are %s", t.Principal, knownScopes())
	}
	return nil
}

// TokenSet answers who holds a token. It keeps digests only, so that a
// comparison takes the same time for every token and none stays in memory.
type TokenSet struct {
	digests    [][sha256.Size]byte
	Principals []*Caller
}

// NewTokenSet checks the tokens and reports all faults at once.
func NewTokenSet(tokens []Token) (*TokenSet, error) {
	set := &TokenSet{}
	var faults []error
	for _, t := range tokens {
		if err := t.validate(); err != nil {
			faults = append(faults, err)
			continue
		}
		digest := sha256.Sum256([]byte(t.Secret))
		if set.find(digest) != nil {
			faults = append(faults, fmt.Errorf("principal %q has the token of another principal", t.Principal))
			continue
		}
		set.digests = append(set.digests, digest)
		set.Principals = append(set.Principals, &Caller{Principal: runtime.Principal{Name: t.Principal, Scopes: t.Scopes}, token: digest})
	}
	return set, errors.Join(faults...)
}

// find compares with every token, whichever matches, and returns nil for none.
func (s *TokenSet) find(digest [sha256.Size]byte) *Caller {
	found := -1
	for i := range s.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(s.digests[i][:], digest[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return s.Principals[found]
}

// Empty reports whether authentication by tokens is off.
func (s *TokenSet) Empty() bool { return len(s.digests) == 0 }

// Printable reports whether a text is printable ASCII.
func Printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
