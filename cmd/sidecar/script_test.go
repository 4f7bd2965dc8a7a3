package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/test/testkit/mcpserver"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// TestMain lets the scripts run this test binary as the command pawl, as its alias, sidecar, and as an MCP server.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pawl": main, "sidecar": main, "mcpserver": mcpserver.Run})
}

// TestScripts runs testdata/script: every command with its exit codes and the
// shape of its JSON, as a process of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	packs, err := filepath.Abs(packDir)
	if err != nil {
		t.Fatal(err)
	}
	// Data directories of each format.
	golden, err := filepath.Abs("../../internal/server/testdata")
	if err != nil {
		t.Fatal(err)
	}
	var database *pgserver.Server
	pooler := ""
	if os.Getenv("PAWL_POSTGRES") == "1" {
		database = pgserver.Start(t)
		pooler = database.Bouncer(t)
	}
	testscript.Run(t, testscript.Params{
		// [postgres] holds when there is a server at $PGADDR with the user pawl, and a pooler for it at
		// $PGPOOL.
		// [root] holds for the user root.
		Condition: func(name string) (bool, error) {
			return name == "postgres" && database != nil || name == "root" && os.Geteuid() == 0, nil
		},
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PACKS", packs)
			env.Setenv("GOLDEN", golden)
			env.Setenv("GOCACHE", os.Getenv("GOCACHE"))
			env.Setenv("HOME", os.Getenv("HOME"))
			for _, dir := range filepath.SplitList(env.Getenv("PATH")) {
				if _, err := os.Stat(filepath.Join(dir, "pawl")); err == nil {
					env.Setenv("SIDECAR", filepath.Join(dir, "pawl"))
					break
				}
			}
			env.Setenv("SOCK", filepath.Join(env.WorkDir, "s"))
			if database != nil {
				env.Setenv("PGADDR", database.Addr())
				env.Setenv("PGPOOL", pooler)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   scriptCode,
			"json":   scriptJSON,
			"keep":   scriptKeep,
			"flip":   scriptFlip,
			"ready":  scriptReady,
			"start":  scriptStart,
			"hold":   scriptHold,
			"fail":   scriptFail,
			"spend":  scriptSpend,
			"prefix": scriptPrefix,
			"term":   scriptTerm,
			"hup":    scriptHup,
			"until":  scriptUntil,
			"owned":  scriptOwned,
		},
	})
}

// scriptCode runs a command and compares its exit code: code N COMMAND ARGS...
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// scriptPrefix sets PREFIX to the beginning of a run's id: prefix RUN.
func scriptPrefix(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: prefix RUN")
	}
	ts.Setenv("PREFIX", strings.ToLower(args[0][:20]))
}

// scriptJSON compares a value in the last standard output: json PATH VALUE. A
// path is keys and indexes joined by dots; "@" is a length; "?" whether the key
// exists. With ! the values have to differ.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	var doc any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc); err != nil {
		ts.Fatalf("stdout is no JSON: %v", err)
	}
	got, err := lookup(doc, strings.Split(args[0], "."))
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// scriptKeep sets a variable to a value in the last standard output: keep VAR PATH.
func scriptKeep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: keep VAR PATH")
	}
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc))
	got, err := lookup(doc, strings.Split(args[1], "."))
	ts.Check(err)
	ts.Setenv(args[0], got)
}

// scriptFlip copies a file with one byte changed, or cut short there: flip FROM TO
// OFFSET [cut]. Below 0 the offset counts from the end.
func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: flip FROM TO OFFSET [cut]")
	}
	raw := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[2])
	ts.Check(err)
	if at < 0 {
		at += len(raw)
	}
	if len(args) > 3 {
		raw = raw[:at]
	} else {
		raw[at] ^= 1
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), raw, 0o600))
}

// lookup walks a document; texts are given bare, all else as JSON.
func lookup(doc any, path []string) (string, error) {
	for _, key := range path {
		switch v := doc.(type) {
		case map[string]any:
			switch next, ok := v[strings.TrimSuffix(key, "?")]; {
			case key == "@":
				doc = float64(len(v))
			case strings.HasSuffix(key, "?"):
				doc = ok
			case !ok:
				return "", fmt.Errorf("no key %q", key)
			default:
				doc = next
			}
		case []any:
			if key == "@" {
				doc = float64(len(v))
				continue
			}
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(v) {
				return "", fmt.Errorf("no index %q in a list of %d", key, len(v))
			}
			doc = v[n]
		default:
			return "", fmt.Errorf("nothing under %q", key)
		}
	}
	if text, ok := doc.(string); ok {
		return text, nil
	}
	raw, err := json.Marshal(doc)
	return string(raw), err
}

