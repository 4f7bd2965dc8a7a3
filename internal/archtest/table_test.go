package archtest

// module is the path of the main module.
const module = "github.com/pawl-dev/pawl/"

// rule says what one layer may import. A layer is a directory with all below it,
// unless a longer path has a rule of its own.
type rule struct {
	dir string
	// may lists directories of this module, each with all below it. Its own
	// directory is always allowed.
	may []string
	// all allows every directory of this module.
	all bool
	// pure forbids the outside world: see impure, clock, and all third-party code.
	pure bool
	// wire allows protobuf and gRPC.
	wire bool
}

const (
	machineDir  = "internal/runtime/machine"
	rulesDir    = "internal/runtime/machine/rules"
	programDir  = "internal/runtime/program"
	historyDir  = "internal/runtime/history"
	requestDir  = "internal/runtime/request"
	renderDir   = "internal/runtime/render"
	registryDir = "internal/runtime/registry"
	queryDir    = "internal/runtime/query"
	gateDir     = "internal/runtime/gate"
	allowDir    = "internal/runtime/allowance"
	accountDir  = "internal/runtime/account"
	tariffDir   = "internal/runtime/tariff"
	effectDir   = "internal/runtime/effect"
	// Calls that wait for limits.
	admissionDir = "internal/runtime/admission"
	dialogueDir  = "internal/runtime/dialogue"
	consentDir   = "internal/runtime/consent"
	scheduleDir  = "internal/runtime/schedule"
	cacheDir     = "internal/cache"
	// The one reader of JSON that decides or leaves.
	strictDir = "internal/strictjson"
	genDir    = "gen"
	// Rooms of what leaves.
	delegationDir   = "internal/deliver/delegation"
	subscriptionDir = "internal/deliver/subscription"
)

// room is what a room of the runtime may import: the way's types, what lies below the
// way, and what the table says more.
func room(more ...string) []string {
	return append([]string{
		"internal/runtime", machineDir, strictDir, rulesDir, programDir, requestDir, historyDir, renderDir, consentDir, allowDir, accountDir, tariffDir, "internal/policy", "internal/pack", "internal/prompt",
	}, more...)
}

