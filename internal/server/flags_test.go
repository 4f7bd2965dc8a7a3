package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
	"github.com/pawl-dev/pawl/test/testkit"
)

// flagProof says how it is shown that a flag of serve changes what it says. Either `ask` is asked
// of a sidecar with the flag's default, and of one with --flag=value; or another test shows it.
type flagProof struct {
	value string
	// withoutFlag and set are the answers without and with the flag.
	withoutFlag, set string
	ask              func(*flagRig) string
	// otherTest is that other test, as PACKAGE: TEST, or PACKAGE: SCRIPT.txtar.
	otherTest string
	// readOption is where the value of the flag arrives, if `by` tests what has it from there.
	readOption func(options) any
}

// flagProofs has a row for each flag of serve.
func flagProofs() map[string]flagProof {
	all := flagsOfWork()
	for _, more := range []map[string]flagProof{flagsOfLimits(), flagsOfTime(), flagsOfPorts(), flagsOfFiles(), flagsOfStore()} {
		maps.Copy(all, more)
	}
	return all
}

// flagsOfWork are those that a pack may be silent about.
func flagsOfWork() map[string]flagProof {
	return map[string]flagProof{
		"lease":                  {value: "2m30s", ask: (*flagRig).lease, withoutFlag: "1m0s", set: "2m30s"},
		"wall-time":              {value: "90m", ask: func(r *flagRig) string { return r.wallTime("unbounded") }, withoutFlag: "0s", set: "1h30m0s"},
		"max-wall-time":          {value: "10m", ask: func(r *flagRig) string { return r.wallTime("loop") }, withoutFlag: "1h0m0s", set: "10m0s"},
		"limits-artifact-bytes":  {value: "100", ask: func(r *flagRig) string { return r.artifacts(1, 200) }, withoutFlag: "OK", set: "ARTIFACT_TOO_LARGE"},
		"limits-max-transitions": {value: "2", ask: (*flagRig).transitions, withoutFlag: "OK", set: "RUN_STATUS_BUDGET_EXHAUSTED"},
		"model-timeout":          {otherTest: "internal/executor: TestBadEndpoints"},
		"prices":                 {otherTest: "internal/server: TestPrices"},
		"require-bounded":        {otherTest: "cmd/sidecar: bounded.txtar"},
		"strict":                 {otherTest: "cmd/sidecar: bounded.txtar"},
		"allow-tool":             {value: "run_tests", ask: (*flagRig).tool, withoutFlag: "TOOL_NOT_ALLOWED", set: "OK"},
		"a2a-execution":          {otherTest: "test/e2e: TestAgentsWithoutCode"},
	}
}

