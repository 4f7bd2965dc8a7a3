package auth

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// MinTokenBytes is the length of the shortest accepted bearer token.
const MinTokenBytes = 16

// Token is a static bearer token with the rights of its holder.
type Token struct {
	// Principal is the name of the holder. It is recorded in everything that the holder changes. It has
	// 1 to 128 characters: letters, digits and . _ @ : / -. It must not be a name of [policy.Reserved].
	Principal string
	// Digest is the SHA-256 of the secret in the header "authorization: Bearer <secret>".
	Digest [sha256.Size]byte
	// Secret is the secret itself. It is set for a token that the process creates for itself, and has
	// at least MinTokenBytes printable ASCII characters without spaces. Digest is then zero.
	Secret string
	// Scopes are the holder's rights, at least one.
	Scopes runtime.Scopes
	// Namespaces are the namespaces in which the scopes hold. nil means all.
	Namespaces []string
}

// digestForm is the prefix of a digest in a tokens file.
const digestForm = "sha256:"

// randomTokenBytes is the number of random bytes in a new token. 256 bits cannot be guessed, so a
// reader of the tokens file cannot find the token that belongs to a plain digest.
const randomTokenBytes = 32

// NewSecret returns a new random token.
func NewSecret() string {
	var random [randomTokenBytes]byte
	_, _ = rand.Read(random[:]) // it does not fail
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// TokenLine returns a line of a tokens file. "@" and namespaces may follow the scopes.
func TokenLine(principal, scopes, secret string) (string, error) {
	line := principal + "  " + scopes + "  " + Digested(secret)
	t, err := parseToken(line)
	if err == nil {
		err = t.validate()
	}
	return line, err
}

// Digested returns the digest of a token in the form that a tokens file uses.
func Digested(secret string) string {
	digest := sha256.Sum256([]byte(secret))
	return digestForm + hex.EncodeToString(digest[:])
}

var principalName = regexp.MustCompile(`^[A-Za-z0-9._@:/-]{1,128}$`)

// ReadTokens reads a token file. Each line that is neither empty nor a comment (#) has three
// fields separated by spaces or tabs:
//
//	PRINCIPAL  SCOPE[,SCOPE...][@NAMESPACE[,NAMESPACE...]]  sha256:DIGEST
//	ci-deploy  packs:write                   sha256:5f1e...
//	approvals  runs:read,events:external@red sha256:0c9a...
//
// The file has only digests of tokens: a reader of the file cannot authenticate with it. A line
// with a plain token is refused ([HashLines] converts an old file).
//
// A file that other users may write, or everyone may read, is refused. All faults of the form are reported at once, by
// line. [NewTokenSet] checks the names. No error repeats a token.
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

// parseTokens reads the lines of a file of tokens. Its error names every faulty line. A file without a token is an
// error.
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
		faults = append(faults, errors.New("no token in it; want lines of PRINCIPAL SCOPES sha256:DIGEST"))
	}
	return tokens, errors.Join(faults...)
}

func parseToken(line string) (Token, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return Token{}, fmt.Errorf("%d fields; want PRINCIPAL SCOPE[,SCOPE...][@NAMESPACE...] sha256:DIGEST", len(fields))
	}
	t := Token{Principal: fields[0]}
	var scopes, digest error
	t.Scopes, t.Namespaces, scopes = parseGrant(fields[1])
	t.Digest, digest = parseDigest(fields[2])
	if scopes != nil && digest != nil {
		return t, fmt.Errorf("%w; %w", scopes, digest)
	}
	return t, cmp.Or(scopes, digest)
}

// parseDigest reads a digest. Its errors do not contain the text, because the text may be a token.
func parseDigest(text string) (digest [sha256.Size]byte, err error) {
	text, ok := strings.CutPrefix(text, digestForm)
	if !ok {
		return digest, errors.New("the token stands in the file as it is sent; want sha256: and its digest: `pawl token hash FILE` rewrites the file")
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return digest, fmt.Errorf("sha256: wants %d hexadecimal digits", 2*sha256.Size)
	}
	return [sha256.Size]byte(raw), nil
}

// validate returns the first fault of a token. The error does not contain the secret.
func (t Token) validate() error {
	switch {
	case !principalName.MatchString(t.Principal) || slices.Contains(policy.Reserved(), t.Principal):
		return fmt.Errorf("principal %q: want 1 to 128 of letters, digits and . _ @ : / -, none of %s", t.Principal, strings.Join(policy.Reserved(), ", "))
	case t.Scopes == 0:
		return fmt.Errorf("principal %q has no scope; known scopes are %s", t.Principal, knownScopes())
	case t.Digest != [sha256.Size]byte{}:
		return nil
	}
	if err := checkSecret(t.Secret); err != nil {
		return fmt.Errorf("token of %q: %w", t.Principal, err)
	}
	return nil
}

// checkSecret returns the fault of a secret. The error does not contain the secret.
func checkSecret(secret string) error {
	switch {
	case len(secret) < MinTokenBytes:
		return fmt.Errorf("%d characters; want at least %d", len(secret), MinTokenBytes)
	case !Printable(secret) || strings.Contains(secret, " "):
		return errors.New("want printable ASCII without spaces")
	}
	return nil
}

// digest returns the digest by which the token is found.
func (t Token) digest() [sha256.Size]byte {
	if t.Digest == ([sha256.Size]byte{}) {
		return sha256.Sum256([]byte(t.Secret))
	}
	return t.Digest
}