// table is the import table of the architecture. A package without a rule fails
// the test, so that nobody adds a layer in passing.
var table = []rule{
	{dir: "internal/runtime/machine", pure: true},
	{dir: rulesDir, may: []string{machineDir}, pure: true},
	{dir: "internal/policy", pure: true},
	{dir: "internal/prompt", pure: true},
	{dir: strictDir, pure: true},
	{dir: "internal/condition", may: []string{strictDir}},
	{dir: "internal/pack", may: []string{machineDir, strictDir, "internal/prompt", "internal/pack/source", "internal/pack/cost", "internal/condition"}},
	{dir: "internal/pack/source", may: []string{strictDir}},
	{dir: "internal/pack/cost", may: []string{"internal/pack/source"}},
	{dir: "internal/pack/feature"},
	{dir: "internal/codegen", may: []string{machineDir, "internal/pack"}},
	{dir: "internal/diagram", may: []string{machineDir, "internal/pack", "internal/pack/source"}},
	{dir: "internal/store", may: []string{machineDir, rulesDir, "internal/pgurl"}, wire: true},
	// Below the way: what it calls to decide.
	{dir: gateDir, may: []string{machineDir}},
	{dir: allowDir, may: []string{machineDir, cacheDir}},
	{dir: accountDir, may: []string{machineDir, rulesDir}},
	{dir: tariffDir, may: []string{machineDir}},
	{dir: effectDir, may: []string{strictDir, machineDir, rulesDir, requestDir, historyDir, programDir}},
	{dir: programDir, may: []string{strictDir, machineDir, cacheDir, "internal/pack", "internal/condition"}},
	{dir: requestDir, may: []string{strictDir, machineDir, "internal/pack", programDir}},
	{dir: renderDir, may: []string{strictDir, machineDir, rulesDir, programDir, requestDir, historyDir, "internal/pack", "internal/prompt"}},
	{dir: consentDir, may: []string{strictDir, machineDir, requestDir, historyDir, programDir, effectDir, "internal/condition", "internal/policy"}},
	{dir: dialogueDir, may: []string{machineDir, rulesDir, requestDir, historyDir}},
	{dir: "internal/runtime", may: []string{machineDir, strictDir, effectDir, rulesDir, gateDir, programDir, requestDir, historyDir, renderDir, allowDir, accountDir, tariffDir, dialogueDir, consentDir, "internal/policy", "internal/pack", "internal/prompt"}},
	{dir: historyDir, may: []string{machineDir, rulesDir, cacheDir}},
	// Rooms of the runtime: each sees the way through an interface of its own.
	{dir: admissionDir, may: room("internal/condition")},
	{dir: "internal/runtime/blob", may: room()},
	{dir: "internal/runtime/retain", may: room()},
	{dir: scheduleDir, may: room()},
	{dir: "internal/runtime/travel", may: room()},
	{dir: "internal/runtime/watch", may: room(cacheDir)},
	{dir: "internal/runtime/work", may: room(cacheDir)},
	{dir: registryDir, may: room()},
	{dir: queryDir, may: room()},
	{dir: "internal/house", may: []string{scheduleDir, "internal/runtime", admissionDir, allowDir, registryDir, queryDir, "internal/runtime/blob", "internal/runtime/retain", "internal/runtime/travel", "internal/runtime/watch", "internal/runtime/work", subscriptionDir, delegationDir}},
	// Several nodes on one store: which of them has it, and how calls come to it.
	{dir: "internal/cluster/route", may: []string{"internal/policy", machineDir, genDir, "internal/grpcapi/door", "internal/grpcapi/fault", "internal/grpcapi/sent"}, wire: true},
	{dir: "internal/cluster/node", may: []string{"internal/cluster/route"}},
	{dir: "internal/cluster/peer", may: []string{strictDir, "internal/cluster/route", "internal/runtime", machineDir, "internal/grpcapi/door", "internal/grpcapi/envelope", "internal/grpcapi/fault", "internal/grpcapi/sent"}, wire: true},
	{dir: "internal/openapi", may: []string{genDir}},
	// What leaves, and the rooms that keep it.
	{dir: "internal/deliver", may: []string{machineDir, strictDir, programDir}},
	{dir: delegationDir, may: room()},
	{dir: subscriptionDir, may: room("internal/runtime/watch")},
	{dir: "internal/telemetry", may: []string{accountDir, machineDir, cacheDir, admissionDir, allowDir, "internal/runtime", queryDir, "internal/runtime/watch", "internal/runtime/work"}},
	{dir: "internal/grpcapi", may: []string{scheduleDir, cacheDir, admissionDir, allowDir, "internal/house", subscriptionDir, "internal/runtime", "internal/runtime/watch", programDir, requestDir, historyDir, renderDir, registryDir, queryDir, "internal/runtime/blob", "internal/runtime/retain", "internal/runtime/travel", "internal/runtime/work", "internal/pack", genDir, "internal/grpcapi/fault", "internal/grpcapi/convert", "internal/grpcapi/redact", "internal/grpcapi/sent", "internal/grpcapi/depot", "internal/grpcapi/dispatch", "internal/grpcapi/sure", "internal/grpcapi/tally", "internal/grpcapi/calm", "internal/grpcapi/envelope", "internal/grpcapi/door", "internal/grpcapi/oidc", "internal/grpcapi/quota", "internal/grpcapi/trail", "internal/audit", "internal/grpcapi/gateway"}, wire: true},
	{dir: "internal/grpcapi/calm"},
	{dir: "internal/grpcapi/dispatch", may: []string{"internal/grpcapi/sent"}, wire: true},
	{dir: "internal/grpcapi/sure", may: []string{genDir, "internal/grpcapi/convert"}, wire: true},
	{dir: "internal/grpcapi/tally", may: []string{machineDir}, wire: true},
	{dir: "internal/grpcapi/envelope", may: []string{machineDir, "internal/grpcapi/fault", "internal/grpcapi/sent"}, wire: true},
	{dir: "internal/grpcapi/depot", may: []string{machineDir, genDir, "internal/grpcapi/sent"}, wire: true},
	{dir: "internal/grpcapi/sent", may: []string{cacheDir}},
	{dir: "internal/grpcapi/redact", may: []string{strictDir, "internal/pack", "internal/runtime", machineDir, genDir}, wire: true},
	{dir: "internal/grpcapi/convert", may: []string{strictDir, accountDir, admissionDir, scheduleDir, rulesDir, cacheDir, "internal/runtime", dialogueDir, historyDir, renderDir, registryDir, queryDir, "internal/runtime/watch", "internal/runtime/travel", "internal/runtime/work", "internal/pack", "internal/diagram", genDir, "internal/grpcapi/fault"}, wire: true},
	{dir: "internal/grpcapi/gateway", may: []string{strictDir, machineDir, genDir, "internal/grpcapi/fault", "internal/grpcapi/door"}, wire: true},
	{dir: "internal/grpcapi/door", may: []string{"internal/runtime", requestDir, machineDir, "internal/policy", "internal/secretfile", "internal/grpcapi/fault", "internal/grpcapi/oidc"}, wire: true},
	{dir: "internal/grpcapi/quota", may: []string{machineDir, allowDir, "internal/grpcapi/door"}, wire: true},
	{dir: "internal/grpcapi/trail", may: []string{"internal/a2a/terms", "internal/grpcapi/dispatch", "internal/audit", "internal/policy", "internal/runtime", requestDir, machineDir, genDir, "internal/grpcapi/door", "internal/grpcapi/fault"}, wire: true},
	{dir: "internal/grpcapi/oidc", may: []string{strictDir, "internal/runtime", machineDir, "internal/policy", "internal/secretfile", cacheDir}},
	{dir: "internal/grpcapi/fault", may: []string{machineDir, genDir}, wire: true},
	{dir: "internal/a2a", may: []string{strictDir, "internal/runtime", requestDir, registryDir, queryDir, "internal/runtime/watch", "internal/pack", "internal/secretfile", genDir, "internal/a2a/terms"}, wire: true},
	{dir: "internal/a2a/peer", may: []string{strictDir, machineDir, "internal/a2a/terms"}, wire: true},
	{dir: "internal/a2a/terms", may: []string{strictDir, machineDir}, wire: true},

	// Leaves that need nothing of ours but bounds, and the host's own tools.
	{dir: cacheDir},
	{dir: "internal/config", may: []string{"internal/pack/source", "internal/pgurl"}},
	{dir: "internal/pgurl"},
	{dir: "internal/secretfile"},
	{dir: "internal/audit"},
	{dir: "internal/ui"},
	// A client of the contract: it drives a run over gRPC.
	{dir: "internal/answers", may: []string{genDir, "internal/pack/source"}, wire: true},
	{dir: "clients/go", may: []string{strictDir, genDir}, wire: true},
	// The sidecar as a worker of its own, and the models that it asks.
	{dir: "internal/executor", may: []string{strictDir, genDir, "clients/go", "internal/model", "internal/pack/cost"}, wire: true},
	{dir: "internal/model", may: []string{strictDir, genDir}, wire: true},
	{dir: "internal/export", may: []string{"internal/cli", genDir}, wire: true},
	{dir: "internal/app", all: true, wire: true},
	{dir: "internal/cli", all: true, wire: true},
	{dir: "internal/command", all: true, wire: true},
	{dir: "internal/command/budget", all: true, wire: true},
	{dir: "internal/command/leases", may: []string{"internal/cli", "internal/pack", machineDir, rulesDir}},
	{dir: "internal/command/limits", all: true, wire: true},
	{dir: "internal/command/schedules", all: true, wire: true},
	{dir: "internal/demo", all: true, wire: true},
	{dir: "internal/bench/latency"},
	{dir: "internal/bench/dialogue", may: []string{genDir, "internal/bench/latency", "clients/go"}, wire: true},
	{dir: "internal/bench/flood", may: []string{"internal/bench/latency"}, wire: true},
	{dir: "internal/bench/stat"},
	{dir: "internal/bench/lang"},
	{dir: "internal/bench/many", all: true},
	// Clients of the contract, and what tells processes how they do.
	{dir: "internal/bench/cluster", may: []string{genDir, "internal/bench/latency", "internal/bench/many", "internal/bench/stat"}, wire: true},
	{dir: "internal/bench/template"},
	{dir: "internal/bench", all: true, wire: true},
	{dir: "internal/testkit", all: true, wire: true},
	{dir: "internal/testkit/realstore", all: true},
	{dir: "test/docpage"},
	// A whole sidecar under a seed: tests alone, and what is below the store in them.
	{dir: "internal/sim"},
	{dir: "internal/sim/disk"},
	{dir: "internal/sim/badger", may: []string{"internal/sim/disk"}},
	{dir: "internal/sim/hostos", may: []string{"internal/sim/disk"}},
	{dir: "internal/sim/hostunix", may: []string{"internal/sim/hostos"}},
	{dir: "internal/sim/pgkv", may: []string{"internal/pgurl", "internal/sim/disk", "internal/store"}},
	{dir: "internal/sim/pipes", wire: true},
	{dir: "internal/sim/build"},
	{dir: "internal/trust"},
	{dir: "internal/mutants"},
	{dir: "internal/archtest"},
	{dir: "cmd/sidecar", all: true, wire: true},
	{dir: "e2e", all: true, wire: true},
	// A client of the contract, as every other one.
	{dir: "conformance", may: []string{genDir, "clients/go"}, wire: true},
	{dir: "gen", may: []string{genDir}, wire: true},
}