func flagsOfLimits() map[string]flagProof {
	return map[string]flagProof{
		"limits-run-artifact-bytes":  {value: "64KiB", ask: func(r *flagRig) string { return r.artifacts(3, 30<<10) }, withoutFlag: "OK", set: "ARTIFACTS_TOO_LARGE"},
		"limits-conversation-bytes":  {value: "100", ask: (*flagRig).input, withoutFlag: "OK", set: "MESSAGES_TOO_LARGE"},
		"limits-variables-bytes":     {value: "100", ask: (*flagRig).variables, withoutFlag: "OK", set: "VARIABLES_TOO_LARGE"},
		"limits-labels":              {value: "1", ask: (*flagRig).labels, withoutFlag: "OK", set: "MAX_LABELS"},
		"limits-runs-in-flight":      {value: "1", ask: (*flagRig).second, withoutFlag: "OK", set: "RUNS_IN_FLIGHT"},
		"limits-queued-inputs":       {value: "1", ask: (*flagRig).inputs, withoutFlag: "OK", set: "INPUT_QUEUE_FULL"},
		"limits-pack-bytes":          {value: "4KiB", ask: (*flagRig).largePack, withoutFlag: "OK", set: "PACK_INVALID"},
		"limits-message-bytes":       {value: "64KiB", ask: (*flagRig).largeMessage, withoutFlag: "OK", set: "REQUEST_TOO_LARGE"},
		"limits-blob-bytes":          {value: "1KiB", ask: (*flagRig).blob, withoutFlag: "OK", set: "BLOB_TOO_LARGE"},
		"limits-workers":             {value: "1", ask: (*flagRig).workers, withoutFlag: "OK", set: "MAX_WORKERS"},
		"limits-worker-turns":        {value: "3", ask: (*flagRig).capacities, withoutFlag: "256 turns, 256 steps", set: "3 turns, 256 steps"},
		"limits-worker-steps":        {value: "2", ask: (*flagRig).capacities, withoutFlag: "256 turns, 256 steps", set: "256 turns, 2 steps"},
		"limits-streams":             {value: "1", ask: (*flagRig).streams, withoutFlag: "OK", set: "MAX_STREAMS"},
		"limits-requests-per-second": {value: "1", ask: (*flagRig).repeatCall, withoutFlag: "OK", set: "RATE_LIMITED"},
		"limits-inputs":              {otherTest: "internal/runtime: TestNewWorkIsRefusedWhenThereIsTooMuch", value: "7", readOption: func(o options) any { return engineConfig(o, nil).MaxInputs }},
		"limits-run-queue":           {otherTest: "internal/runtime: TestQueueIsBoundedAndFirstInFirstOut", value: "7", readOption: func(o options) any { return engineConfig(o, nil).QueueLimit }},
		"limits-cache-bytes":         {otherTest: "internal/runtime: TestCacheKeepsToItsBytes", value: "7MiB", readOption: func(o options) any { return engineConfig(o, nil).CacheBytes }},
		"limits-watch-bytes":         {otherTest: "internal/server: TestStalledReaders"},
		"limits-dead-letters":        {otherTest: "internal/store: TestDeadLettersAreBounded", value: "7", readOption: func(o options) any { return endsOf(o, nil, nil, nil).MaxDeadLetters }},
		"limits":                     {otherTest: "internal/executor: TestConcurrentCallsAreLimited"},
	}
}

func flagsOfTime() map[string]flagProof {
	return map[string]flagProof{
		"step-grace":             {otherTest: "internal/runtime/dispatch: TestStepWorkerLost", value: "7s", readOption: func(o options) any { return runtimeConfig(o, nil).Work.StepGrace }},
		"restart-grace":          {otherTest: "internal/runtime/dispatch: TestStepRestartUnclaimed", value: "7s", readOption: func(o options) any { return runtimeConfig(o, nil).Work.RestartGrace }},
		"blob-grace":             {otherTest: "internal/grpcapi: TestBlobSweep", value: "7h", readOption: func(o options) any { return runtimeConfig(o, nil).BlobGrace }},
		"retention-deleted":      {otherTest: "internal/runtime/retention: TestForgets", value: "7h", readOption: func(o options) any { return policyOf(o).ForgetAfter }},
		"retention-consumers":    {otherTest: "internal/delivery/subscription: TestConsumersAreForgotten", value: "7h", readOption: func(o options) any { return endsOf(o, nil, nil, nil).ConsumerRetention }},
		"retention-dead-letters": {otherTest: "internal/store: TestTrimLetters", value: "7h", readOption: func(o options) any { return endsOf(o, nil, nil, nil).DeadLetterRetention }},
		"retain":                 {otherTest: "test/e2e: TestRetentionUnderKills"},
		"retention-every":        {otherTest: "test/e2e: TestRetentionUnderKills"},
		"retention-grace":        {otherTest: "test/e2e: TestRetentionUnderKills"},
		"retention-preview":      {otherTest: "internal/runtime/retention: TestNeededRunsStay", value: "true", readOption: func(o options) any { return policyOf(o).Preview }},
		"drain-timeout":          {otherTest: "internal/server: TestOneOfSeveralIsOutOfTime"},
		"trace-sample":           {otherTest: "internal/server: TestTrace"},
		"data-key-age":           {otherTest: "internal/store: TestRotate", value: "7h", readOption: func(o options) any { got, _, _ := o.storage(); return got.DataKeyAge }},
	}
}

