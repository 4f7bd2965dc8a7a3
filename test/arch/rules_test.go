package arch

import "slices"

// module is the path of the main module.
const module = "github.com/pawl-dev/pawl/"

// rule forbids imports: no package in or below one of from, except those in or below one of
// except, imports a package in or below one of not. Paths without a dot in their first element
// are directories of this module or packages of the standard library.
type rule struct {
	from, except, not []string
	because           string
}

// edges are the packages that may know protobuf and gRPC.
var edges = []string{
	"gen", "clients/go", "cmd", "bench", "test",
	"internal/grpcapi", "internal/a2a", "internal/server", "internal/store", "internal/output", "internal/export", "internal/script",
	"internal/executor", "internal/model", "internal/mcpserver", "internal/cluster/router", "internal/cluster/transport",
}

// rules say which way imports go. The compiler forbids circles of packages; these forbid what
// it cannot know.
var rules = []rule{
	{
		from: []string{"internal"}, not: []string{"cmd", "bench", "test"},
		because: "the product does not depend on commands, the bench and the tests",
	},
	{
		from: []string{"cmd/sidecar"}, not: []string{"bench", "test"},
		because: "the product's binary does not carry the load generator and the tests",
	},
	{
		from: []string{"internal", "cmd", "clients/go"}, except: []string{"internal/store/memkv", "internal/store/kv/kvtest", "internal/store/keyring/keyringtest"},
		not:     []string{"internal/store/memkv", "internal/store/kv/kvtest", "internal/store/keyring/keyringtest", "testing"},
		because: "test doubles have no place in the product",
	},
	{
		from: []string{"internal/runtime"}, not: []string{
			"gen", "clients", "internal/store", "internal/grpcapi", "internal/a2a", "internal/cluster", "internal/delivery", "internal/telemetry",
			"internal/services", "internal/server", "internal/config", "internal/audit", "internal/executor", "internal/model", "internal/mcp", "internal/mcpserver",
		},
		because: "the runtime knows neither storage nor transport nor their configuration",
	},
	{
		from: []string{"internal/pack", "internal/expr", "internal/diagram", "internal/codegen"}, except: nil,
		not: slices.Concat(outer, []string{
			"internal/runtime/packcache", "internal/runtime/dispatch", "internal/runtime/history", "internal/runtime/validate",
		}),
		because: "a pack is read without a runtime",
	},
	{
		from: []string{"internal/store"}, not: slices.Concat(without(outer, "internal/store"), onTheEngine),
		because: "the store keeps rows of the machine and does not know what serves them",
	},
	{
		from: []string{"internal/grpcapi"}, not: []string{"internal/store", "internal/a2a/client", "internal/cluster", "internal/delivery/delegation", "internal/telemetry", "internal/server", "internal/executor", "internal/model", "internal/mcp", "internal/mcpserver"},
		because: "an edge reaches the runtime and nothing beside it",
	},
	{
		from: []string{"internal/a2a"}, not: []string{"internal/store", "internal/grpcapi", "internal/cluster", "internal/delivery", "internal/telemetry", "internal/server", "internal/executor", "internal/model", "internal/mcp", "internal/mcpserver"},
		because: "an edge reaches the runtime and nothing beside it",
	},
	{
		from: []string{"internal/a2a/client", "internal/a2a/protocol"}, not: onTheEngine,
		because: "the A2A client and its messages know no runs",
	},
	{
		from: []string{"internal/delivery"}, not: []string{"gen", "internal/store", "internal/grpcapi", "internal/a2a", "internal/cluster", "internal/telemetry", "internal/server"},
		because: "deliveries are handed their transport",
	},
	{
		from: []string{"internal/cluster"}, not: slices.Concat([]string{"internal/store", "internal/a2a", "internal/delivery", "internal/telemetry", "internal/server", "internal/grpcapi/convert"}, onTheEngine),
		because: "the cluster moves calls and partitions and reads neither",
	},
	{
		from: []string{"internal/telemetry"}, not: []string{"gen", "internal/store", "internal/grpcapi", "internal/a2a", "internal/cluster", "internal/server"},
		because: "telemetry observes the runtime",
	},
	{
		from:    []string{"clients/go", "internal/executor", "internal/model", "internal/mcp", "internal/mcpserver", "internal/script", "internal/export", "test/conformance"},
		not:     []string{"internal/runtime", "internal/store", "internal/grpcapi", "internal/a2a", "internal/cluster", "internal/server", "internal/services"},
		because: "a client knows the contract only",
	},
	{
		from: []string{"internal/services"}, not: []string{"gen", "internal/store", "internal/grpcapi", "internal/a2a", "internal/cluster", "internal/telemetry", "internal/server"},
		because: "the services are put together without storage and transport",
	},
	{
		from: []string{"internal", "clients", "gen"}, except: edges, not: []string{
			"google.golang.org/protobuf", "google.golang.org/grpc", "google.golang.org/genproto", "github.com/grpc-ecosystem", "buf.build/go", "buf.build/gen",
		},
		because: "protobuf and gRPC stop at the edges",
	},
	{
		from: []string{"internal", "cmd", "clients", "test", "bench"},
		except: []string{
			"internal/store/datadir", "internal/store/badgerengine",
			"bench/load", "test/simulation/badger",
		},
		not:     []string{"github.com/dgraph-io/badger"},
		because: "only internal/store/badgerengine and the package of its files assume Badger",
	},
	{
		from: []string{"internal", "cmd", "clients", "test", "bench"}, except: []string{"internal/store/pg", "bench/load/many", "test/testkit/pgserver", "test/testkit/relay"},
		not:     []string{"github.com/jackc", "github.com/pressly/goose", "database/sql"},
		because: "only internal/store/pg assumes PostgreSQL",
	},
	{
		from: []string{"internal", "cmd", "clients", "test", "bench"}, except: []string{"internal/mcp", "internal/mcpserver", "test/testkit/mcpserver"},
		not:     []string{"github.com/modelcontextprotocol"},
		because: "only internal/mcp and internal/mcpserver speak MCP",
	},
	{
		from: []string{"internal"}, except: []string{"internal/server", "internal/output"}, not: []string{"internal/server"},
		because: "the server is the last of the product's packages: it puts all others together",
	},
}