// onlyFrom guards layers: only the listed ones may import them.
var onlyFrom = map[string][]string{
	// Doubles of clock and disk have no place in the product.
	// e2e is no part of it.
	"internal/testkit": {"internal/testkit", "internal/testkit/realstore", "e2e"},
	"internal/sim":     {"internal/sim"},
	// What serves the API is wired by hand in one place; the bench builds its bare
	// yardsticks from the same parts.
	"internal/house":     {"internal/app", "internal/bench", "internal/grpcapi"},
	"internal/grpcapi":   {"internal/app", "internal/bench"},
	"internal/cluster":   {"internal/app"},
	"internal/a2a":       {"internal/app"},
	"internal/a2a/peer":  {"internal/app"},
	"internal/deliver":   {"internal/app"},
	delegationDir:        {"internal/house"},
	subscriptionDir:      {"internal/house", "internal/grpcapi"},
	"internal/store":     {"internal/app", "internal/bench", "internal/bench/many", "internal/sim/pgkv", "internal/testkit/realstore"},
	"internal/telemetry": {"internal/app"},
	"internal/executor":  {"internal/app"},
	"internal/model":     {"internal/app", "internal/executor"},
	"internal/app":       {"cmd/sidecar", "internal/cli", "internal/demo", "internal/bench"},
}

