package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/powerdisk"
)

// directoryDay is what the incidents of a sidecar on a directory share.
type directoryDay struct {
	disk *powerdisk.Disk
	// settings, budgets and backups are the settings file, the file of budgets and the directory of backups.
	settings, budgets, backups string
	// stopWorker ends the worker that serves the runs.
	stopWorker func()
	receiver   *receiver
	// edge is a second sidecar, with TLS and tokens. Its files are in edgeDir, and edgeAt is the address of its metrics.
	edge            *sidecar
	edgeDir, edgeAt string
	// mainSidecar and mainAt are those of the day while an incident is about edge.
	mainSidecar *sidecar
	mainAt      string
}

// goodSettings are the settings of the day.
const goodSettings = "lease: 20s\n"

// budgets returns the file of budgets. A run of the pack operate costs 0.01 USD.
func budgets(usd float64) string {
	return fmt.Sprintf("accounts:\n  - {label: tenant, window: ever, max_cost_usd: %g}\n", usd)
}

// beginDirectory starts the sidecar of the day and its Prometheus, and takes the backup of the night.
func (d *day) beginDirectory() {
	d.t.Helper()
	own := &d.directory
	dir := d.t.TempDir()
	own.settings, own.budgets, own.backups = filepath.Join(dir, "config.yaml"), filepath.Join(dir, "budgets.yaml"), filepath.Join(dir, "backups")
	own.edgeDir = filepath.Join(dir, "edge")
	if err := os.Mkdir(own.edgeDir, 0o700); err != nil {
		d.t.Fatal(err)
	}
	replaceFile(d.t, own.settings, goodSettings)
	replaceFile(d.t, own.budgets, budgets(0.015))
	d.at, own.edgeAt = freeAddress(d.t), freeAddress(d.t)
	args := []string{
		"--config", own.settings, "--budgets", own.budgets, "--metrics", d.at, "--push-allow", "127.0.0.0/8", "--allow-tool", "*",
		"--pack", "testdata/alerts.pack.yaml", "--pack", "testdata/count.json", "--pack", "testdata/approve.pack.yaml", "--pack", "testdata/operate.pack.yaml",
		// No program listens there, so spans are lost.
		"--otlp-endpoint", "http://127.0.0.1:1", "--trace-sample", "1",
	}
	if o := newOnDisk(d.t, 1, args...); o != nil {
		d.s, own.disk = o.sidecar, o.disk
	} else {
		d.s = newSidecar(d.t, args...)
	}
	d.s.start()
	own.stopWorker = func() {}
	own.receiver = newReceiver(d.t)
	d.fill["BACKUPS"], d.fill["FILE"], d.fill["DIR"] = own.backups, own.settings, d.s.dir
	d.run("pawl backup BACKUPS")
	token := d.run("pawl token new prometheus runs:read --file " + own.file("tokens"))
	replaceFile(d.t, own.file("prometheus.token"), token)
	d.p = newPrometheus(d.t, target{address: d.at}, target{address: own.edgeAt, token: own.file("prometheus.token")})
	d.quiet()
}

func (o *directoryDay) file(name string) string { return filepath.Join(o.edgeDir, name) }

// start starts a run of a pack. Its id is RUN of the command.
func (d *day) start(pack string, by pawlv1.Execution, labels map[string]string) *pawlv1.TurnRef {
	d.t.Helper()
	got, err := d.s.runs().StartRun(d.ctx, &pawlv1.StartRunRequest{Pack: pack, Execution: by, Labels: labels})
	if err != nil {
		d.t.Fatal(err)
	}
	d.fill["RUN"] = got.GetRun().GetRunId()
	return &pawlv1.TurnRef{RunId: got.GetRun().GetRunId(), TurnSeq: got.GetTurn().GetTurnSeq(), Attempt: got.GetTurn().GetAttempt(), Token: got.GetTurn().GetToken()}
}

// work starts the worker that serves all prompts and tools.
func (d *day) work() {
	d.t.Helper()
	d.directory.stopWorker = startWorker(d.ctx, d.t, d.s, pawl.WorkerConfig{
		ID: "good",
		Prompts: map[string]pawl.TurnFunc{
			"clerk": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
				if turn.Assignment.GetTurn().GetTerminal() {
					return pawl.Completion{}, nil
				}
				_, err := turn.Step(ctx, "refund", "refund", `{"amount":200}`)
				return pawl.Completion{Event: "Done"}, err
			},
			"buyer": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
				if turn.Assignment.GetTurn().GetTerminal() {
					return pawl.Completion{}, nil
				}
				_, err := turn.Step(ctx, "buy", "buy", `{}`)
				return pawl.Completion{Event: "Done"}, err
			},
			"*": func(_ context.Context, turn *pawl.Turn) (pawl.Completion, error) {
				if turn.Assignment.GetTurn().GetTerminal() {
					return pawl.Completion{}, nil
				}
				return pawl.Completion{Event: "Enough", Usage: &pawlv1.Usage{Model: "m", InputTokens: 3, OutputTokens: 2, CostMicroUsd: 7}}, nil
			},
		},
		Tools: map[string]pawl.ToolFunc{"*": func(context.Context, *pawl.Step) (json.RawMessage, error) { return json.RawMessage(`"paid"`), nil }},
	})
}