func flagsOfPorts() map[string]flagProof {
	byServer := func(test string) flagProof { return flagProof{otherTest: "internal/grpcapi: " + test} }
	byA2A := func(test string) flagProof { return flagProof{otherTest: "internal/a2a: " + test} }
	return map[string]flagProof{
		"listen": byServer("TestTCPAndUnixSocket"), "socket": byServer("TestTCPAndUnixSocket"), "http": byServer("TestGatewayDrivesARun"),
		"http-host": byServer("TestEveryListenerIsGuarded"), "http-origin": byServer("TestGatewayDrivesARun"),
		"insecure-bind": byServer("TestEveryListenerIsGuarded"), "metrics": byServer("TestMetricsListener"),
		"tls-cert": byServer("TestTLS"), "tls-key": byServer("TestTLS"), "tls-client-ca": byServer("TestClientCertificates"),
		"channelz": {otherTest: "internal/server: TestEveryOperationOverEveryTransport"},
		"a2a":      {otherTest: "internal/server: TestAdded"}, "agent": {otherTest: "cmd/sidecar: namespaces.txtar"},
		"a2a-card-key": byA2A("TestSignedCard"), "a2a-grpc": byA2A("TestPublicAddresses"), "a2a-root": byA2A("TestPublicAddresses"),
		"a2a-url": byA2A("TestPublicAddresses"), "a2a-lenient-version": byA2A("TestVersionOverGRPC"), "a2a-require": byA2A("TestRequiredExtension"),
		"a2a-push": byA2A("TestWithoutStreamsAndPush"), "a2a-streaming": byA2A("TestWithoutStreamsAndPush"),
		"mcp":        {value: "false", ask: (*flagRig).listTools, withoutFlag: "200 OK", set: "404 Not Found"},
		"push-allow": {otherTest: "internal/server: TestPush"}, "otlp-endpoint": {otherTest: "internal/server: TestTrace"},
		"peer-listen": {otherTest: "internal/server: TestSeveralExecute"}, "peer-address": {otherTest: "test/e2e/cluster: TestBadInput"},
		"log-level": {otherTest: "cmd/sidecar: config.txtar"}, "log-format": {otherTest: "internal/server: TestNothingSecretIsTold"},
	}
}

func flagsOfFiles() map[string]flagProof {
	return map[string]flagProof{
		"config": {otherTest: "cmd/sidecar: config.txtar"}, "print-config": {otherTest: "cmd/sidecar: config.txtar"},
		"pack": {otherTest: "internal/server: TestServeAndDrain"}, "namespace": {otherTest: "internal/server: TestNamespacesAreApart"},
		"model": {otherTest: "internal/executor: TestBadEndpoints"}, "model-key": {otherTest: "test/e2e: TestAPackRunsWithoutCode"}, "models": {otherTest: "internal/server: TestModelsAreReadAgain"}, "provider": {otherTest: "internal/server: TestProvidersAreBound"},
		"usage-label": {otherTest: "cmd/sidecar: usage_rollups.txtar"},
		"budgets":     {otherTest: "internal/server: TestOperatedFilesAreReadAgain"}, "schedules": {otherTest: "internal/server: TestSchedules"}, "quotas-file": {otherTest: "internal/server: TestQuotas"},
		"certificates-file": {otherTest: "internal/a2a: TestClientCertificates"}, "tokens-file": {otherTest: "internal/server: TestAnswersByTheirRights"},
		"link-url": {otherTest: "test/e2e: TestDecisionLinks"}, "link-keys-file": {otherTest: "test/e2e: TestDecisionLinks"},
		"link-expiry": {otherTest: "internal/grpcapi/decisionlink: TestExpiry", value: "1h", readOption: func(o options) any { return o.config.LinkExpiry }},
		"oidc-file":   {otherTest: "internal/server: TestIssuersTokens"}, "audit": {otherTest: "internal/server: TestAudit"}, "audit-key": {otherTest: "cmd/sidecar: audit.txtar"},
		"audit-bytes": {otherTest: "internal/audit: TestChain"},
	}
}