// impure are the standard packages that bring in the outside world, each with
// all below it.
var impure = []string{
	"context", "crypto/rand", "log", "math/rand", "net", "os", "plugin",
	"runtime", "syscall", "testing", "unsafe",
}

// clock are the functions of package time that read or wait for the clock; its
// types and arithmetic are allowed.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
	"AfterFunc": true, "Tick": true, "NewTicker": true, "NewTimer": true,
}

// badgerDirs are the packages that may assume Badger: the engine, the rooms of its files, the
// yardsticks of the bench, and what stands for it in the simulator.
var badgerDirs = []string{
	"internal/store/badgerkv", "internal/store/inspect", "internal/store/rekey", "internal/store/space",
	"internal/bench", "internal/sim/badger",
}

// testDirs are imported by tests and by each other.
var testDirs = []string{"internal/store/kv/kvtest", "internal/store/keyring/keyringtest", "internal/store/memkv"}

// postgresDirs are the packages that may assume PostgreSQL: the engine, the bench that
// measures it, and the servers of tests.
var postgresDirs = []string{"internal/bench/many", "internal/store/assure", "internal/store/pgkv", "internal/store/pgkv/members", "internal/testkit/pg", "internal/testkit/relay"}

// wirePaths, badgerPaths and postgresPaths are third-party code that only some layers may know.
var (
	wirePaths = []string{
		"google.golang.org/protobuf", "google.golang.org/grpc", "google.golang.org/genproto",
		"github.com/grpc-ecosystem", "buf.build/go", "buf.build/gen",
	}
	badgerPaths   = []string{"github.com/dgraph-io/badger"}
	postgresPaths = []string{"github.com/jackc", "github.com/pressly/goose", "database/sql"}
)