// outer is what lies around the runtime.
var outer = []string{
	"gen", "clients", "internal/store", "internal/grpcapi", "internal/a2a", "internal/cluster", "internal/delivery", "internal/telemetry",
	"internal/services", "internal/server", "internal/executor", "internal/model", "internal/mcp", "internal/mcpserver",
}

// onTheEngine are the packages that run on it.
var onTheEngine = []string{
	"internal/runtime/ratelimit", "internal/runtime/blob", "internal/runtime/retention", "internal/runtime/schedule", "internal/runtime/timetravel",
	"internal/runtime/streams", "internal/runtime/dispatch", "internal/runtime/packs", "internal/runtime/query", "internal/runtime/waiting",
}

// without returns all but one.
func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// pure are packages whose result depends on their arguments alone, with what of this module
// they may import.
var pure = map[string][]string{
	"internal/runtime/machine":       nil,
	"internal/runtime/machine/rules": {"internal/runtime/machine"},
	"internal/policy":                nil,
	"internal/prompt":                nil,
	"internal/strictjson":            nil,
}

// impure are the standard packages that bring in the outside world, each with all below it.
var impure = []string{
	"context", "crypto/rand", "log", "math/rand", "net", "os", "plugin",
	"runtime", "syscall", "testing", "unsafe",
}

// clock are the functions of package time that read or wait for the clock. Its types and
// arithmetic are pure.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
	"AfterFunc": true, "Tick": true, "NewTicker": true, "NewTimer": true,
}