// TokenSet finds the holders of tokens. It keeps only digests. So a comparison takes the same time for
// every token, and no token stays in memory.
type TokenSet struct {
	digests    [][sha256.Size]byte
	Principals []*Caller
}

// NewTokenSet checks the tokens. The error contains all faults.
func NewTokenSet(tokens []Token) (*TokenSet, error) {
	set := &TokenSet{}
	var faults []error
	for _, t := range tokens {
		if err := t.validate(); err != nil {
			faults = append(faults, err)
			continue
		}
		digest := t.digest()
		if set.find(digest) != nil {
			faults = append(faults, fmt.Errorf("principal %q has the token of another principal", t.Principal))
			continue
		}
		set.digests = append(set.digests, digest)
		set.Principals = append(set.Principals, &Caller{Principal: runtime.Principal{Subject: t.Principal, Scopes: t.Scopes, Namespaces: t.Namespaces, Proof: policy.ByToken}, token: digest})
	}
	return set, errors.Join(faults...)
}

// Holder returns the holder of a token. It returns nil if the token is unknown. A token that is shorter
// than the minimum has no holder, even if its digest is in the set.
func (s *TokenSet) Holder(secret string) *Caller {
	if len(secret) < MinTokenBytes {
		return nil
	}
	return s.find(sha256.Sum256([]byte(secret)))
}

// find compares the digest with every token, so that the time does not depend on which token matches.
// It returns nil if no token matches.
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

// HashLines replaces the tokens in a tokens file by their digests. n is the number of replaced tokens.
// Comments, spaces and existing digests stay unchanged. The error contains all faults with their lines,
// but no token.
func HashLines(text []byte) (hashed []byte, n int, err error) {
	var out bytes.Buffer
	var faults []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		rewritten, changed, err := hashLine(line)
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
		}
		if changed {
			n++
		}
		out.WriteString(rewritten)
	}
	return out.Bytes(), n, errors.Join(faults...)
}

// hashLine replaces the token in a line by its digest. It returns other lines unchanged: comments, empty lines and
// lines with a digest.
func hashLine(line string) (rewritten string, changed bool, err error) {
	text := strings.TrimSpace(line)
	fields := strings.Fields(text)
	if text == "" || strings.HasPrefix(text, "#") {
		return line, false, nil
	}
	if len(fields) != 3 {
		return line, false, fmt.Errorf("%d fields; want PRINCIPAL SCOPES TOKEN", len(fields))
	}
	if strings.HasPrefix(fields[2], digestForm) {
		return line, false, nil
	}
	if err := checkSecret(fields[2]); err != nil {
		return line, false, err
	}
	at := strings.LastIndex(line, fields[2])
	return line[:at] + Digested(fields[2]) + line[at+len(fields[2]):], true, nil
}

// EveryScope contains all scopes in the order in which the documentation lists them.
var EveryScope = []runtime.Scopes{
	runtime.ScopePacksWrite, runtime.ScopeRunsWrite, runtime.ScopeRunsRead,
	runtime.ScopeEventsExternal, runtime.ScopeWork, runtime.ScopeAdmin, runtime.ScopeRunsDelete,
	runtime.ScopeValuesSensitive, runtime.ScopeStoreRead, runtime.ScopeRunsErase,
	runtime.ScopeBudgetsWrite, runtime.ScopeStepsApprove, policy.AnswerFor,
}

// ParseScopes reads a comma-separated list of scope names: packs:write, runs:write, runs:read,
// events:external, work, admin (which includes all others), runs:delete, values:sensitive, store:read,
// runs:erase, budgets:write, steps:approve, tasks:answer-for. For an unknown or empty name the error
// lists the known names.
func ParseScopes(list string) (runtime.Scopes, error) {
	var set runtime.Scopes
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(EveryScope, func(s runtime.Scopes) bool { return s.String() == strings.TrimSpace(name) })
		if i < 0 {
			return 0, fmt.Errorf("unknown scope %q; known scopes are %s", name, knownScopes())
		}
		set |= EveryScope[i]
	}
	return set, nil
}

// namespaceName is the form of a namespace's name, as in the proto files.
var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// parseGrant reads the rights in a line. The form SCOPE[,SCOPE...] gives scopes in every namespace. The
// form SCOPE[,SCOPE...]@NAMESPACE[,NAMESPACE...] gives them only in these namespaces. The first
// namespace applies to calls that do not name one.
func parseGrant(text string) (runtime.Scopes, []string, error) {
	list, names, bound := strings.Cut(text, "@")
	scopes, err := ParseScopes(list)
	if err != nil || !bound {
		return scopes, nil, err
	}
	namespaces := strings.Split(names, ",")
	return scopes, namespaces, checkNamespaces(namespaces)
}

// checkNamespaces returns an error for a name that no namespace can have, or that occurs twice.
func checkNamespaces(names []string) error {
	for i, name := range names {
		if !namespaceName.MatchString(name) {
			return fmt.Errorf("%q is no name of a namespace: want a-z and up to 62 of a-z, 0-9 and -", apierror.Clip(name, apierror.MaxFieldBytes))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("namespace %q is named twice", name)
		}
	}
	return nil
}

func knownScopes() string {
	var all runtime.Scopes
	for _, s := range EveryScope {
		all |= s
	}
	return all.String()
}