// scriptReady waits until a Unix socket is served: ready SOCKET.
func scriptReady(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := output.Dial(output.Target{Addr: "unix:" + args[0]})
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	ts.Check(err)
}

// scriptStart starts a run over a socket and sets $RUN: start SOCKET PACK VARIABLES.
func scriptStart(ts *testscript.TestScript, _ bool, args []string) {
	conn, err := output.Dial(output.Target{Addr: "unix:" + args[0]})
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got, err := pawlv1.NewRunServiceClient(conn).StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: args[1], VariablesJson: args[2], Execution: pawlv1.Execution_EXECUTION_CALLER,
		Labels: map[string]string{"team": "a"},
	})
	ts.Check(err)
	ts.Setenv("RUN", got.GetRun().GetRunId())
}

// drive starts a run over a socket, whose turn this process executes, calls with for the turn, and sets $RUN.
func drive(ts *testscript.TestScript, socket, pack string, labels map[string]string, with func(context.Context, pawlv1.RunServiceClient, *pawlv1.TurnRef) error) {
	conn, err := output.Dial(output.Target{Addr: "unix:" + socket})
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	runs := pawlv1.NewRunServiceClient(conn)
	got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: pack, VariablesJson: "{}", Execution: pawlv1.Execution_EXECUTION_CALLER, Labels: labels})
	ts.Check(err)
	ts.Check(with(ctx, runs, got.GetTurn()))
	ts.Setenv("RUN", got.GetTurn().GetRunId())
}

// scriptHold starts a run over a socket, whose turn requests a call of a tool, and sets $RUN: hold SOCKET PACK TOOL PAYLOAD.
func scriptHold(ts *testscript.TestScript, _ bool, args []string) {
	drive(ts, args[0], args[1], nil, func(ctx context.Context, runs pawlv1.RunServiceClient, turn *pawlv1.TurnRef) error {
		_, err := runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
			Requests: []*pawlv1.StepRequest{{Tool: args[2], PayloadJson: args[3]}},
		})
		return err
	})
}

// scriptSpend completes a run that costs something: spend SOCKET PACK TEAM MODEL MICRO_USD. The id goes to $RUN.
func scriptSpend(ts *testscript.TestScript, _ bool, args []string) {
	cost, err := strconv.ParseInt(args[4], 10, 64)
	ts.Check(err)
	drive(ts, args[0], args[1], map[string]string{"team": args[2], "ticket": "1"}, func(ctx context.Context, runs pawlv1.RunServiceClient, turn *pawlv1.TurnRef) error {
		_, err := runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Event: "Done",
			Usage: &pawlv1.Usage{InputTokens: 10, OutputTokens: 5, CostMicroUsd: cost, Model: args[3]},
		})
		return err
	})
}

// scriptFail starts a run over a socket and fails its turn for good, and sets $RUN: fail SOCKET PACK CODE MESSAGE.
func scriptFail(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: fail SOCKET PACK CODE MESSAGE")
	}
	drive(ts, args[0], args[1], nil, func(ctx context.Context, runs pawlv1.RunServiceClient, turn *pawlv1.TurnRef) error {
		_, err := runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
			Error: &pawlv1.Fault{Code: args[2], Message: args[3]},
		})
		return err
	})
}

// scriptTerm sends SIGTERM to the processes in the background.
func scriptTerm(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// scriptOwned requires that a directory and all files in it belong to one user: owned DIR UID.
func scriptOwned(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: owned DIR UID")
	}
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat := info.Sys().(*syscall.Stat_t); strconv.Itoa(int(stat.Uid)) != args[1] {
			return fmt.Errorf("%s belongs to %d", path, stat.Uid)
		}
		return nil
	}))
}

// scriptHup sends SIGHUP to the processes in the background.
func scriptHup(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGHUP))
	}
}

// scriptUntil runs a command again until it ends with 0, or with ! until it does not:
// until COMMAND ARGS...
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err := ts.Exec(args[0], args[1:]...); neg != (err == nil) {
			return
		}
	}
	ts.Fatalf("%v is the same for a minute", args)
}