// ends waits until the run of the incident has ended with a status.
func (d *day) ends(status pawlv1.RunStatus) {
	d.t.Helper()
	runs := d.s.runs()
	d.p.await("run "+d.fill["RUN"]+" is "+status.String(), func() bool {
		got, err := runs.GetRun(d.ctx, &pawlv1.GetRunRequest{RunId: d.fill["RUN"]})
		return err == nil && got.GetRun().GetStatus() == status
	})
}

// restart starts the sidecar of the day again, with the worker.
func (d *day) restart() {
	d.t.Helper()
	d.s.start()
	d.work()
}

// halt ends the worker and then the sidecar.
func (d *day) halt() {
	d.directory.stopWorker()
	d.s.kill()
}

// hup lets the sidecar read its files again.
func (d *day) hup() {
	d.t.Helper()
	signalled(d.t, d.s, syscall.SIGHUP)
}

// atEdge makes the incident one of the sidecar with TLS and tokens.
func (d *day) atEdge() {
	own := &d.directory
	own.mainSidecar, own.mainAt = d.s, d.at
	d.s, d.at = own.edge, own.edgeAt
	d.environment = []string{"PAWL_ADDR=" + d.fill["HOST:PORT"], "PAWL_CA=" + own.file("ca.pem"), "PAWL_TOKEN_FILE=" + own.file("app.token")}
}

func (d *day) leaveEdge() {
	d.s, d.at, d.environment = d.directory.mainSidecar, d.directory.mainAt, nil
}