func flagsOfStore() map[string]flagProof {
	return map[string]flagProof{
		"data": {otherTest: "internal/server: TestServeGoesOnAfterRestart"}, "encryption-key-file": {otherTest: "cmd/sidecar: sealed.txtar"},
		"store": {otherTest: "cmd/sidecar: postgres.txtar"}, "store-schema": {otherTest: "cmd/sidecar: postgres.txtar"}, "store-password-file": {otherTest: "cmd/sidecar: postgres.txtar"},
		"accept-loss-on-failover": {otherTest: "cmd/sidecar: postgres.txtar"}, "require-sync": {otherTest: "test/e2e/cluster: TestBadInput"},
	}
}

// TestEveryFlagDoesSomething: a flag that nothing reads, or that a default of each pack hides, is
// a promise that is not kept. A new flag needs a row.
func TestEveryFlagDoesSomething(t *testing.T) {
	t.Parallel()
	proofs, fs := flagProofs(), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(fs)
	plain := newFlagRig(t, "")
	fs.VisitAll(func(f *pflag.Flag) {
		p, ok := proofs[f.Name]
		delete(proofs, f.Name)
		if !ok {
			t.Errorf("--%s has no row: what does it change?", f.Name)
			return
		}
		t.Run(f.Name, func(t *testing.T) { p.check(t, f.Name, plain) })
	})
	delete(proofs, "print-config") // the command's own
	for name := range proofs {
		t.Errorf("there is no flag --%s", name)
	}
}

func (p *flagProof) check(t *testing.T, name string, plain *flagRig) {
	if p.otherTest != "" {
		testExists(t, p.otherTest)
	}
	if p.readOption != nil {
		without, with := p.readOption(options{config: parseFlags(t, "")}), p.readOption(options{config: parseFlags(t, "--"+name+"="+p.value)})
		if without == with {
			t.Errorf("--%s=%s does not arrive: %v", name, p.value, with)
		}
	}
	if p.ask == nil {
		return
	}
	if got := p.ask(plain.newFlagRig(t)); got != p.withoutFlag {
		t.Errorf("without --%s: %s, want %s", name, got, p.withoutFlag)
	}
	if got := p.ask(newFlagRig(t, "--"+name+"="+p.value)); got != p.set {
		t.Errorf("with --%s=%s: %s, want %s", name, p.value, got, p.set)
	}
}

// policyOf is what the settings say of what is not kept.
func policyOf(o options) retention.Policy {
	got, _ := retentionPolicy(o, nil) // its rules are shown elsewhere
	return got
}

// testExists: there is a test of that name.
func testExists(t *testing.T, by string) {
	t.Helper()
	dir, name, _ := strings.Cut(by, ": ")
	if strings.HasSuffix(name, ".txtar") {
		if _, err := os.Stat(filepath.Join("../..", dir, "testdata/script", name)); err != nil {
			t.Error(err)
		}
		return
	}
	files, _ := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if !slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "func "+name+"(t *testing.T)")
	}) {
		t.Errorf("there is no test %s", by)
	}
}

