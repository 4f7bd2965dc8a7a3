package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoder is a package that reads bytes which it did not write itself a moment ago.
type decoder struct {
	// fuzz are the targets that send it anything; a target of a package that calls it is
	// named with that package's directory.
	fuzz []string
	// own is the reason why the package decodes only bytes that this program wrote. It then needs
	// no fuzz target.
	own string
}

// decoders is the one list of what decodes. A package that decodes and is not in it fails
// TestDecodersAreFuzzed.
var decoders = map[string]decoder{
	"cmd/sidecar":                    {own: "asks the sidecar, by the contract"},
	"cmd/sidecar/internal/dev":       {own: "reads the ready line of the sidecar that it has started, and the developer's own package.json"},
	"internal/a2a":                   {fuzz: []string{"FuzzMessage", "FuzzRPC", "FuzzREST", "FuzzTenant"}},
	"internal/a2a/client":            {fuzz: []string{"FuzzCard", "FuzzTask", "FuzzStream"}},
	"internal/a2a/protocol":          {fuzz: []string{"FuzzParts", "FuzzUsage"}},
	"internal/script":                {fuzz: []string{"FuzzParse"}},
	"internal/server":                {own: "reads what the kernel says of this process"},
	"internal/audit":                 {fuzz: []string{"FuzzParse"}},
	"internal/output":                {own: "asks the sidecar, by the contract"},
	"internal/codegen":               {fuzz: []string{"FuzzParameters", "FuzzPack"}},
	"internal/config":                {fuzz: []string{"FuzzFile"}},
	"internal/delivery":              {own: "reads payloads that were checked when their step was asked for: internal/runtime/packcache FuzzAgentPayload"},
	"internal/diagram":               {fuzz: []string{"FuzzDraw"}},
	"internal/executor":              {fuzz: []string{"FuzzArguments"}},
	"internal/export":                {own: "asks the sidecar, by the contract"},
	"internal/grpcapi":               {fuzz: []string{"FuzzEveryRPC", "FuzzGateway", "FuzzFrames"}},
	"internal/grpcapi/convert":       {fuzz: []string{"FuzzConversions", "FuzzWorkerRegistration"}},
	"internal/grpcapi/auth":          {fuzz: []string{"FuzzParseTokens", "FuzzParseCertificates"}},
	"internal/grpcapi/gateway":       {fuzz: []string{"internal/grpcapi: FuzzGateway"}},
	"internal/grpcapi/auth/oidc":     {fuzz: []string{"FuzzKeys"}},
	"internal/grpcapi/redact":        {own: "reads variables that were checked when the run was started: internal/pack FuzzLoad"},
	"internal/mcp":                   {fuzz: []string{"FuzzAnswer", "FuzzOutput"}},
	"internal/mcpserver":             {fuzz: []string{"FuzzArguments"}},
	"internal/model":                 {fuzz: []string{"FuzzStream", "FuzzConversation"}},
	"internal/openapi":               {own: "reads what the build has generated"},
	"internal/pack":                  {fuzz: []string{"FuzzLoad", "FuzzPayload"}},
	"internal/pack/assertion":        {fuzz: []string{"FuzzCompile"}},
	"internal/pack/format":           {fuzz: []string{"FuzzSource"}},
	"internal/pack/source":           {fuzz: []string{"FuzzScanYAML", "internal/pack: FuzzLoad"}},
	"internal/prompt":                {fuzz: []string{"FuzzRender"}},
	"internal/runtime":               {fuzz: []string{"FuzzParseCursor", "internal/prompt: FuzzRender"}},
	"internal/runtime/effects":       {fuzz: []string{"FuzzKeyOf"}},
	"internal/runtime/machine/rules": {fuzz: []string{"FuzzStep", "FuzzStart", "FuzzModel"}},
	"internal/runtime/packcache":     {fuzz: []string{"FuzzAgentPayload"}},
	"internal/runtime/query":         {own: "reads variables that were checked when the run was started: internal/pack FuzzLoad"},
	"internal/runtime/approval":      {fuzz: []string{"FuzzApproved"}},
	"internal/runtime/validate":      {fuzz: []string{"FuzzCanonical"}},
	"internal/strictjson":            {fuzz: []string{"FuzzReaders"}},
	"internal/runtime/timetravel":    {fuzz: []string{"FuzzDiffJSON"}},
	"internal/store/backup":          {fuzz: []string{"FuzzRead"}},
	"internal/store/codec":           {fuzz: []string{"FuzzDecodeEntry", "FuzzDecodeHead", "FuzzDecodeRows", "FuzzSealed"}},
	"internal/store/datadir":         {fuzz: []string{"FuzzInspect"}},
	"internal/store/keyring":         {fuzz: []string{"FuzzOpen"}},
	"internal/store/runfile":         {fuzz: []string{"FuzzReader"}},
	"internal/cluster/router":        {own: "reads what the house of another node answers"},
	"internal/cluster/transport":     {own: "reads what another node of the cluster says of a caller, over a port that only nodes reach"},
	"test/trust":                     {own: "reads what the go command says of our tests"},
}

// decodes finds the libraries that turn bytes into values.
var decodes = regexp.MustCompile(`\b(json|protojson|proto|yaml|xml|gob|csv|jose|jwt|jws|jwk|gzip|zstd|tar|zip)\.(Unmarshal\w*|NewDecoder|NewReader|Parse\w*|OpenReader|UnmarshalOptions\{)|\bUnmarshalOptions\{|bufio\.NewScanner\(`)

// TestDecodersAreFuzzed: every package that decodes is in the list, with targets that
// exist, or with the reason why only its own bytes come there.
func TestDecodersAreFuzzed(t *testing.T) {
	t.Parallel()
	found := decodingPackages(t)
	for dir, file := range found {
		if _, listed := decoders[dir]; !listed {
			t.Errorf("%s decodes (%s) and is not in the list: give it a fuzz target, and both a row", dir, file)
		}
	}
	for dir, d := range decoders {
		if (len(d.fuzz) == 0) == (d.own == "") {
			t.Errorf("%s: want targets or a reason", dir)
		}
		for _, target := range d.fuzz {
			at, name := dir, target
			if other, rest, ok := strings.Cut(target, ": "); ok {
				at, name = other, rest
			}
			if !strings.Contains(testsOf(t, at), "func "+name+"(f *testing.F)") {
				t.Errorf("%s: %s has no %s", dir, at, name)
			}
		}
	}
	if len(found) < 20 {
		t.Fatalf("%d packages decode: the search finds nothing", len(found))
	}
	for dir := range decoders {
		for _, declared := range declaresTarget.FindAllStringSubmatch(testsOf(t, dir), -1) {
			if !slices.Contains(decoders[dir].fuzz, declared[1]) {
				t.Errorf("%s: the list has not %s", dir, declared[1])
			}
		}
	}
}

// declaresTarget finds the fuzz targets of a package.
var declaresTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// decodingPackages are the directories with code that decodes, each with one file of it.
// What only measures, shows or generates is no way in.
func decodingPackages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"internal", "cmd/sidecar"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel("../..", path)
			if err != nil {
				return err
			}
			if e.IsDir() && (rel == "cmd/sidecar/internal/demo" || rel == "internal/openapi/finish" || e.Name() == "testdata") {
				return filepath.SkipDir
			}
			if e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			content, err := os.ReadFile(path)
			if err == nil && decodes.Match(content) {
				found[filepath.ToSlash(filepath.Dir(rel))] = e.Name()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// testsOf is the source of the tests in one directory.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}