// certify writes a certificate for the loopback address that ends at a time. It is its own authority.
func (d *day) certify(until time.Time) {
	d.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		d.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		d.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		d.t.Fatal(err)
	}
	own := &d.directory
	replaceFile(d.t, own.file("ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	replaceFile(d.t, own.file("server.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
}

// damage flips bytes of the newest table of the stopped sidecar's directory.
func (d *day) damage() {
	d.t.Helper()
	all := tables(d.s.dir)
	if len(all) == 0 {
		d.t.Fatalf("%s has no tables", d.s.dir)
	}
	raw, err := os.ReadFile(all[0])
	if err == nil {
		for n := range 64 {
			raw[len(raw)/2+n] ^= 0xFF
		}
		err = os.WriteFile(all[0], raw, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// incidentsOfADirectory are the incidents of a sidecar whose store is in a directory.
var incidentsOfADirectory = []incident{
	{
		symptom: "Runs wait, and no worker takes them", alert: "PawlWorkUnserved",
		command: "pawl runs list --unserved", says: `count`,
		fix:   "Start a worker that serves the pack, prompt or tool of these runs.",
		bring: func(d *day) { d.start("count", pawlv1.Execution_EXECUTION_WORKERS, nil) },
		repair: func(d *day) {
			d.work()
			d.ends(pawlv1.RunStatus_RUN_STATUS_COMPLETED)
		},
	},
	{
		symptom: "A worker fails its work", metric: `pawl_worker_failures_total{cause="failed"}`, log: "worker failed or lost its work",
		command: "pawl workers show WORKER", says: `last failure +\S+ prompt counter failed in run \S+, attempt \d: HANDLER_ERROR: no route to the model`,
		fix: "Correct this worker, or stop it: its work goes to the others.",
		bring: func(d *day) {
			d.directory.stopWorker()
			d.fill["WORKER"] = "bad"
			d.directory.stopWorker = startWorker(d.ctx, d.t, d.s, pawl.WorkerConfig{ID: "bad", Prompts: map[string]pawl.TurnFunc{
				"*": func(context.Context, *pawl.Turn) (pawl.Completion, error) {
					return pawl.Completion{}, errors.New("no route to the model")
				},
			}})
			d.start("count", pawlv1.Execution_EXECUTION_WORKERS, nil)
		},
		repair: func(d *day) {
			d.directory.stopWorker()
			d.work()
			d.start("count", pawlv1.Execution_EXECUTION_WORKERS, nil)
			d.ends(pawlv1.RunStatus_RUN_STATUS_COMPLETED)
		},
	},
	{
		symptom: "A run ends ESCALATED", alert: "PawlRunsEscalated", log: "run ended", lasts: true,
		command: "pawl runs list --status ESCALATED", says: `alerts`,
		fix: "`pawl runs trace RUN` says why. Remove the cause, then start or fork the run again.",
		bring: func(d *day) {
			turn := d.start("alerts", pawlv1.Execution_EXECUTION_CALLER, nil)
			if _, err := d.s.runs().FailTurn(d.ctx, &pawlv1.FailTurnRequest{
				RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(), Error: &pawlv1.Fault{Code: "BROKEN", Message: "a test"}, Retryable: true,
			}); err != nil {
				d.t.Fatal(err)
			}
		},
		repair: func(d *day) {
			line := lineWith(d.s.stderr.String(), `msg="run ended" run_id=`+d.fill["RUN"])
			for _, attribute := range []string{`namespace=default`, `trace_id=[0-9a-f]{32}`, `reason=\S+`} {
				if !regexp.MustCompile(`\b` + attribute).MatchString(line) {
					d.t.Errorf("the line about the run does not have %s: %q", attribute, line)
				}
			}
		},
	},
	{
		symptom: "A call waits for a person", shows: "`pawl runs list --waiting approval` has the run",
		command: "pawl approvals list", says: `refund`,
		fix:   "Decide: `pawl approvals approve RUN STEP`, `edit` or `deny`.",
		bring: func(d *day) { d.start("approve", pawlv1.Execution_EXECUTION_WORKERS, nil) },
		repair: func(d *day) {
			if listed := d.run("pawl runs list --waiting approval"); !strings.Contains(listed, "approve") {
				d.t.Errorf("the list of runs that wait for an approval is\n%s", listed)
			}
			d.run("pawl approvals approve RUN 1")
			d.ends(pawlv1.RunStatus_RUN_STATUS_COMPLETED)
		},
	},
	{
		symptom: "An account is used up", metric: `pawl_runs_ended_total{status="BUDGET_EXHAUSTED"}`, log: "run ended",
		command: "pawl budgets", says: `cost +\S+ settled, .* reserved of .*`,
		fix: "Raise the limit in the file of `--budgets`. The sidecar reads it within four seconds. Then start or fork the runs again.",
		bring: func(d *day) {
			for _, ended := range []pawlv1.RunStatus{pawlv1.RunStatus_RUN_STATUS_COMPLETED, pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED} {
				d.start("operate", pawlv1.Execution_EXECUTION_WORKERS, map[string]string{"tenant": "acme"})
				d.ends(ended)
			}
		},
		repair: func(d *day) {
			replaceFile(d.t, d.directory.budgets, budgets(5))
			d.hup()
			d.p.await("the new limit holds", func() bool { return regexp.MustCompile(`acme/ever\n.* of \$?5\b`).MatchString(d.run("pawl budgets")) })
			d.start("operate", pawlv1.Execution_EXECUTION_WORKERS, map[string]string{"tenant": "acme"})
			d.ends(pawlv1.RunStatus_RUN_STATUS_COMPLETED)
		},
	},
	{
		symptom: "The receiver of a webhook is down", alert: "PawlDeliveriesFailing", metric: `pawl_subscription_lag{kind="webhook"}`, log: "delivery failed",
		command: "pawl deliveries list --troubled", says: `webhook/shop.*`,
		fix: "Correct the receiver. Its events are tried again; `pawl deliveries resend RECEIVER --all` sends its dead letters.",
		bring: func(d *day) {
			d.directory.receiver.down.Store(true)
			if _, err := d.s.deliveries().PutWebhook(d.ctx, &pawlv1.PutWebhookRequest{
				WebhookId: "shop", Url: d.directory.receiver.URL, Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", FromBeginning: true,
			}); err != nil {
				d.t.Fatal(err)
			}
		},
		repair: func(d *day) { d.directory.receiver.down.Store(false) },
	},
	{
		symptom: "Backups have stopped", alert: "PawlBackupOld",
		command: "pawl backup verify BACKUPS", says: `taken \S+Z`,
		fix:    "Find out why the job of the backups stopped. Then take one: `pawl backup BACKUPS`.",
		bring:  func(*day) {},
		repair: func(d *day) { d.run("pawl backup BACKUPS") },
	},
	{
		symptom: "The disk is nearly full", alert: "PawlDiskLow", log: "disk almost full, new work refused",
		command: "pawl stats", says: `on disk.*`,
		fix: "Enlarge the disk or free space: a [retention](retention.md#retention) rule, `pawl compact`, old backups.",
		bring: func(d *day) {
			if d.directory.disk == nil {
				d.t.Fatal("NOT RUN: the disk is mounted by FUSE, which wants Linux, /dev/fuse and root or fusermount3")
			}
			d.directory.disk.Set(powerdisk.Faults{Free: 1 << 20})
			runs := d.s.runs()
			d.p.await("new work is refused with DISK_LOW", func() bool {
				_, err := runs.StartRun(d.ctx, &pawlv1.StartRunRequest{Pack: "count", Execution: pawlv1.Execution_EXECUTION_CALLER})
				return play.Reason(err) == "DISK_LOW"
			})
		},
		repair: func(d *day) { d.directory.disk.Set(powerdisk.Faults{}) },
	},
	{
		symptom: "The process is gone", alert: "PawlDown",
		command: "pawl health", says: `error: .*`, fails: true,
		fix:    "Start it again. No repair is needed.",
		bring:  func(d *day) { d.halt() },
		repair: func(d *day) { d.restart() },
	},
	{
		symptom: "A setting is wrong, and the sidecar does not start", alert: "PawlDown", shows: "exit code 2 and `error:` on standard error",
		command: "pawl config check --config FILE", says: `lease.*`, fails: true,
		fix: "Correct each fault that the command names, and start the sidecar.",
		bring: func(d *day) {
			d.halt()
			replaceFile(d.t, d.directory.settings, "lease: soon\n")
			if _, err := d.s.tryStart(); err == nil {
				d.t.Fatal("it started")
			}
			<-d.s.done
			if code := d.s.cmd.ProcessState.ExitCode(); code != 2 {
				d.t.Errorf("exit code %d, want 2: %s", code, d.s.stderr.String())
			}
		},
		repair: func(d *day) {
			replaceFile(d.t, d.directory.settings, goodSettings)
			d.restart()
		},
	},
	{
		symptom: "The store is damaged, and the sidecar does not start", alert: "PawlDown", shows: "exit code 1 and `the store is damaged` on standard error",
		command: "pawl check --data DIR", says: `fault: .*`, fails: true,
		fix: "Restore the last backup: `pawl restore BACKUPS --data NEW` ([damage](backup.md#damage)). What is newer, or if there is none: `pawl salvage` a copy of the directory ([salvage](backup.md#salvage)).",
		bring: func(d *day) {
			d.run("pawl backup BACKUPS")
			d.halt()
			d.damage()
			if _, err := d.s.tryStart(); err == nil {
				d.t.Fatal("it started")
			}
			<-d.s.done
			if said := d.s.stderr.String(); d.s.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, "the store is damaged") {
				d.t.Errorf("it ended with %v: %s", d.s.cmd.ProcessState, said)
			}
		},
		repair: func(d *day) {
			d.s.dir = filepath.Join(d.t.TempDir(), "new")
			d.fill["NEW"] = d.s.dir
			d.run("pawl restore BACKUPS --data NEW")
			d.restart()
		},
	},
	{
		symptom: "The certificate has expired", alert: "PawlCertificateExpires", log: "configuration warning",
		command: "pawl health --addr HOST:PORT --ca CA", says: `error: .*expired.*`, fails: true,
		fix: "Replace the files of `tls_cert` and `tls_key`. The sidecar reads them within four seconds.",
		bring: func(d *day) {
			own, address := &d.directory, freeAddress(d.t)
			d.certify(time.Now().Add(-time.Hour))
			replaceFile(d.t, own.file("app.token"), d.run("pawl token new app runs:read --file "+own.file("tokens")))
			own.edge = newSidecar(d.t, "--metrics", own.edgeAt, "--tls-cert", own.file("ca.pem"), "--tls-key", own.file("server.key"), "--tokens-file", own.file("tokens"), "--listen", address)
			d.fill["HOST:PORT"], d.fill["CA"] = address, own.file("ca.pem")
			own.edge.start()
			d.atEdge()
		},
		repair: func(d *day) {
			d.certify(time.Now().Add(365 * 24 * time.Hour))
			d.hup()
			d.p.await("the new certificate is served", func() bool { _, err := d.try("pawl runs list"); return err == nil })
		},
	},
	{
		symptom: "A token was revoked", metric: `pawl_calls_refused_total{reason="TOKEN_UNKNOWN"}`, log: "call refused",
		command: "pawl runs list", says: `error: .*TOKEN_UNKNOWN.*`, fails: true,
		fix: "Make a new one with `pawl token new PRINCIPAL SCOPES --file TOKENS`, and give it to the caller. The sidecar reads the file within four seconds.",
		bring: func(d *day) {
			file := d.directory.file("tokens")
			raw, err := os.ReadFile(file)
			if err != nil {
				d.t.Fatal(err)
			}
			replaceFile(d.t, file, regexp.MustCompile(`(?m)^.*\bapp\b.*\n`).ReplaceAllString(string(raw), ""))
			d.hup()
			d.p.await("the token is refused", func() bool { _, err := d.try("pawl runs list"); return err != nil })
		},
		repair: func(d *day) {
			own := &d.directory
			replaceFile(d.t, own.file("app.token"), d.run("pawl token new app runs:read --file "+own.file("tokens")))
			d.hup()
			d.p.await("the new token is accepted", func() bool { _, err := d.try("pawl runs list"); return err == nil })
			d.leaveEdge()
		},
	},
}