// parseFlags are the settings of a command line.
func parseFlags(t *testing.T, flag string) config.Config {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(fs)
	args := []string{"--data", filepath.Join(t.TempDir(), "data")}
	if flag != "" {
		args = append(args, flag)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(fs, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// flagRig is a sidecar that was started with one flag, or with none.
type flagRig struct {
	t             *testing.T
	runs          pawlv1.RunServiceClient
	packs         pawlv1.PackServiceClient
	workerService pawlv1.WorkerServiceClient
	http          string
}

func newFlagRig(t *testing.T, flag string) *flagRig {
	t.Helper()
	c := parseFlags(t, flag)
	unbounded := strings.NewReplacer(`"id": "loop"`, `"id": "unbounded"`, `"budget": {"max_wall_time_sec": 3600},`, "").Replace(testkit.LoopPack)
	c.Listen, c.HTTP, c.Packs = "127.0.0.1:0", "127.0.0.1:0", []string{writeFile(t, "loop.json", testkit.LoopPack), writeFile(t, "unbounded.json", unbounded)}
	ready := operating(t, c).ready
	conn := dial(t, ready.GRPC)
	return &flagRig{
		http: ready.HTTP,
		t:    t, runs: pawlv1.NewRunServiceClient(conn), packs: pawlv1.NewPackServiceClient(conn),
		workerService: pawlv1.NewWorkerServiceClient(conn),
	}
}

// newFlagRig is the rig in another test.
func (r *flagRig) newFlagRig(t *testing.T) *flagRig {
	other := *r
	other.t = t
	return &other
}

// outcomeOf is OK, or why a call was refused.
func outcomeOf(err error) string {
	if err == nil {
		return "OK"
	}
	return cmp.Or(reasonOfError(err), err.Error())
}

func (r *flagRig) begin(change ...func(*pawlv1.StartRunRequest)) (*pawlv1.StartRunResponse, error) {
	req := &pawlv1.StartRunRequest{Pack: "loop", VariablesJson: `{"goal": "ship"}`, Execution: pawlv1.Execution_EXECUTION_CALLER}
	for _, f := range change {
		f(req)
	}
	return r.runs.StartRun(r.t.Context(), req)
}

func (r *flagRig) run(change ...func(*pawlv1.StartRunRequest)) *pawlv1.StartRunResponse {
	r.t.Helper()
	got, err := r.begin(change...)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r *flagRig) refusedStart(change func(*pawlv1.StartRunRequest)) string {
	_, err := r.begin(change)
	return outcomeOf(err)
}

// worker registers one, until the test ends.
func (r *flagRig) worker(id string) (pawlv1.WorkerService_WorkClient, *pawlv1.WorkerRegistered, error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	stream, err := r.workerService.Work(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := stream.Send(&pawlv1.WorkRequest{Credits: &pawlv1.WorkCredits{Turns: 1}, Item: &pawlv1.WorkRequest_Register{Register: &pawlv1.WorkerRegistration{
		WorkerId: id, Packs: []string{"loop"}, Prompts: []string{"*"}, Tools: []string{"*"}, TurnCapacity: 1000, StepCapacity: 1000,
	}}}); err != nil {
		return nil, nil, err
	}
	first, err := stream.Recv()
	return stream, first.GetRegistered(), err
}

func (r *flagRig) lease() string {
	r.run(func(req *pawlv1.StartRunRequest) { req.Execution = pawlv1.Execution_EXECUTION_WORKERS })
	stream, _, err := r.worker("lease")
	if err != nil {
		return outcomeOf(err)
	}
	got, err := stream.Recv()
	if err != nil {
		return outcomeOf(err)
	}
	return got.GetTurn().GetLease().GetDuration().AsDuration().String()
}

func (r *flagRig) wallTime(pack string) string {
	id := r.run(func(req *pawlv1.StartRunRequest) { req.Pack = pack }).GetRun().GetRunId()
	got, err := r.runs.GetRun(r.t.Context(), &pawlv1.GetRunRequest{RunId: id})
	if err != nil {
		return outcomeOf(err)
	}
	return got.GetBudgets().GetMaxWallTime().AsDuration().String()
}

// artifacts writes n values of so many bytes.
func (r *flagRig) artifacts(n, size int) string {
	started := r.run()
	turn := started.GetTurn()
	for i := range n {
		_, err := r.runs.SetArtifacts(r.t.Context(), &pawlv1.SetArtifactsRequest{
			RunId: started.GetRun().GetRunId(), TurnToken: turn.GetToken(), WriteId: fmt.Sprint("w", i),
			Artifacts: []*pawlv1.ArtifactWrite{{Name: "log", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{
				Json: fmt.Sprintf("%q", strings.Repeat("a", size-2)),
			}}}},
		})
		if err != nil {
			return outcomeOf(err)
		}
	}
	return "OK"
}

func (r *flagRig) transitions() string {
	started := r.run()
	turn := started.GetTurn()
	for range 3 {
		got, err := r.runs.CompleteTurn(r.t.Context(), &pawlv1.CompleteTurnRequest{
			RunId: started.GetRun().GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Event: "Again",
		})
		if err != nil {
			return outcomeOf(err)
		}
		if turn = got.GetTurn(); turn.GetToken() == "" {
			return got.GetStatus().String()
		}
	}
	return "OK"
}

func (r *flagRig) tool() string {
	started := r.run()
	turn := started.GetTurn()
	got, err := r.runs.RequestStep(r.t.Context(), &pawlv1.RequestStepRequest{
		RunId: started.GetRun().GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "run_tests", PayloadJson: `{"path": "."}`}},
	})
	if err != nil {
		return outcomeOf(err)
	}
	if denied := got.GetOutcomes()[0].GetDenial(); denied != nil {
		return denied.GetCode()
	}
	return "OK"
}

func words(n int) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: strings.Repeat("a", n)}}}
}

func (r *flagRig) input() string {
	return r.refusedStart(func(req *pawlv1.StartRunRequest) { req.Input = words(200) })
}

func (r *flagRig) variables() string {
	return r.refusedStart(func(req *pawlv1.StartRunRequest) {
		req.VariablesJson = fmt.Sprintf(`{"goal": %q}`, strings.Repeat("a", 200))
	})
}

func (r *flagRig) labels() string {
	return r.refusedStart(func(req *pawlv1.StartRunRequest) { req.Labels = map[string]string{"a": "1", "b": "2"} })
}

func (r *flagRig) second() string {
	r.run()
	return r.refusedStart(func(*pawlv1.StartRunRequest) {})
}

func (r *flagRig) inputs() string {
	id := r.run().GetRun().GetRunId()
	for i := range 2 {
		if _, err := r.runs.SendInput(r.t.Context(), &pawlv1.SendInputRequest{RunId: id, MessageId: fmt.Sprint("m", i), Parts: words(1)}); err != nil {
			return outcomeOf(err)
		}
	}
	return "OK"
}

func (r *flagRig) largePack() string {
	_, err := r.packs.RegisterPack(r.t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(testkit.LoopPack + strings.Repeat(" ", 8<<10))})
	return outcomeOf(err)
}

func (r *flagRig) largeMessage() string {
	return r.refusedStart(func(req *pawlv1.StartRunRequest) {
		req.VariablesJson = fmt.Sprintf(`{"goal": %q}`, strings.Repeat("a", 100<<10))
	})
}

func (r *flagRig) blob() string {
	stream, err := r.runs.PutBlob(r.t.Context())
	if err != nil {
		return outcomeOf(err)
	}
	_ = stream.Send(&pawlv1.PutBlobRequest{Data: make([]byte, 2<<10), Last: true}) // what became of it says the answer
	_, err = stream.CloseAndRecv()
	return outcomeOf(err)
}

func (r *flagRig) workers() string {
	if _, _, err := r.worker("one"); err != nil {
		return outcomeOf(err)
	}
	_, _, err := r.worker("two")
	return outcomeOf(err)
}

func (r *flagRig) streams() string {
	for range 2 {
		stream, err := r.runs.StreamTransitions(r.t.Context(), &pawlv1.StreamTransitionsRequest{FromNow: true, Follow: true})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			return outcomeOf(err)
		}
	}
	return "OK"
}

func (r *flagRig) capacities() string {
	_, got, err := r.worker("capacities")
	if err != nil {
		return outcomeOf(err)
	}
	return fmt.Sprintf("%d turns, %d steps", got.GetTurnCapacity(), got.GetStepCapacity())
}

// listTools returns the HTTP status of a request for the agents as MCP tools.
func (r *flagRig) listTools() string {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.http+"/mcp", strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	_ = answer.Body.Close()
	return answer.Status
}

func (r *flagRig) repeatCall() string {
	for range 50 {
		if _, err := r.runs.ListRuns(r.t.Context(), &pawlv1.ListRunsRequest{}); err != nil {
			return outcomeOf(err)
		}
	}
	return "OK"
}
